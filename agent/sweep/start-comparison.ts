/** Starts the comparison of endpoints with what the stores have granted (A§7.3). */

import type { EndpointRecord } from "../../handover/record.ts";
import type { GrantFiles } from "../../ipam-plugin/host-scope/grant-files.ts";
import type { IpamNode } from "../../ipam-plugin/node.ts";
import type { GrantWitness } from "../endpoints/mend-link.ts";
import type { RestoredEndpoints } from "../endpoints/start.ts";
import { addressFinding } from "../observe/health.ts";
import type { AgentContext } from "../start/context.ts";
import { AddressComparison, GrantLook } from "./comparison.ts";

const NAME = "compare-addresses";
const INTERVAL_MS = 600_000;
/** Of one look: each of its requests has a limit of its own. */
const DEADLINE_MS = 300_000;

interface ComparedParts extends RestoredEndpoints {
  readonly witness: GrantWitness & { ipamOf(record: EndpointRecord): Promise<IpamNode> | undefined };
  readonly files: () => Pick<GrantFiles, "read">;
}

/** @returns what makes the first comparison, to be called when the restore has ended */
export function startComparison(
  { controllers, health, log }: AgentContext,
  { manager, isRestored, witness, files }: ComparedParts,
): () => void {
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
