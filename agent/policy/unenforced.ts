/**
 * Warns where NetworkPolicy objects exist and have no effect: looks now and every ten minutes, until the tasks end. Of the programs that
 * enforce policies only Felix leaves a sign in the kernel that is certainly its own; an administrator with another one says so by an option.
 */
import { hasFelixChains } from "../../dataplane/linux/host-facts.ts";
import { countOf, NETWORK_POLICIES, type PolicyCount } from "../../doctor/policy-objects.ts";
import type { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import type { CheckResult, Health } from "../../lib/resident/health.ts";
import type { Tasks } from "../../lib/resident/tasks.ts";
import type { AgentContext } from "../start/context.ts";
import type { AgentPolicy } from "./start.ts";

const NAME = "network-policy";
const INTERVAL_MS = 600_000;
/** Felix may start after the agent: a warning ends soon after it has. */
const FELIX_INTERVAL_MS = 60_000;
const PAGE = "docs/explanation/limitations.md#networkpolicy";
const SILENCE = "where another program enforces them, give the agent --policy-warning=false";

/** What the last look found. */
export type PolicyFacts =
  | { readonly kind: "unknown" }
  /** @property by "Felix enforces" */
  | { readonly kind: "enforced"; readonly by: string }
  | PolicyCount;

export interface NetworkPolicyOptions {
  readonly connection: Pick<ApiConnection, "exchange">;
  /** Who enforces policies on this node, such as "Felix enforces"; `undefined`: nobody that is known. @throws NetlinkError */
  readonly enforcer: () => string | undefined;
  readonly controllers: Pick<Tasks, "update">;
  readonly health: Pick<Health, "add">;
  readonly log: Pick<AgentLog, "info" | "error">;
}

/** Warns of this cluster's policies, unless `--policy-warning` is off or there is no cluster to ask. */
export function warnOfUnenforced(
  { options, host, cluster, controllers, health: { health }, log }: AgentContext,
  policy: AgentPolicy,
): void {
  if (!cluster?.isDatastore || !options["policy-warning"]) return;
  const enforcer = () => (policy.view() !== undefined ? "Tortie enforces" : hasFelixChains(host) ? "Felix enforces" : undefined);
  warnOfPolicies({ connection: cluster.connection, enforcer, controllers, health, log });
}

export function warnOfPolicies({ connection, enforcer, controllers, health, log }: NetworkPolicyOptions): void {
  let found: PolicyFacts = { kind: "unknown" };
  const become = (facts: PolicyFacts): void => {
    const [before, now] = [judge(found), judge(facts)];
    // A changed count alone is not worth a line of the log.
    const isNews = facts.kind !== found.kind || now.state !== before.state;
    found = facts;
    if (isNews && now.state === "warning") log.error(`${now.message}: ${now.next ?? ""}`);
    else if (isNews && before.state === "warning") log.info(`network policies: ${now.message}`);
  };
  health.add({ name: NAME, decides: "shown", look: () => judge(found) });
  const enforced = (): PolicyFacts | undefined => {
    const by = enforcer();
    return by === undefined ? undefined : { kind: "enforced", by };
  };
  controllers.update(NAME, {
    run: async () => become(enforced() ?? countOf(await connection.exchange({ method: "GET", path: NETWORK_POLICIES }))),
    intervalMs: INTERVAL_MS,
    isJittered: true,
    quiet: true,
  });
  controllers.update(`${NAME}-felix`, {
    async run() {
      const now = judge(found).state === "warning" ? enforced() : undefined;
      if (now !== undefined) become(now);
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
      return { state: "ok", message: `${facts.by} them on this node` };
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
        next: `start the agent with --policy auto, or run another policy engine (${PAGE}); ${SILENCE}`,
      };
  }
}

function objects(atLeast: number): string {
  return atLeast === 1 ? "there is at least 1 NetworkPolicy object" : `there are at least ${atLeast} NetworkPolicy objects`;
}
