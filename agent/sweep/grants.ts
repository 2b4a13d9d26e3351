/** The grant files of host scope as the sweep sees them (A§4.4). Names that clients of the API gave, and the node's own, are theirs. */
import type { HostScope } from "../../ipam-plugin/host-scope/host-scope.ts";
import { formatAddress } from "../../lib/addresses/address.ts";
import type { Allocated, SweptStore } from "./address-sweep.ts";

/** @param hostScope asked at each look */
export function sweptGrants(hostScope: () => Pick<HostScope, "holdings" | "files">): SweptStore {
  const list = async () =>
    (await hostScope().holdings()).flatMap(({ address, grant }): Allocated[] => {
      // One with a time limit ends by itself.
      if (grant === undefined || grant.owner.kind === "name" || grant.expiresAtMs !== undefined) return [];
      const { network, containerId, interfaceName, pod } = grant.owner;
      return [
        {
          key: `${formatAddress(address)} ${grant.token}`,
          sinceMs: grant.grantedAtMs,
          network,
          containerId,
          ifname: interfaceName,
          addresses: [address],
          ...(pod === undefined ? {} : { pod }),
          release: async () => (await hostScope().files.release([address], ({ token }) => token === grant.token)).length > 0,
        },
      ];
    });
  return { kind: "grant-without-endpoint", list };
}
