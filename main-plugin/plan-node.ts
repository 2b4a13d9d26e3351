/** What a node must hold for its attachments where there is no Felix: a pure decision, like the plan of an attachment. */
import type { NodeState } from "../dataplane/node-state.ts";
import { type Prefix, parsePrefix } from "../lib/addresses/address.ts";
import type { IPPool } from "../lib/datastore/resources.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { hostInterfacePrefixes } from "../lib/workload/interface-names.ts";
import type { NetworkCall } from "./call.ts";

/**
 * The node forwards the families of the addresses, masquerades as the pools' `natOutgoing` says, and keeps containers away from its
 * loopback.
 * @throws TortieError `nat-failed`, `interface-prefix-invalid`
 */
export function nodeStateOf(
  { env }: Pick<NetworkCall, "env">,
  addresses: readonly Prefix[],
  pools: readonly Pick<IPPool, "cidr" | "natOutgoing">[],
): NodeState {
  return {
    forwardedFamilies: [...new Set(addresses.map(({ address }) => address.family))],
    masquerading: {
      outgoing: pools.filter(({ natOutgoing }) => natOutgoing).map(({ cidr }) => prefixOf(cidr)),
      pools: pools.map(({ cidr }) => prefixOf(cidr)),
    },
    guardedPrefixes: hostInterfacePrefixes(env.FELIX_INTERFACEPREFIX),
  };
}

function prefixOf(cidr: string): Prefix {
  const prefix = parsePrefix(cidr);
  if (prefix === undefined) throw new TortieError("nat-failed", `pool "${cidr}" is not a CIDR`);
  return prefix;
}
