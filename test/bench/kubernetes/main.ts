/**
 * `npm run bench -- --kubernetes`: whole processes of tortie against a real etcd and kube-apiserver, in the server's own network
 * namespace, beside a floor program that makes the same requests and nothing else. The two alternate, so that the noise of machine and
 * server falls on both; only ratios mean anything. Argument: the compiled floor program.
 */
import { type Contender, measurePeak } from "../contender.ts";
import { Copies } from "../copies.ts";
import { reportSteps } from "../step-times.ts";
import { type Burst, measureAtOnce } from "./bursts.ts";
import { measureCosts } from "./costs.ts";
import { Floor } from "./floor.ts";
import { reportBursts, reportCosts, reportSingle } from "./report.ts";
import { measureSingle } from "./single.ts";
import { PLUGIN, type Stage, setUpStage } from "./stage.ts";

const ROUNDS = 100;
/** They warm the page cache, and claim the node's block. */
const WARM_UP = 3;
const BUSY_ROUNDS = 15;
const COUNTED = 10;
const BURSTS = [60, 110];
const BURST_ROUNDS = 3;
const PEAK_ROUNDS = 5;
const NODE = "bench-node";
const FLOOR = { node: "floor-node", pod: "floor-pod" };

await bench(process.argv[2] ?? "");

async function bench(floorProgram: string): Promise<void> {
  await using stage = await setUpStage(NODE, Math.max(...BURSTS), FLOOR);
  using copies = new Copies([PLUGIN, { path: floorProgram }]);
  const bin = copies.directory;
  const tortie = stage.plugin(NODE, await stage.cluster.kubeconfigFor("cni"), bin);
  const floor = await Floor.create({ stage, executable: copies.pathOf(floorProgram), bin, ...FLOOR });
  const single = await measureSingle(stage, tortie, floor, { rounds: ROUNDS, warmUp: WARM_UP, before: "caches fresh", copies });
  const busy = await measureSingle(stage, tortie, floor, { rounds: BUSY_ROUNDS, warmUp: 0, before: "a write", copies });
  reportSingle(single, busy, await peaks(stage, tortie));
  reportSteps("ADD", single.tortie.add);
  reportSteps("DEL", single.tortie.del);
  reportCosts(await measureCosts(stage, tortie, COUNTED));

  const bursts: Burst[] = [];
  for (const size of BURSTS) bursts.push(await measureAtOnce(stage, tortie, size, BURST_ROUNDS));
  reportBursts(bursts);
  // A plugin that fails under load is not fast.
  if (bursts.some(({ add, del }) => add.failures.length + del.failures.length > 0)) process.exitCode = 1;
}

/** Largest peak of a few calls, MiB. */
async function peaks(stage: Stage, tortie: Contender): Promise<{ readonly add: number; readonly del: number }> {
  let [add, del] = [0, 0];
  for (let round = 0; round < PEAK_ROUNDS; round++) {
    add = Math.max(add, await measurePeak(tortie, stage.call("ADD", 0, `peak${round}`)));
    del = Math.max(del, await measurePeak(tortie, stage.call("DEL", 0, `peak${round}`)));
  }
  return { add, del };
}
