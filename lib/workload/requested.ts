/**
 * Reads fixed addresses and a fixed MAC that the runtime asks for: `runtimeConfig.ips` and `runtimeConfig.mac`, which a user gives through
 * a capability on purpose, or else `IP=` and `MAC=` of CNI_ARGS. Annotations of a pod beat both (annotations/requests.ts). CNI_ARGS are
 * `KEY=VALUE` pairs joined by `;` (C§1.5, I§1.4).
 */
import { type Address, type Family, formatAddress, parseAddress, parsePrefix } from "../addresses/address.ts";
import type { NetworkConfig } from "../config/decode.ts";
import { TortieError } from "../errors/errors.ts";

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
 * Reads at most one address of each family, in the order given. A prefix length behind an address is dropped: pod addresses are single
 * hosts.
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
 * @returns canonical text, `undefined` when no MAC is requested
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

/** Canonical text: six octets in lower case, joined by colons. */
export type MacAddress = string;

/** "00:00:5e:00:53:01" with one separator throughout, or "0000.5e00.5301"; Go takes the same shapes for 8 and 20 octets. */
const PAIRS = /^[0-9a-f]{2}(?:(?::[0-9a-f]{2})+|(?:-[0-9a-f]{2})+)$/i;
const QUADS = /^[0-9a-f]{4}(?:\.[0-9a-f]{4})+$/i;

const ETHERNET_OCTETS = 6;

/** What is wrong with an address that `isAssignableMac` refuses. */
export const UNASSIGNABLE_MAC = "a multicast or all-zero address cannot be that of an interface";

/** MAC addresses, read as Go's net.ParseMAC reads them, which is what Calico's users are used to (recordings hwaddr-*). */
type ParsedMac = { readonly mac: MacAddress } | { readonly reason: string };

/**
 * Only six octets are a MAC address here. Calico also takes EUI-64, whose last two octets the kernel drops without a word while
 * the CNI result goes on showing them (recording hwaddr-eui64, a deliberate difference).
 */
export function parseMac(text: string): ParsedMac {
  if (!PAIRS.test(text) && !QUADS.test(text)) return { reason: "invalid MAC address" };
  const digits = text.toLowerCase().replaceAll(/[:.-]/g, "");
  if (digits.length !== ETHERNET_OCTETS * 2)
    return { reason: `invalid MAC address: ${digits.length / 2} octets instead of ${ETHERNET_OCTETS}` };
  return { mac: octetsOf(digits).join(":") };
}

/**
 * Tells whether a link can have this address: is_valid_ether_addr of include/linux/etherdevice.h, neither multicast nor all zero.
 * The kernel refuses the others with EADDRNOTAVAIL when everything else is already there (recording hwaddr-multicast).
 */
export function isAssignableMac(mac: MacAddress): boolean {
  const octets = mac.split(":").map((octet) => Number.parseInt(octet, 16));
  return ((octets[0] ?? 0) & 1) === 0 && octets.some((octet) => octet !== 0);
}

function octetsOf(digits: string): string[] {
  return Array.from({ length: digits.length / 2 }, (_, index) => digits.slice(index * 2, index * 2 + 2));
}

/** Absent keys are empty strings. */
export interface CniArgs {
  readonly podName: string;
  readonly podNamespace: string;
  /** K8S_POD_UID, by which the runtime knows the pod: of a static pod not that of its mirror. `undefined` when absent or empty. */
  readonly podUid: string | undefined;
  /** K8S_POD_LABELS, Tortie's own key, as it came: `podLabelsOf` judges it, so that DEL does not depend on it. */
  readonly podLabels: string;
  /** `IP=`; `undefined` when absent or empty. */
  readonly ip: Address | undefined;
  /** `MAC=`, Tortie's own key, as it came: `requestedMac` judges it, so that DEL does not depend on it. */
  readonly mac: string;
  /** Namespace of a plain container, for tests. */
  readonly testNamespace: string;
}

/** Keys that need no IgnoreUnknown where a workload is identified: by DEL and by the first look of ADD (I§1.4). */
const IDENTITY_KEYS: readonly string[] = ["IP", "MAC", "K8S_POD_NAME", "K8S_POD_NAMESPACE", "K8S_POD_INFRA_CONTAINER_ID"];

/** Keys that need no IgnoreUnknown where the IPAM plugin's ADD reads the address it is asked for (I§1.4, recording args-09). */
export const ADDRESS_KEYS: readonly string[] = ["IP", "MAC"];

/**
 * Makes what the main plugin reads and its IPAM plugin inherits: the runtime's own keys, K8S_POD_UID and the like, must not fail either
 * (C§0.1). An `IgnoreUnknown=0` further back still wins (recording args-15).
 */
export function withIgnoreUnknown(args: string): string {
  return args === "" ? "IgnoreUnknown=1" : `IgnoreUnknown=1;${args}`;
}

/**
 * Of a repeated key the last value counts. All keys are read whatever `known` holds; `known` only decides which ones are an error
 * without IgnoreUnknown.
 *
 * @param known case-sensitive
 * @throws TortieError `arguments-invalid` with Calico's texts, "ARGS: …"
 */
export function parseCniArgs(text: string, known: readonly string[] = IDENTITY_KEYS): CniArgs {
  const values = new Map<string, string>();
  const unknown: string[] = [];
  let ignoresUnknown = false;
  let ip: Address | undefined;
  for (const pair of text === "" ? [] : text.split(";")) {
    const parts = pair.split("=");
    const [key, value] = parts;
    if (parts.length !== 2 || key === undefined || value === undefined) throw invalid(`invalid pair ${JSON.stringify(pair)}`);
    values.set(key, value);
    if (key === "IgnoreUnknown") ignoresUnknown = readBoolean(pair, value);
    else if (key === "IP") ip = readAddress(pair, value);
    else if (!known.includes(key)) unknown.push(pair);
  }
  if (unknown.length > 0 && !ignoresUnknown) throw invalid(`unknown args [${unknown.map((pair) => JSON.stringify(pair)).join(" ")}]`);

  const textOf = (key: string) => values.get(key) ?? "";
  return {
    podName: textOf("K8S_POD_NAME"),
    podNamespace: textOf("K8S_POD_NAMESPACE"),
    podUid: textOf("K8S_POD_UID") || undefined,
    podLabels: textOf("K8S_POD_LABELS"),
    ip,
    mac: textOf("MAC"),
    testNamespace: textOf("CNI_TEST_NAMESPACE"),
  };
}

/** What a label's key and value consist of (apimachinery, validation.IsQualifiedName and IsValidLabelValue), as far as policy needs it. */
const LABEL = /^([A-Za-z0-9][A-Za-z0-9./_-]*):([A-Za-z0-9._-]*)$/;

/**
 * Reads labels of a pod that no API server knows: "app:web,tier:db". CNI_ARGS leave no other character between a key and its value: "=" and
 * ";" are taken.
 * @throws TortieError `arguments-invalid`
 */
export function podLabelsOf({ podLabels }: Pick<CniArgs, "podLabels">): Readonly<Record<string, string>> {
  const labels: Record<string, string> = {};
  for (const pair of podLabels === "" ? [] : podLabels.split(",")) {
    const [, key, value] = LABEL.exec(pair) ?? [];
    if (key === undefined || value === undefined) throw invalid(`K8S_POD_LABELS: ${JSON.stringify(pair)} is not KEY:VALUE`);
    labels[key] = value;
  }
  return labels;
}

function readBoolean(pair: string, value: string): boolean {
  const word = value.toLowerCase();
  if (word === "1" || word === "true") return true;
  if (word === "0" || word === "false") return false;
  throw invalid(`error parsing value of pair ${JSON.stringify(pair)}: boolean unmarshal error: invalid input ${value}`);
}

/** An empty value asks for nothing (recording ip-text-2). */
function readAddress(pair: string, value: string): Address | undefined {
  if (value === "") return undefined;
  const address = parseAddress(value);
  if (address === undefined) throw invalid(`error parsing value of pair ${JSON.stringify(pair)}: invalid IP address: ${value}`);
  return address;
}

function invalid(message: string): TortieError {
  return new TortieError("arguments-invalid", `ARGS: ${message}`);
}
