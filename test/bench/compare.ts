/** Several contenders in one run: their calls alternate, so that the machine's noise falls on all of them. Only ratios mean anything. */
import { type Call, type Contender, measure } from "./contender.ts";
import { median, row, summarise } from "./statistics.ts";

export type Command = Call["command"];

export interface Size {
  /** ADD and DEL one at a time. */
  readonly rounds: number;
  /** Pods at once. */
  readonly burst: number;
  readonly burstRounds: number;
}

/** Milliseconds: of a call for one at a time, of all calls together for bursts. */
export interface Times {
  readonly single: Readonly<Record<Command, readonly number[]>>;
  readonly burst: Readonly<Record<Command, readonly number[]>>;
  /** Processor time of all processes, those that live on included, for all calls of a burst. */
  readonly burstProcessor: Readonly<Record<Command, readonly number[]>>;
}

/** @param pod a number, from 0 @param round its container is of this round */
export type CallOf = (command: Command, pod: number, round: string) => Call;

const WARM_UP = 2;
export const COMMANDS = ["ADD", "DEL"] as const;
const WIDTHS = [64, 9, 9, 9];

export async function compare(
  contenders: readonly Contender[],
  { rounds, burst, burstRounds }: Size,
  call: CallOf,
): Promise<ReadonlyMap<Contender, Times>> {
  const growing = new Map(contenders.map((contender) => [contender, emptyTimes()]));
  // None is always the one that comes behind the same other.
  const inTurn = (round: number) => (round % 2 === 0 ? [...growing] : [...growing].reverse());
  for (let round = -WARM_UP; round < rounds; round++) {
    for (const [contender, { single }] of inTurn(round)) {
      for (const command of COMMANDS) {
        const { ms } = await measure(contender, call(command, 0, `one${round + WARM_UP}`));
        if (round >= 0) single[command].push(ms);
      }
    }
  }
  for (let round = 0; round < burstRounds; round++) {
    for (const [contender, times] of inTurn(round)) {
      for (const command of COMMANDS) {
        const { ms, processorMs } = await measureBurst(contender, burst, (pod) => call(command, pod, `burst${round}`));
        times.burst[command].push(ms);
        times.burstProcessor[command].push(processorMs);
      }
    }
  }
  return growing;
}

/** ADDs and DELs that are not counted: of an agent whose code shall be machine code. */
export async function warmUp(
  contender: Contender,
  { size, bursts }: { readonly size: number; readonly bursts: number },
  call: CallOf,
): Promise<void> {
  for (let round = 0; round < bursts; round++) {
    for (const command of COMMANDS) await measureBurst(contender, size, (pod) => call(command, pod, `warm${round}`));
  }
}

/** Calls of as many pods at once: from the first start to the last end, and what all processes needed for it. */
export async function measureBurst(
  contender: Contender,
  size: number,
  call: (pod: number) => Call,
): Promise<{ readonly ms: number; readonly processorMs: number }> {
  const before = contender.resident?.processorMs() ?? 0;
  const start = performance.now();
  const samples = await Promise.all(Array.from({ length: size }, (_, pod) => measure(contender, call(pod))));
  const ms = performance.now() - start;
  const resident = (contender.resident?.processorMs() ?? 0) - before;
  return { ms, processorMs: samples.reduce((sum, { processorMs }) => sum + processorMs, resident) };
}

interface Growing {
  readonly single: Record<Command, number[]>;
  readonly burst: Record<Command, number[]>;
  readonly burstProcessor: Record<Command, number[]>;
}

function emptyTimes(): Growing {
  const empty = (): Record<Command, number[]> => ({ ADD: [], DEL: [] });
  return { single: empty(), burst: empty(), burstProcessor: empty() };
}

/** @returns how much of the other's median one's is */
export function ratio(
  times: ReadonlyMap<Contender, Times>,
  [one, other]: readonly [Contender, Contender],
  series: (times: Times) => readonly number[],
): number {
  const of = (contender: Contender) => {
    const found = times.get(contender);
    return found === undefined ? Number.NaN : median(series(found));
  };
  return of(one) / of(other);
}

/** The medians, and each contender's ratio to the first one. */
export function report(times: ReadonlyMap<Contender, Times>, { rounds, burst, burstRounds }: Size): void {
  console.log(row(["milliseconds", "p50", "max", "ratio"], WIDTHS));
  const [base] = times.values();
  const kinds = [
    { series: "single", count: rounds, title: (command: Command) => `${command}, one at a time (${rounds})` },
    { series: "burst", count: burstRounds, title: (command: Command) => `${burst} ${command}s at once (${burstRounds} rounds)` },
    { series: "burstProcessor", count: burstRounds, title: (command: Command) => `processor time of ${burst} ${command}s at once` },
  ] as const;
  for (const { series, count, title } of kinds) {
    if (count === 0) continue;
    for (const command of COMMANDS) {
      for (const [{ name }, found] of times) {
        const { p50, max } = summarise(found[series][command]);
        console.log(row([`${title(command)}: ${name}`, p50, max, p50 / median(base?.[series][command] ?? [])], WIDTHS));
      }
    }
  }
}
