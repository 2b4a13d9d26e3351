/** Desired states written by hand, as the plan of an ADD makes them (C§4.2, C§4.3), for tests of the dataplane alone. */

import type { AttachmentName } from "../../dataplane/alias.ts";
import type { Sysctl } from "../../dataplane/desired-state.ts";
import { address, prefix } from "./addresses.ts";
import type { Pod } from "./node.ts";
import type { StateInSandbox } from "./programs/dataplane-by-path.ts";

export const HOST_INTERFACE = "calif3c3d6a083e";
/** A plain container's. */
export const OWNER: AttachmentName = { network: "net1", containerId: "cid1", ifname: "eth0" };
const HOST_LINK_LOCAL = "fe80::ecee:eeff:feee:eeee";

export interface DesiredOptions {
  readonly addresses?: readonly string[];
  readonly host?: string;
  readonly owner?: Partial<AttachmentName>;
  readonly predecessors?: readonly string[];
  readonly podInterface?: string;
  readonly mac?: string;
  readonly neighbours?: readonly { readonly address: string; readonly mac: string }[];
  readonly kind?: "veth" | "netkit";
  readonly mtu?: number;
  readonly queues?: number;
}

/** Everything of one attachment; IPv4 only unless `addresses` has an IPv6 one. */
export function desiredFor(pod: Pod, options: DesiredOptions = {}): StateInSandbox {
  const { addresses = ["10.60.0.0/32"], host = HOST_INTERFACE, podInterface = "eth0" } = options;
  const has4 = addresses.some((address) => !address.includes(":"));
  const has6 = addresses.some((address) => address.includes(":"));
  const on = (family: 4 | 6, name: string, value: string, required = true): Sysctl => ({
    path: `net/ipv${family}/${name}`,
    value,
    required,
  });
  return {
    sandbox: pod.netnsPath,
    device: { kind: options.kind ?? "veth", mtu: options.mtu ?? 0, queues: options.queues ?? 1 },
    host: {
      name: host,
      mac: "ee:ee:ee:ee:ee:ee",
      owner: { ...OWNER, ...options.owner },
      predecessors: options.predecessors ?? [],
      sysctls: [
        ...(has4 ? [on(4, `conf/${host}/route_localnet`, "1"), on(4, `neigh/${host}/proxy_delay`, "0", false)] : []),
        ...(has4 ? [on(4, `conf/${host}/proxy_arp`, "1"), on(4, `conf/${host}/forwarding`, "1")] : []),
        ...(has6 ? [on(6, `conf/${host}/accept_dad`, "0"), on(6, `conf/${host}/disable_ipv6`, "0")] : []),
        ...(has6 ? [on(6, `conf/${host}/proxy_ndp`, "1"), on(6, `conf/${host}/forwarding`, "1")] : []),
        on(6, `conf/${host}/accept_ra`, "0", false),
      ],
      addresses: has6 ? [prefix(`${HOST_LINK_LOCAL}/64`)] : [],
      routes: addresses.map((text) => ({ destination: prefix(text), scope: "link" })),
    },
    pod: {
      name: podInterface,
      ...(options.mac === undefined ? {} : { mac: options.mac }),
      sysctlsBeforeUp: has6 ? [on(6, `conf/${podInterface}/accept_dad`, "0")] : [],
      sysctls: [
        ...(has6 ? ["all", "default", "lo"].map((scope) => on(6, `conf/${scope}/disable_ipv6`, "0")) : []),
        ...(has4 ? [on(4, "ip_forward", "0")] : []),
        ...(has6 ? [on(6, "conf/all/forwarding", "0")] : []),
      ],
      addresses: addresses.map(prefix),
      neighbours: (options.neighbours ?? []).map((neighbour) => ({ ...neighbour, address: address(neighbour.address) })),
      routes: [
        ...(has4 ? [{ destination: prefix("169.254.1.1/32"), scope: "link" } as const] : []),
        ...(has4 ? [{ destination: prefix("0.0.0.0/0"), gateway: address("169.254.1.1"), scope: "universe" } as const] : []),
        ...(has6 ? [{ destination: prefix("::/0"), gateway: address(HOST_LINK_LOCAL), scope: "universe" } as const] : []),
      ],
    },
  };
}
