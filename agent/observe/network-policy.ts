/**
 * Warns where NetworkPolicy objects exist and have no effect. Of the programs that enforce policies only Felix leaves a sign in the kernel
 * that is certainly its own; an administrator with another one says so by an option.
 */

import { type Fields, isNumber, isText, parseObject, section } from "../../lib/json/decode.ts";
import type { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import type { Exchanged } from "../../lib/kubernetes/client/transport.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import type { CheckResult, Health } from "../../lib/resident/health.ts";
import type { Tasks } from "../../lib/resident/tasks.ts";

const NAME = "network-policy";
/** One object, and how many others there are: an answer of a kilobyte, however many policies a cluster has. */
const PATH = "/apis/networking.k8s.io/v1/networkpolicies?limit=1";
const INTERVAL_MS = 600_000;
/** Felix may start after the agent: a warning ends soon after it has. */
const FELIX_INTERVAL_MS = 60_000;
const PAGE = "docs/explanation/limitations.md#networkpolicy";
const SILENCE = "where another program enforces them, give the agent --policy-warning=false";

/** What the last look found. */
export type PolicyFacts =
  | { readonly kind: "unknown" }
  | { readonly kind: "enforced" }
  | { readonly kind: "refused" }
  /** @property atLeast how many NetworkPolicy objects there are, or more */
  | { readonly kind: "counted"; readonly atLeast: number };

export interface NetworkPolicyOptions {
  readonly connection: Pick<ApiConnection, "exchange">;
  /** Whether Felix' chains are in this node's kernel. @throws NetlinkError */
  readonly hasFelix: () => boolean;
  readonly controllers: Pick<Tasks, "update">;
  readonly health: Pick<Health, "add">;
  readonly log: Pick<AgentLog, "info" | "error">;
}

/** Looks now and every ten minutes, until the controllers end. */
export function warnOfPolicies({ connection, hasFelix, controllers, health, log }: NetworkPolicyOptions): void {
  let found: PolicyFacts = { kind: "unknown" };
  const become = (facts: PolicyFacts): void => {
    const [before, now] = [judge(found), judge(facts)];
    // A count that changes is no news for the log.
    const isNews = facts.kind !== found.kind || now.state !== before.state;
    found = facts;
    if (isNews && now.state === "warning") log.error(`${now.message}: ${now.next ?? ""}`);
    else if (isNews && before.state === "warning") log.info(`network policies: ${now.message}`);
  };
  health.add({ name: NAME, decides: "shown", look: () => judge(found) });
  controllers.update(NAME, {
    run: async () => become(hasFelix() ? { kind: "enforced" } : factsOf(await connection.exchange({ method: "GET", path: PATH }))),
    intervalMs: INTERVAL_MS,
    isJittered: true,
    quiet: true,
  });
  controllers.update(`${NAME}-felix`, {
    async run() {
      if (judge(found).state === "warning" && hasFelix()) become({ kind: "enforced" });
    },
    intervalMs: FELIX_INTERVAL_MS,
    isJittered: true,
    quiet: true,
  });
}

export function judge(facts: PolicyFacts): CheckResult {
  switch (facts.kind) {
    case "unknown":
      return { state: "ok", message: "not looked for yet" };
    case "enforced":
      return { state: "ok", message: "Felix enforces them on this node" };
    case "refused":
      return {
        state: "warning",
        message:
          "whether there are NetworkPolicy objects is not known: the agent's account may not list networkpolicies (privilege-missing)",
        next: `give it the right, which manifests/node/rbac.yaml has; ${SILENCE}`,
      };
    case "counted":
      if (facts.atLeast === 0) return { state: "ok", message: "there are none" };
      return {
        state: "warning",
        message: `${objects(facts.atLeast)}, and nobody that Tortie knows of enforces them on this node`,
        next: `run Calico's Felix beside Tortie, or another policy engine (${PAGE}); ${SILENCE}`,
      };
  }
}

function objects(atLeast: number): string {
  return atLeast === 1 ? "there is at least 1 NetworkPolicy object" : `there are at least ${atLeast} NetworkPolicy objects`;
}

/** Of the answer to a list with `limit=1`. @throws Error for any other answer than a list or a refusal */
export function factsOf({ status, body }: Pick<Exchanged, "status" | "body">): PolicyFacts {
  if (status === 403) return { kind: "refused" };
  if (status !== 200) throw new Error(`the API server answered ${status} when it was asked for network policies`);
  const list = parseObject(body);
  return { kind: "counted", atLeast: listed(list) + remaining(section(list, "metadata")) };
}

function listed({ items }: Fields): number {
  return Array.isArray(items) ? items.length : 0;
}

/** The server may leave the number out, and says then only that there are more. */
function remaining(metadata: Fields): number {
  const { remainingItemCount: count, continue: next } = metadata;
  if (isNumber(count)) return count;
  return isText(next) && next !== "" ? 1 : 0;
}
