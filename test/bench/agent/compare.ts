/** Several contenders in one run: their calls alternate, so that the machine's noise falls on all of them. Only ratios mean anything. */
import { type Call, type Contender, measure } from "../contender.ts";
import { row, summarise } from "../statistics.ts";

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
}

const WARM_UP = 2;
const COMMANDS = ["ADD", "DEL"] as const;
const WIDTHS = [48, 9, 9, 9];

/** @param call of the pod with this number, whose container is of this round */
export async function compare(
  contenders: readonly Contender[],
  { rounds, burst, burstRounds }: Size,
  call: (command: Command, pod: number, round: string) => Call,
): Promise<ReadonlyMap<Contender, Times>> {
  const growing = new Map<Contender, Growing>();
  for (const contender of contenders) growing.set(contender, { single: { ADD: [], DEL: [] }, burst: { ADD: [], DEL: [] } });
  for (let round = -WARM_UP; round < rounds; round++) {
    for (const [contender, { single }] of growing) {
      for (const command of COMMANDS) {
        const { ms } = await measure(contender, call(command, 0, `one${round + WARM_UP}`));
        if (round >= 0) single[command].push(ms);
      }
    }
  }
  for (let round = 0; round < burstRounds; round++) {
    for (const [contender, times] of growing) {
      for (const command of COMMANDS) {
        const start = performance.now();
        await Promise.all(Array.from({ length: burst }, (_, pod) => measure(contender, call(command, pod, `burst${round}`))));
        times.burst[command].push(performance.now() - start);
      }
    }
  }
  return growing;
}

interface Growing {
  readonly single: Record<Command, number[]>;
  readonly burst: Record<Command, number[]>;
}

/** The medians, and each contender's ratio to the first one. */
export function report(times: ReadonlyMap<Contender, Times>, { rounds, burst, burstRounds }: Size): void {
  console.log(row(["milliseconds", "p50", "max", "ratio"], WIDTHS));
  const [base] = times.values();
  for (const kind of ["single", "burst"] as const) {
    if ((kind === "single" ? rounds : burstRounds) === 0) continue;
    for (const command of COMMANDS) {
      const title = kind === "single" ? `${command}, one at a time (${rounds})` : `${burst} ${command}s at once (${burstRounds} rounds)`;
      for (const [{ name }, found] of times) {
        const { p50, max } = summarise(found[kind][command]);
        console.log(row([`${title}: ${name}`, p50, max, p50 / summarise(base?.[kind][command] ?? []).p50], WIDTHS));
      }
    }
  }
}
