/** Waits for what phase `ready` needs (A§0.3, steps 6 and 7). */
import type { Health } from "../../lib/resident/health.ts";
import { untilAborted } from "../../lib/system/waiting.ts";
import type { AgentCluster } from "./context.ts";

export interface ReadyParts {
  readonly cluster: Pick<AgentCluster, "pods"> | undefined;
  /** Ends when this node's ranges are known; at once where addresses come from blocks. */
  readonly rangesKnown: () => Promise<void>;
  readonly health: Pick<Health, "waitFor">;
}

/** Waits for both at once; `/healthz` shows each wait as long as it lasts. @throws the signal's reason */
export async function untilReady({ cluster, rangesKnown, health }: ReadyParts, signal: AbortSignal): Promise<void> {
  await Promise.all([
    waited(health, "the pods of this node, from the API server", cluster?.pods.untilSynced(signal)),
    waited(health, "the address ranges of this node", untilAborted(rangesKnown(), signal)),
  ]);
}

async function waited(health: ReadyParts["health"], what: string, work: Promise<void> | undefined): Promise<void> {
  const over = health.waitFor(what);
  try {
    await work;
  } finally {
    over();
  }
}
