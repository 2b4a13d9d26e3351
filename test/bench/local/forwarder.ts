/** The program that hands a call over, alone: the agent behind it answers at once. */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Bar } from "../bars.ts";
import { compare, ratio, report } from "../compare.ts";
import { type Contender, countSystemCalls, type Footprint, measure, measureFootprint } from "../contender.ts";
import { RUN_DIRECTORY } from "../resident.ts";
import { row } from "../statistics.ts";
import { hasForwarder } from "../whole-program.ts";
import { BURST, type Stage } from "./stage.ts";

const SIZE = { rounds: 60, burst: BURST, burstRounds: 3 };
const FOOTPRINTS = 5;
const WIDTHS = [64, 9, 9, 9];

interface Cost extends Footprint {
  readonly systemCalls: number;
}

export async function benchForwarder(stage: Stage): Promise<readonly Bar[]> {
  await using _ = await startServer(join(RUN_DIRECTORY, "cni.sock"));
  const agent: Contender = { ...stage.withAgent(), name: "the plugin as built, answered at once" };
  const whole: Contender = { ...stage.wholeWithAgent, name: "the TypeScript program, answered at once" };
  const contenders = [stage.peer, agent, ...(hasForwarder(agent.path) ? [whole] : [])];
  const times = await compare(contenders, SIZE, stage.call);
  console.log("\nthe program that hands a call over");
  report(times, SIZE);

  console.log(`\n${row([`an ADD's footprint (most of ${FOOTPRINTS})`, "MiB", "faults", "syscalls"], WIDTHS)}`);
  const costs = new Map<Contender, Cost>();
  for (const contender of contenders) {
    const cost = await costOf(contender, stage);
    costs.set(contender, cost);
    console.log(row([`  ${contender.name}`, cost.peakMiB, String(cost.pageFaults), String(cost.systemCalls)], WIDTHS));
  }
  const cost = costs.get(agent);
  return [
    {
      name: "forwarder, answered at once: its ADD, of ptp + host-local",
      most: 0.1,
      measured: ratio(times, [agent, stage.peer], ({ single }) => single.ADD),
    },
    { name: "forwarder: peak memory, MiB", most: 1, measured: cost?.peakMiB ?? Number.NaN },
    { name: "forwarder: page faults", most: 60, measured: cost?.pageFaults ?? Number.NaN },
    { name: "forwarder: system calls", most: 25, measured: cost?.systemCalls ?? Number.NaN },
  ];
}

async function costOf(contender: Contender, { call }: Stage): Promise<Cost> {
  let most: Footprint = { peakMiB: 0, pageFaults: 0 };
  for (let round = 0; round < FOOTPRINTS; round++) {
    const found = await measureFootprint(contender, call("ADD", 0, `footprint${round}`));
    most = { peakMiB: Math.max(most.peakMiB, found.peakMiB), pageFaults: Math.max(most.pageFaults, found.pageFaults) };
    await measure(contender, call("DEL", 0, `footprint${round}`));
  }
  const systemCalls = await countSystemCalls(contender, call("ADD", 0, "traced"));
  await measure(contender, call("DEL", 0, "traced"));
  return { ...most, systemCalls };
}

/** @returns when it listens */
async function startServer(socket: string): Promise<AsyncDisposable> {
  mkdirSync(RUN_DIRECTORY, { recursive: true });
  const child = Bun.spawn(["/usr/bin/python3", join(import.meta.dirname, "answer-at-once.py"), socket], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  });
  const { value } = await child.stdout.getReader().read();
  if (value === undefined) throw new Error("the server that answers at once ended by itself");
  return {
    async [Symbol.asyncDispose]() {
      child.stdin.end();
      await child.exited;
      rmSync(RUN_DIRECTORY, { recursive: true, force: true });
    },
  };
}
