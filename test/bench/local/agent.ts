/** The agent beside the peer: one that has served calls for a while, and one that has just been started. */
import type { Bar } from "../bars.ts";
import { COMMANDS, type Command, compare, measureBurst, ratio, report, type Times, warmUp } from "../compare.ts";
import { median, row } from "../statistics.ts";
import { BURST, rulesOfNode, type Stage } from "./stage.ts";

const SIZE = { rounds: 40, burst: BURST, burstRounds: 7 };
/** After so many ADDs and DELs of an agent its code is machine code. */
const WARM_UP_BURSTS = 8;
/** Agents that are started for one burst. */
const STARTS = 5;

/**
 * Processor time of 60 ADDs and 60 DELs at once in all processes of the build before the forwarder was another program (commit 85c440c), as
 * a multiple of what `ptp` and `host-local` needed in the same run: this bench with TORTIE_TEST_BIN (docs/project/benchmarks.md).
 */
const EARLIER_PROCESSOR_RATIO = 1.14;

export async function benchAgent(stage: Stage): Promise<readonly Bar[]> {
  const young = await measureYoung(stage);
  await using resident = await stage.startAgent();
  const agent = stage.withAgent(resident);
  await warmUp(agent, { size: BURST, bursts: WARM_UP_BURSTS }, stage.call);
  const rules = rulesOfNode();
  const times = await compare([stage.peer, agent], SIZE, stage.call);
  if (rulesOfNode() !== rules) throw new Error("the node's rules were replaced between two calls: that is measured, and nothing else");
  console.log(`the agent after ${WARM_UP_BURSTS * BURST} ADDs and DELs`);
  report(times, SIZE);

  const of = (series: (times: Times) => readonly number[]) => ratio(times, [agent, stage.peer], series);
  const youngOf = (command: Command) => median(young.agent[command]) / median(young.peer[command]);
  console.log(`\nan agent's first calls, ${STARTS} starts`);
  for (const command of COMMANDS) {
    console.log(row([`  ${BURST} ${command}s at once, of ptp + host-local`, youngOf(command)], [64, 9]));
  }
  console.log(row(["  longest standstill, ms: median and most", median(young.standstills), Math.max(...young.standstills)], [64, 9, 9]));
  const ofWarm = (command: Command) => median(young.agent[command]) / median(times.get(agent)?.burst[command] ?? []);
  const processor = of(({ burstProcessor: { ADD, DEL } }) => ADD.map((add, index) => add + (DEL[index] ?? Number.NaN)));
  const peer = "of ptp + host-local";
  return [
    { name: `ADD alone, ${peer}`, most: 0.65, measured: of(({ single }) => single.ADD) },
    { name: `DEL alone, ${peer}`, most: 0.35, measured: of(({ single }) => single.DEL) },
    { name: `${BURST} ADDs at once, ${peer}`, most: 0.6, measured: of(({ burst }) => burst.ADD) },
    { name: `${BURST} DELs at once, ${peer}`, most: 0.55, measured: of(({ burst }) => burst.DEL) },
    { name: `processor time of ${BURST} ADDs and DELs, of the build before`, most: 0.4, measured: processor / EARLIER_PROCESSOR_RATIO },
    { name: `${BURST} ADDs right after the agent's start, of a warm one`, most: 1.2, measured: ofWarm("ADD") },
    { name: `${BURST} DELs right after that, of a warm agent`, most: 1.2, measured: ofWarm("DEL") },
    { name: "standstill of the agent in its first bursts, ms", most: 50, measured: median(young.standstills) },
  ];
}

/** Bursts of agents that have just been started, and of the peer in turn with them. */
async function measureYoung(stage: Stage) {
  const empty = (): Record<Command, number[]> => ({ ADD: [], DEL: [] });
  const found = { agent: empty(), peer: empty(), standstills: [] as number[] };
  for (let start = 0; start < STARTS; start++) {
    await using resident = await stage.startAgent();
    for (const [contender, series] of [
      [stage.withAgent(), found.agent],
      [stage.peer, found.peer],
    ] as const) {
      for (const command of COMMANDS) {
        series[command].push((await measureBurst(contender, BURST, (pod) => stage.call(command, pod, `young${start}`))).ms);
      }
    }
    found.standstills.push(await resident.longestStandstillMs());
  }
  return found;
}
