/** Asks the kernel for the policy table, and for the host ends that it knows: the others of ours are closed. */
import { unlessMissing } from "../../netlink/message.ts";
import type { Netlink } from "../../netlink/socket.ts";
import { elementsIn } from "../elements.ts";
import { ask } from "../message.ts";
import { IFNAME, interfaceKey } from "../sets.ts";
import { names, POLICY_TABLE } from "./layout.ts";
import { DIRECTIONS } from "./log-prefix.ts";

/** Says whether the table knows this host end, in both directions; false where there is no table. @throws NetlinkError */
export function isKnownEndpoint({ netfilter }: { readonly netfilter: Netlink }, hostInterface: string): boolean {
  const key = interfaceKey(hostInterface);
  const shape = { fields: [IFNAME], isMap: true };
  return DIRECTIONS.every((direction) => {
    const found = unlessMissing(() => netfilter.dump(ask("element", "inet", POLICY_TABLE, names.endpoints(direction))));
    return found !== undefined && elementsIn(found, shape)?.has(key) === true;
  });
}

/** Says whether the kernel has the table of network policy. @throws NetlinkError */
export function hasPolicyTable({ netfilter }: { readonly netfilter: Netlink }): boolean {
  return unlessMissing(() => netfilter.request(ask("table", "inet", POLICY_TABLE))) !== undefined;
}
