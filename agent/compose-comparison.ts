/** The comparison of endpoints with what the stores have granted, plugged to endpoints and health (A§7.3). */
import type { GrantFiles } from "../ipam-plugin/host-scope/grant-files.ts";
import type { AgentLog } from "../lib/resident/agent-log.ts";
import type { Controllers } from "../lib/resident/controllers.ts";
import type { StoreWitness } from "./attachments/grant-witness.ts";
import { AddressComparison } from "./comparison/comparison.ts";
import { GrantLook } from "./comparison/grant-look.ts";
import type { AgentHealth } from "./compose-health.ts";
import type { EndpointManager } from "./endpoints/manager.ts";

const NAME = "compare-addresses";
const INTERVAL_MS = 600_000;
/** Of one look: each of its requests has a limit of its own. */
const DEADLINE_MS = 300_000;

export interface AgentComparisonOptions {
  readonly manager: Pick<EndpointManager, "list" | "get" | "onChange">;
  readonly witness: StoreWitness;
  readonly files: () => Pick<GrantFiles, "read">;
  readonly controllers: Pick<Controllers, "update" | "trigger">;
  readonly health: Pick<AgentHealth, "health" | "metrics">;
  readonly isRestored: () => boolean;
  readonly log: Pick<AgentLog, "info" | "error">;
}

/** @returns what makes the first comparison, to be called when the restore has ended */
export function startComparison({ manager, witness, files, controllers, health, isRestored, log }: AgentComparisonOptions): () => void {
  const found = new Map<number, string>();
  const forget = (id: number) => {
    health.health.find(addressFinding(id), undefined);
    return found.delete(id);
  };
  const comparison = new AddressComparison({
    isRestored,
    records: () => manager.list(),
    look: () => new GrantLook({ ipamOf: (record) => witness.ipamOf(record), files }),
    witness,
    onLost(id, kind, what) {
      health.metrics.sweepFound(kind);
      health.health.find(addressFinding(id), what);
      if (found.get(id) === what) return;
      found.set(id, what);
      log.error(what);
      manager.get(id)?.note("Warning", "Other", what);
    },
    onHeld(id) {
      if (!forget(id)) return;
      log.info(`the addresses of endpoint ${id} are granted to it again`);
      manager.get(id)?.note("OK", "Other", "Its addresses are granted to it again");
    },
  });
  manager.onChange((event, { id }) => {
    if (event === "gone") forget(id);
  });
  const run = (signal: AbortSignal) => comparison.run(signal);
  controllers.update(NAME, { run, intervalMs: INTERVAL_MS, isJittered: true, deadlineMs: DEADLINE_MS, quiet: true });
  return () => controllers.trigger(NAME);
}

/** The key of what is found of an endpoint's addresses, at a restore and later: the newest word counts. */
export function addressFinding(id: number): string {
  return `address-conflict ${id}`;
}
