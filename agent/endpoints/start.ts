/** Starts the endpoints: their manager, and what this boot's records say of them. */
import { hostLinks } from "../../dataplane/linux/host-facts.ts";
import { HistoryWriter } from "../../handover/history.ts";
import { SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import type { AgentMetrics } from "../observe/metrics.ts";
import type { AgentContext } from "../start/context.ts";
import { noteEndpoints, noteRestored } from "./history.ts";
import { EndpointManager } from "./manager.ts";
import { type LinkParts, mendLink } from "./mend-link.ts";
import { levelName } from "./mending.ts";
import { buildRestored, restoreLocal } from "./restore.ts";
import { RecordStore } from "./store.ts";

export interface RestoredEndpoints {
  readonly manager: EndpointManager;
  /** Whether each restored endpoint has had its build: until then nothing is removed on the strength of what is not there. */
  readonly isRestored: () => boolean;
}

interface StartedEndpoints extends RestoredEndpoints {
  readonly history: HistoryWriter;
  /** Builds what was restored, behind whatever else the agent does. @returns when each has had its build */
  build(): Promise<void>;
}

/** Does the local part of the restore: no network is asked, and no other process is waited for. */
export function startEndpoints(context: AgentContext, witnesses: Pick<LinkParts, "grants" | "hold">): StartedEndpoints {
  const { options, bootId, run, state, controllers, dataplane, health, host, log } = context;
  const store = new RecordStore(state);
  const manager = new EndpointManager({
    store,
    bootId,
    maxEndpoints: options["max-endpoints"],
    clock: SYSTEM_CLOCK,
    controllers,
    mend: (endpoint, signal) => mendLink(endpoint, { dataplane, ...witnesses }, signal),
    log,
    onBuilt({ outcome, level, waitedMs, tookMs }) {
      health.metrics.built(levelName(level), outcome, tookMs);
      health.metrics.waitedInQueue("build", waitedMs);
    },
  });
  countAddresses(manager, health.metrics);
  const history = new HistoryWriter(run.history);
  noteEndpoints(manager, history, SYSTEM_CLOCK);
  const restored = restoreLocal({ store, endpoints: manager, links: () => hostLinks(host), clock: SYSTEM_CLOCK, log });
  const { ready, undone, deleting, waiting, bad } = restored;
  for (const [outcome, count] of Object.entries({ ready: ready.length, undone, deleting, waiting, bad })) {
    health.metrics.restored(outcome, count);
  }
  let isRestored = false;
  return {
    manager,
    history,
    isRestored: () => isRestored,
    async build() {
      const records = restored.ready.map(({ record }) => record);
      noteRestored(run.history, records, history);
      await buildRestored(manager, restored, { clock: SYSTEM_CLOCK, log });
      isRestored = true;
    },
  };
}

/**
 * Counts the addresses that attachments were given and gave back (A§8.2): once an attachment, however often it is added. Addresses that
 * another plugin granted do not count.
 */
function countAddresses(endpoints: Pick<EndpointManager, "onChange">, metrics: Pick<AgentMetrics, "ipamEvent">): void {
  const counted = new Set<number>();
  const count = (action: "allocate" | "release", addresses: readonly { family: 4 | 6; grant: string }[]) => {
    for (const { family, grant } of addresses) if (grant !== "external") metrics.ipamEvent(action, family);
  };
  endpoints.onChange((event, { id, record: { addresses, committedAt } }) => {
    if (event === "ready" && !counted.has(id)) {
      counted.add(id);
      count("allocate", addresses);
    }
    // An ADD that was taken back has never counted.
    if (event === "gone" && committedAt !== undefined) {
      counted.delete(id);
      count("release", addresses);
    }
  });
}
