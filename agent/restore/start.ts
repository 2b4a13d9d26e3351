/** Starts the endpoints: their manager, and what this boot's records say of them. */
import { hostLinks } from "../../dataplane/linux/host-facts.ts";
import { SYSTEM_CLOCK } from "../../lib/system/clock.ts";
import { levelName } from "../endpoints/build/levels.ts";
import { countAddresses } from "../endpoints/count-addresses.ts";
import { EndpointManager } from "../endpoints/manager.ts";
import type { EndpointManagerOptions } from "../endpoints/options.ts";
import { RecordStore } from "../endpoints/record/record-store.ts";
import type { AgentContext } from "../start/context.ts";
import { buildRestored } from "./build-restored.ts";
import { restoreLocal } from "./local-part.ts";

export interface RestoredEndpoints {
  readonly manager: EndpointManager;
  /** Whether each restored endpoint has had its build: until then nothing is removed on the strength of what is not there. */
  readonly isRestored: () => boolean;
}

interface StartedEndpoints extends RestoredEndpoints {
  /** Builds what was restored, behind whatever else the agent does. @returns when each has had its build */
  build(): Promise<void>;
}

/** Does the local part of the restore: no network is asked, and no other process is waited for. */
export function startEndpoints(context: AgentContext, witnesses: Pick<EndpointManagerOptions, "grants" | "hold">): StartedEndpoints {
  const { options, bootId, state, controllers, dataplane, health, host, log } = context;
  const store = new RecordStore(state);
  const manager = new EndpointManager({
    store,
    bootId,
    maxEndpoints: options["max-endpoints"],
    clock: SYSTEM_CLOCK,
    controllers,
    dataplane,
    ...witnesses,
    log,
    onBuilt({ outcome, level, waitedMs, tookMs }) {
      health.metrics.built(levelName(level), outcome, tookMs);
      health.metrics.waitedInQueue("build", waitedMs);
    },
  });
  countAddresses(manager, health.metrics);
  const restored = restoreLocal({ store, endpoints: manager, links: () => hostLinks(host), clock: SYSTEM_CLOCK, log });
  const { ready, undone, deleting, waiting, bad } = restored;
  for (const [outcome, count] of Object.entries({ ready: ready.length, undone, deleting, waiting, bad })) {
    health.metrics.restored(outcome, count);
  }
  let isRestored = false;
  return {
    manager,
    isRestored: () => isRestored,
    async build() {
      await buildRestored(manager, restored, { clock: SYSTEM_CLOCK, log });
      isRestored = true;
    },
  };
}
