/**
 * Counts policy objects by asking for one of each kind, and how many others there are: an answer of a kilobyte, however many policies a
 * cluster has. The agent reads NetworkPolicy alone; whoever wrote an object of another kind may believe in it.
 */
import { type Fields, isNumber, isText, parseObject, section } from "../lib/json/decode.ts";
import type { ApiConnection } from "../lib/kubernetes/client/connection.ts";
import type { Exchanged } from "../lib/kubernetes/client/transport.ts";

export const NETWORK_POLICIES = "/apis/networking.k8s.io/v1/networkpolicies?limit=1";

const POLICY_GROUP = "policy.networking.k8s.io";

interface PolicyKind {
  readonly kind: string;
  readonly plural: string;
  /** Groups and versions that may have its objects: the first one that is served counts. */
  readonly groups: readonly string[];
}

/** Lists the kinds that nobody here reads. */
export const UNREAD_KINDS: readonly PolicyKind[] = [
  // Both of Calico's groups show the same objects where its API server runs.
  { kind: "NetworkPolicy", plural: "networkpolicies", groups: ["crd.projectcalico.org/v1", "projectcalico.org/v3"] },
  { kind: "GlobalNetworkPolicy", plural: "globalnetworkpolicies", groups: ["crd.projectcalico.org/v1", "projectcalico.org/v3"] },
  { kind: "ClusterNetworkPolicy", plural: "clusternetworkpolicies", groups: [`${POLICY_GROUP}/v1alpha2`] },
  { kind: "AdminNetworkPolicy", plural: "adminnetworkpolicies", groups: [`${POLICY_GROUP}/v1alpha1`] },
  { kind: "BaselineAdminNetworkPolicy", plural: "baselineadminnetworkpolicies", groups: [`${POLICY_GROUP}/v1alpha1`] },
];

/** `refused`: the account may not know. */
export type PolicyCount = { readonly kind: "refused" } | { readonly kind: "counted"; readonly atLeast: number };

/** Reads the answer to a list with `limit=1`. @throws Error for any other answer than a list or a refusal */
export function countOf({ status, body }: Pick<Exchanged, "status" | "body">): PolicyCount {
  if (status === 403) return { kind: "refused" };
  if (status !== 200) throw new Error(`the API server answered ${status} when it was asked for network policies`);
  const list = parseObject(body);
  return { kind: "counted", atLeast: listed(list) + remaining(section(list, "metadata")) };
}

function listed({ items }: Fields): number {
  return Array.isArray(items) ? items.length : 0;
}

/** Counts those that the list leaves out. The server may leave the number out, and says then only that there are more. */
function remaining(metadata: Fields): number {
  const { remainingItemCount: count, continue: next } = metadata;
  if (isNumber(count)) return count;
  return isText(next) && next !== "" ? 1 : 0;
}

/**
 * @returns the kind with its group, "NetworkPolicy.crd.projectcalico.org"; `undefined` where the server refuses to say
 * @throws Error when it cannot be found out
 */
export async function countUnread(
  connection: Pick<ApiConnection, "exchange">,
  { kind, plural, groups }: PolicyKind,
): Promise<{ readonly kind: string; readonly atLeast: number } | undefined> {
  let isRefused = false;
  for (const group of groups) {
    const answer = await connection.exchange({ method: "GET", path: `/apis/${group}/${plural}?limit=1` });
    // No such kind is defined.
    if (answer.status === 404) continue;
    const found = countOf(answer);
    if (found.kind === "counted") return { kind: `${kind}.${group.slice(0, group.indexOf("/"))}`, atLeast: found.atLeast };
    isRefused = true;
  }
  return isRefused ? undefined : { kind, atLeast: 0 };
}
