/**
 * Fixed addresses and a fixed MAC that the runtime asks for: `runtimeConfig.ips` and `runtimeConfig.mac`, which a user gives through a
 * capability on purpose, or else `IP=` and `MAC=` of CNI_ARGS. Annotations of a pod beat both (annotations/requests.ts).
 */
import { type Address, type Family, formatAddress, parseAddress, parsePrefix } from "../addresses/address.ts";
import type { NetworkConfig } from "../config/network-config.ts";
import { TortieError } from "../errors/errors.ts";
import type { CniArgs } from "./cni-args.ts";
import { isAssignableMac, type MacAddress, parseMac, UNASSIGNABLE_MAC } from "./mac.ts";

type Asking = Pick<NetworkConfig, "runtimeConfig">;

export interface Requested {
  /** At most one of each family. */
  readonly addresses: readonly Address[];
  readonly mac: MacAddress | undefined;
}

/** @throws TortieError `addresses-requested-invalid`, `mac-invalid` */
export function requestedOf(config: Asking, args: Pick<CniArgs, "ip" | "mac">): Requested {
  return { addresses: requestedAddresses(config, args), mac: requestedMac(config, args) };
}

/**
 * At most one address of each family, in the order given. A prefix length behind an address is dropped: pod addresses are single hosts.
 * @throws TortieError `addresses-requested-invalid` for other text and for two addresses of a family
 */
export function requestedAddresses(config: Asking, args: Pick<CniArgs, "ip">): readonly Address[] {
  const { ips } = config.runtimeConfig;
  if (ips.length === 0) return args.ip === undefined ? [] : [args.ip];
  const byFamily = new Map<Family, Address>();
  for (const [index, text] of ips.entries()) {
    const address = parseAddress(text) ?? parsePrefix(text)?.address;
    if (address === undefined) {
      throw new TortieError("addresses-requested-invalid", `runtimeConfig.ips[${index}]: invalid IP address: ${JSON.stringify(text)}`);
    }
    const earlier = byFamily.get(address.family);
    if (earlier !== undefined) {
      throw new TortieError(
        "addresses-requested-invalid",
        `runtimeConfig.ips asks for two IPv${address.family} addresses, ${formatAddress(earlier)} and ${formatAddress(address)}; only one can be given`,
      );
    }
    byFamily.set(address.family, address);
  }
  return [...byFamily.values()];
}

/**
 * @returns canonical text, `undefined` when none is requested
 * @throws TortieError `mac-invalid` naming the source
 */
export function requestedMac(config: Asking, args: Pick<CniArgs, "mac">): MacAddress | undefined {
  if (config.runtimeConfig.mac !== undefined) return macFrom("runtimeConfig.mac", config.runtimeConfig.mac);
  return args.mac === "" ? undefined : macFrom("MAC in CNI_ARGS", args.mac);
}

/** @throws TortieError `mac-invalid` naming the source and what is wrong */
function macFrom(source: string, text: string): MacAddress {
  const parsed = parseMac(text);
  if ("mac" in parsed) {
    if (isAssignableMac(parsed.mac)) return parsed.mac;
    throw new TortieError("mac-invalid", `MAC address ${text} provided via ${source}: ${UNASSIGNABLE_MAC}`);
  }
  throw new TortieError("mac-invalid", `failed to parse MAC address ${text} provided via ${source}: ${parsed.reason}`);
}
