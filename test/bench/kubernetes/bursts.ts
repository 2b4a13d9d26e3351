/** Many pods at once, as a node's kubelet starts and ends them. */
import { type Contender, measure, type Sample } from "../contender.ts";
import type { Stage } from "./stage.ts";

export interface Burst {
  readonly size: number;
  readonly rounds: number;
  readonly add: BurstSeries;
  readonly del: BurstSeries;
}

export interface BurstSeries {
  /** From the first start to the last end, milliseconds. */
  readonly walls: readonly number[];
  readonly samples: readonly Sample[];
  /** Messages of the calls that failed. */
  readonly failures: readonly string[];
}

export async function measureAtOnce(stage: Stage, plugin: Contender, size: number, rounds: number): Promise<Burst> {
  const add = emptySeries();
  const del = emptySeries();
  for (let round = 0; round < rounds; round++) {
    const id = `burst-${size}-${round}`;
    await runAll(stage, plugin, "ADD", size, id, add);
    await runAll(stage, plugin, "DEL", size, id, del);
  }
  return { size, rounds, add, del };
}

interface Growing {
  readonly walls: number[];
  readonly samples: Sample[];
  readonly failures: string[];
}

function emptySeries(): Growing {
  return { walls: [], samples: [], failures: [] };
}

async function runAll(
  { call }: Stage,
  plugin: Contender,
  command: "ADD" | "DEL",
  size: number,
  round: string,
  into: Growing,
): Promise<void> {
  const start = performance.now();
  const results = await Promise.allSettled(Array.from({ length: size }, (_, pod) => measure(plugin, call(command, pod, round))));
  into.walls.push(performance.now() - start);
  for (const result of results) {
    if (result.status === "fulfilled") into.samples.push(result.value);
    else into.failures.push(String(result.reason));
  }
}
