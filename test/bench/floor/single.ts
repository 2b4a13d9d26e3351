/** One operation at a time, tortie's and the floor's in turn. */
import { LEGACY, type TestCluster } from "../../support/kubernetes/test-cluster.ts";
import { type Contender, measure, type Sample } from "../contender.ts";
import type { Copies } from "../copies.ts";
import type { Stage } from "../kubernetes/stage.ts";
import type { Floor } from "./floor.ts";

export interface Pair {
  readonly add: readonly Sample[];
  readonly del: readonly Sample[];
}

export interface Single {
  readonly rounds: number;
  readonly tortie: Pair;
  readonly floor: Pair;
}

/**
 * A list is answered from the API server's memory, which must first have seen every write to etcd, of any kind (KEP-2340): the
 * server asks etcd how far it is, at most every 100 ms. So a list after somebody's write waits some 50 ms, and the lists behind it do
 * not. `caches fresh`: nobody waits, on either side; `a write`: there was one just before.
 */
export interface SingleOptions {
  readonly rounds: number;
  /** Rounds before them, which do not count. */
  readonly warmUp: number;
  readonly before: "caches fresh" | "a write";
  /** Of the executables of both sides. */
  readonly copies: Copies;
}

/** Rounds on one copy of the executables; the first of them does not count. */
const ROUNDS_PER_COPY = 11;

export async function measureSingle(stage: Stage, plugin: Contender, floor: Floor, options: SingleOptions): Promise<Single> {
  const { rounds, warmUp, before, copies } = options;
  const arrange = before === "a write" ? write : freshen;
  const tortie = { add: [] as Sample[], del: [] as Sample[] };
  const floors = { add: [] as Sample[], del: [] as Sample[] };
  for (let round = -warmUp; tortie.add.length < rounds; round++) {
    const isFirst = round >= 0 && round % ROUNDS_PER_COPY === 0;
    if (isFirst) copies.renew();
    for (const command of ["ADD", "DEL"] as const) {
      const key = command === "ADD" ? "add" : "del";
      const floorRun = await floor.prepare(command);
      const tortieRun = () => measure(plugin, stage.call(command, 0, `single${rounds}-${round}`));
      const sides = [
        { run: tortieRun, samples: tortie[key] },
        { run: floorRun, samples: floors[key] },
      ];
      // Neither is always the one that comes first after what was done to prepare them.
      if (round % 2 !== 0) sides.reverse();
      for (const { run, samples } of sides) {
        await arrange(stage.cluster);
        const sample = await run();
        if (round >= 0 && !isFirst) samples.push(sample);
      }
    }
  }
  return { rounds, tortie, floor: floors };
}

async function freshen(cluster: TestCluster): Promise<void> {
  for (const plural of ["ippools", "ipreservations", "blockaffinities"]) await cluster.list(LEGACY, plural);
}

let writes = 0;

async function write(cluster: TestCluster): Promise<void> {
  await freshen(cluster);
  await cluster.createNamespace("elsewhere", { writes: String(++writes) });
}
