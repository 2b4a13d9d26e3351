/**
 * Counts the objects of other kinds of policy, which nobody here reads: whoever wrote them may believe in them. One object of each kind is
 * asked for, and how many others there are.
 */
import type { ApiConnection } from "../../../lib/kubernetes/client/connection.ts";
import type { Exchanged } from "../../../lib/kubernetes/client/transport.ts";
import type { Tasks } from "../../../lib/resident/tasks.ts";
import { factsOf } from "../../observe/health.ts";
import type { UnreadKind } from "./model.ts";
import type { SourcePart } from "./sources.ts";

const NAME = "unread-policies";
const INTERVAL_MS = 600_000;

const POLICY_GROUP = "policy.networking.k8s.io";

/** Each kind, with the groups and versions that may have its objects: the first one that is served counts. */
const KINDS: readonly { readonly kind: string; readonly plural: string; readonly groups: readonly string[] }[] = [
  // Both of Calico's groups show the same objects where its API server runs.
  { kind: "NetworkPolicy", plural: "networkpolicies", groups: ["crd.projectcalico.org/v1", "projectcalico.org/v3"] },
  { kind: "GlobalNetworkPolicy", plural: "globalnetworkpolicies", groups: ["crd.projectcalico.org/v1", "projectcalico.org/v3"] },
  { kind: "ClusterNetworkPolicy", plural: "clusternetworkpolicies", groups: [`${POLICY_GROUP}/v1alpha2`] },
  { kind: "AdminNetworkPolicy", plural: "adminnetworkpolicies", groups: [`${POLICY_GROUP}/v1alpha1`] },
  { kind: "BaselineAdminNetworkPolicy", plural: "baselineadminnetworkpolicies", groups: [`${POLICY_GROUP}/v1alpha1`] },
];

interface UnreadInput {
  readonly connection: Pick<ApiConnection, "exchange">;
  readonly tasks: Pick<Tasks, "update" | "remove">;
}

/** Looks now and every ten minutes. Nobody waits for it. */
export function unreadPolicies({ connection, tasks }: UnreadInput): SourcePart {
  let found: readonly UnreadKind[] = [];
  let refused: readonly string[] = [];
  return {
    start() {
      const run = async () => {
        const looks = await Promise.all(KINDS.map((kind) => lookFor(connection, kind)));
        found = looks.flatMap((look) => (look !== undefined && look.atLeast > 0 ? [look] : []));
        refused = KINDS.flatMap(({ kind, groups }, index) => (looks[index] === undefined ? [`${kind} (${groups.join(", ")})`] : []));
      };
      tasks.update(NAME, { run, intervalMs: INTERVAL_MS, isJittered: true, quiet: true });
    },
    gap: undefined,
    isComplete: true,
    unread: () => found,
    problems: () =>
      refused.length === 0
        ? []
        : [
            `whether there are other policies is not known: the agent's account may not list ${refused.join(", ")}; manifests/node/rbac.yaml has the right`,
          ],
    [Symbol.asyncDispose]: () => tasks.remove(NAME),
  };
}

/** @returns `undefined` where the server refuses to say @throws Error when it cannot be found out */
async function lookFor(
  connection: UnreadInput["connection"],
  { kind, plural, groups }: (typeof KINDS)[number],
): Promise<UnreadKind | undefined> {
  let isRefused = false;
  for (const group of groups) {
    const answer: Pick<Exchanged, "status" | "body"> = await connection.exchange({
      method: "GET",
      path: `/apis/${group}/${plural}?limit=1`,
    });
    // No such kind is defined.
    if (answer.status === 404) continue;
    const facts = factsOf(answer);
    if (facts.kind === "counted") return { kind: `${kind}.${group.slice(0, group.indexOf("/"))}`, atLeast: facts.atLeast };
    isRefused = true;
  }
  return isRefused ? undefined : { kind, atLeast: 0 };
}
