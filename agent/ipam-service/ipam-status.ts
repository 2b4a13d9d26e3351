/** The dump of the node's ranges as the API shows it (A§4.6). Pure. */
import type { GrantRow, HostScopeDump } from "../../ipam-plugin/host-scope/dump.ts";
import type { IpamStatus } from "../api/ipam-models.ts";

export function ipamStatusOf({ ranges, grants }: HostScopeDump): IpamStatus {
  return {
    status: ranges.map(({ family, cidr, used, size }) => `IPv${family}: ${used}/${size} allocated from ${cidr}`).join(", "),
    allocations: Object.fromEntries(grants.map(({ address, owner }) => [address, owner])),
    ranges: ranges.map(({ family, ...figures }) => {
      const own = grants.filter((grant) => grant.family === family);
      return {
        family: family === 4 ? "ipv4" : "ipv6",
        ...figures,
        foreign: own.filter(({ isForeign }) => isForeign).length,
        grants: own.map(grantOf),
      };
    }),
  };
}

function grantOf({ address, owner, pod, endpoint, grantedAtMs, expiresAtMs }: GrantRow) {
  return {
    address,
    owner,
    ...(pod === undefined ? {} : { pod }),
    ...(endpoint === undefined ? {} : { endpoint }),
    "granted-at": time(grantedAtMs ?? 0),
    ...(expiresAtMs === undefined ? {} : { "expires-at": time(expiresAtMs) }),
  };
}

function time(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}
