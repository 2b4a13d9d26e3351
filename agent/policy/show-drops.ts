/** Shows the packets that policy drops: from the kernel's log to the memory of drops, and to events of the cluster, with invalid policies. */
import { SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import type { PolicyEngine } from "../../policy/engine.ts";
import type { AgentContext } from "../start/context.ts";
import type { DropWitness } from "./drop.ts";
import { followDropLog, LinkNames } from "./drop-log.ts";
import { Drops } from "./drops.ts";
import { keyOf, type PolicyEndpoints } from "./endpoints.ts";
import { PolicyEvents } from "./events.ts";
import type { PolicySources } from "./sources/model.ts";

const INVALID = "policy-events";
/** A policy that is invalid is reported this late at most. */
const INVALID_MS = 10_000;

interface DropParts {
  readonly engine: Pick<PolicyEngine, "judge" | "policies">;
  readonly endpoints: Pick<PolicyEndpoints, "list">;
  readonly sources: Pick<PolicySources, "podAt">;
  readonly identityOf: DropWitness["identityOf"];
}

interface ShownDrops extends AsyncDisposable {
  readonly drops: Drops;
}

/** Begins to show them, until it is disposed. */
export function showDrops(context: AgentContext, { engine, endpoints, sources, identityOf }: DropParts): ShownDrops {
  const { cluster, controllers, events: writer, health, host, log, options } = context;
  const links = new LinkNames(host.route, SYSTEM_CLOCK);
  const podOf = (hostInterface: string) => {
    const pod = endpoints.list().find((endpoint) => endpoint.hostInterface === hostInterface)?.pod;
    return pod && keyOf(pod);
  };
  const drops = new Drops(
    {
      nameOf: (index) => links.nameOf(index),
      podBehind: podOf,
      podAt: (address) => sources.podAt(address),
      judge: (flow) => engine.judge(flow),
      identityOf,
    },
    SYSTEM_CLOCK,
  );
  const group = options["policy-log-group"];
  const following = followDropLog({ group, drops, controllers, health: health.health, log });
  const events = writer && new PolicyEvents({ events: writer, uidOf: (pod) => cluster?.pods.get(pod)?.uid, clock: SYSTEM_CLOCK });
  const unfollow = drops.follow((drop) => events?.dropped(drop));
  const tellInvalid = async () => {
    for (const policy of engine.policies()) events?.invalid(policy);
  };
  if (events !== undefined) controllers.update(INVALID, { run: tellInvalid, intervalMs: INVALID_MS, quiet: true });
  return {
    drops,
    async [Symbol.asyncDispose]() {
      unfollow();
      await controllers.remove(INVALID);
      await following[Symbol.asyncDispose]();
    },
  };
}
