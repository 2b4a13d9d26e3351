/** Counts the objects of other kinds of policy, which nobody here reads, again and again. */
import { countUnread, UNREAD_KINDS } from "../../../doctor/policy-objects.ts";
import type { ApiConnection } from "../../../lib/kubernetes/client/connection.ts";
import type { Tasks } from "../../../lib/resident/tasks.ts";
import type { UnreadKind } from "./model.ts";
import type { SourcePart } from "./sources.ts";

const NAME = "unread-policies";
const INTERVAL_MS = 600_000;

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
        const looks = await Promise.all(UNREAD_KINDS.map((kind) => countUnread(connection, kind)));
        found = looks.flatMap((look) => (look !== undefined && look.atLeast > 0 ? [look] : []));
        refused = UNREAD_KINDS.flatMap(({ kind, groups }, index) => (looks[index] === undefined ? [`${kind} (${groups.join(", ")})`] : []));
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
