/** The plugin where there is no agent: what the forwarder in front of it costs, and what the start of the TypeScript program costs. */
import { basename, join } from "node:path";
import { BIN_DIR } from "../../support/node.ts";
import type { Bar } from "../bars.ts";
import { COMMANDS, compare, report } from "../compare.ts";
import { runProcess } from "../contender.ts";
import { Copies } from "../copies.ts";
import { median, pairedRatio, row } from "../statistics.ts";
import { hasForwarder, WHOLE_PROGRAM } from "../whole-program.ts";
import type { Stage } from "./stage.ts";

const SIZE = { rounds: 60, burst: 60, burstRounds: 3 };
const STARTS = 100;
const STARTS_PER_COPY = 20;

export async function benchDirect(stage: Stage): Promise<readonly Bar[]> {
  const isThere = hasForwarder(BIN_DIR);
  const times = await compare([stage.peer, stage.wholeDirect, ...(isThere ? [stage.direct] : [])], SIZE, stage.call);
  console.log("\nwithout an agent");
  report(times, SIZE);
  const [without, inFront] = [times.get(stage.wholeDirect), times.get(stage.direct)];
  return COMMANDS.map((command) => ({
    name: `${command} without agent with the forwarder in front, of one without`,
    most: 1.03,
    measured: inFront === undefined || without === undefined ? "none" : pairedRatio(inFront.single[command], without.single[command]),
  }));
}

/** @param emptyProgram the compiled `empty-program.ts` */
export async function benchStart(emptyProgram: string): Promise<Bar> {
  using copies = new Copies([{ path: join(BIN_DIR, WHOLE_PROGRAM), names: ["tortie"] }, { path: emptyProgram }]);
  const times = { plugin: [] as number[], empty: [] as number[] };
  for (let round = 0; round < STARTS; round++) {
    const isFirst = round % STARTS_PER_COPY === 0;
    if (isFirst) copies.renew();
    const plugin = await runProcess("VERSION", [copies.pathOf("tortie")], "", { CNI_COMMAND: "VERSION" });
    const empty = await runProcess("empty program", [copies.pathOf(basename(emptyProgram))], "", {});
    if (isFirst) continue;
    times.plugin.push(plugin.ms);
    times.empty.push(empty.ms);
  }
  console.log("\nstart and end of the TypeScript program, milliseconds");
  console.log(row(["  VERSION", median(times.plugin)], [64, 9]));
  console.log(row(["  an empty program that imports node:fs", median(times.empty)], [64, 9]));
  return {
    name: "start of the TypeScript program (VERSION), of an empty one with node:fs",
    most: 1.3,
    measured: pairedRatio(times.plugin, times.empty),
  };
}
