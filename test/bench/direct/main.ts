/**
 * `npm run bench -- --direct`: where the time of the plugin goes where there is no agent, step by step, on the local datastore; and what an
 * address costs when a pool has many.
 */
import { join } from "node:path";
import { TemporaryDirectory } from "../../support/fixtures.ts";
import { COMMANDS, type Command } from "../compare.ts";
import { measure, type Sample } from "../contender.ts";
import { setUpStage } from "../local/stage.ts";
import { reportSteps } from "../step-times.ts";
import { fillPool, reportFill } from "./fill-pool.ts";

const ROUNDS = 40;
const WARM_UP = 2;

await using stage = await setUpStage();
const samples: Record<Command, Sample[]> = { ADD: [], DEL: [] };
for (let round = -WARM_UP; round < ROUNDS; round++) {
  for (const command of COMMANDS) {
    const sample = await measure(stage.wholeDirect, stage.call(command, 0, `steps${round + WARM_UP}`));
    if (round >= 0) samples[command].push(sample);
  }
}
for (const command of COMMANDS) reportSteps(command, samples[command]);

using directory = new TemporaryDirectory();
reportFill(await fillPool(join(directory.path, "fill.db")));
