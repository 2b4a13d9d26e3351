/**
 * `npm run bench -- --floor`: the plugin without an agent against a real etcd and kube-apiserver, in the server's own network namespace,
 * beside a floor program that makes the same requests and nothing else. The two alternate, so that the noise of machine and server falls on
 * both; only ratios mean anything. Argument: the compiled floor program.
 */
import { join } from "node:path";
import { BIN_DIR } from "../../support/node.ts";
import { type Contender, measureFootprint } from "../contender.ts";
import { Copies } from "../copies.ts";
import { measureCosts } from "../kubernetes/costs.ts";
import { type Stage, setUpStage } from "../kubernetes/stage.ts";
import { reportSteps } from "../step-times.ts";
import { WHOLE_PROGRAM } from "../whole-program.ts";
import { Floor } from "./floor.ts";
import { reportCosts, reportSingle } from "./report.ts";
import { measureSingle } from "./single.ts";

const ROUNDS = 100;
/** They warm the page cache, and claim the node's block. */
const WARM_UP = 3;
const BUSY_ROUNDS = 15;
const COUNTED = 10;
const PEAK_ROUNDS = 5;
const NODE = "bench-node";
const FLOOR = { node: "floor-node", pod: "floor-pod" };

await bench(process.argv[2] ?? "");

async function bench(floorProgram: string): Promise<void> {
  await using stage = await setUpStage(NODE, COUNTED, FLOOR);
  using copies = new Copies([{ path: join(BIN_DIR, WHOLE_PROGRAM), names: ["tortie", "tortie-ipam"] }, { path: floorProgram }]);
  const bin = copies.directory;
  const tortie = stage.plugin(NODE, await stage.cluster.kubeconfigFor("cni"), bin);
  const floor = await Floor.create({ stage, executable: copies.pathOf(floorProgram), bin, ...FLOOR });
  const single = await measureSingle(stage, tortie, floor, { rounds: ROUNDS, warmUp: WARM_UP, before: "caches fresh", copies });
  const busy = await measureSingle(stage, tortie, floor, { rounds: BUSY_ROUNDS, warmUp: 0, before: "a write", copies });
  reportSingle(single, busy, await peaks(stage, tortie));
  reportSteps("ADD", single.tortie.add);
  reportSteps("DEL", single.tortie.del);
  reportCosts(await measureCosts(stage, tortie, COUNTED));
}

/** Largest peak of a few calls, MiB. */
async function peaks(stage: Stage, tortie: Contender): Promise<{ readonly add: number; readonly del: number }> {
  let [add, del] = [0, 0];
  for (let round = 0; round < PEAK_ROUNDS; round++) {
    add = Math.max(add, (await measureFootprint(tortie, stage.call("ADD", 0, `peak${round}`))).peakMiB);
    del = Math.max(del, (await measureFootprint(tortie, stage.call("DEL", 0, `peak${round}`))).peakMiB);
  }
  return { add, del };
}
