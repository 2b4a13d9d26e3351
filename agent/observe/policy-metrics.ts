/** Counts the figures of policy for Prometheus. They are there on nodes that enforce policy, and sampled when somebody reads them. */
import type { Counter, Gauge, Histogram, Registry } from "prom-client";
import { Figures } from "../../lib/resident/figures.ts";

const PREFIX = "tortie_policy_";
/** From one changed element to the whole table of a large cluster. */
const SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

interface DropFigure {
  readonly direction: string;
  readonly reason: string;
  readonly packets: bigint | number;
}

/** What is asked at the moment of reading. */
export interface PolicyFigureSource {
  policies(): readonly { readonly problem: string | undefined }[];
  endpoints(): readonly unknown[];
  /** Endpoints that wait for the packet filter. */
  pending(): readonly unknown[];
  figures(): { readonly classes: number; readonly elements: number };
  /** Sources that are not in sync. */
  unsynced(): readonly string[];
  /** Addresses that several pods claim. */
  conflicts(): readonly unknown[];
  /** Objects that nobody enforces. */
  unread(): readonly { readonly kind: string; readonly atLeast: number }[];
  readonly drops: { readonly missed: number; shown(): readonly DropFigure[] };
  counters(): Promise<readonly DropFigure[]>;
  judged(): Promise<readonly { readonly direction: string; readonly packets: bigint }[]>;
}

export class PolicyMetrics extends Figures {
  readonly #source: () => PolicyFigureSource | undefined;
  readonly #passSeconds: Histogram<"outcome">;

  /** @param source `undefined` while policy is not enforced: there are no figures then */
  constructor(registry: Registry, source: () => PolicyFigureSource | undefined) {
    super(PREFIX, SECONDS, registry);
    this.#source = source;
    this.#passSeconds = this.histogram("pass_seconds", "How long it takes to bring a change into the packet filter", ["outcome"]);
    this.#sized("endpoints", "Endpoints that policy knows", (one) => one.endpoints().length);
    this.#sized("pending_endpoints", "Endpoints that wait for the packet filter", (one) => one.pending().length);
    this.#sized("classes", "Classes of peers on this node", (one) => one.figures().classes);
    this.#sized("elements", "Elements of the packet filter's sets and maps", (one) => one.figures().elements);
    this.#sized("unsynced_sources", "Sources that are not in sync", (one) => one.unsynced().length);
    this.#sized("claim_conflicts", "Addresses that several pods claim", (one) => one.conflicts().length);
    this.#gauge("policies", "NetworkPolicy objects, by whether they are valid", ["state"], (gauge, one) => {
      const all = one.policies();
      const invalid = all.filter(({ problem }) => problem !== undefined).length;
      gauge.set({ state: "valid" }, all.length - invalid);
      gauge.set({ state: "invalid" }, invalid);
    });
    this.#gauge("unread_objects", "Objects of policy that Tortie does not enforce, at least", ["kind"], (gauge, one) => {
      for (const { kind, atLeast } of one.unread()) gauge.set({ kind }, atLeast);
    });
    this.#counted(
      "judged_total",
      "Packets that began a connection and were judged; those that were not denied passed",
      ["direction"],
      async (one) =>
        (await one.judged().catch(() => [])).map(({ direction, packets }) => ({ labels: { direction }, value: Number(packets) })),
    );
    this.#drops("drops_total", "Packets that policy has dropped", countersOf);
    this.#drops("drops_shown_total", "Dropped packets that were seen one by one", async (one) => one.drops.shown());
    this.#counted("drops_missed_total", "Dropped packets that the kernel reported and that were not looked at", [], async (one) => [
      { labels: {}, value: one.drops.missed },
    ]);
  }

  passed(outcome: "success" | "failure", milliseconds: number): void {
    this.#passSeconds.observe({ outcome }, milliseconds / 1000);
  }

  #sized(name: string, help: string, size: (source: PolicyFigureSource) => number): void {
    this.#gauge(name, help, [], (gauge, source) => gauge.set(size(source)));
  }

  #gauge<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    sample: (gauge: Gauge<L>, source: PolicyFigureSource) => void,
  ): void {
    this.sampled(name, help, labelNames, (gauge) => {
      const source = this.#source();
      if (source !== undefined) sample(gauge, source);
    });
  }

  #drops(name: string, help: string, ask: (source: PolicyFigureSource) => Promise<readonly DropFigure[]>): void {
    this.#counted(name, help, ["direction", "reason"], async (source) =>
      (await ask(source)).map(({ direction, reason, packets }) => ({ labels: { direction, reason }, value: Number(packets) })),
    );
  }

  /** Makes a counter of what is counted elsewhere. */
  #counted<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    ask: (source: PolicyFigureSource) => Promise<readonly Counted<L>[]>,
  ): void {
    const sourceNow = this.#source;
    this.counter(name, help, labelNames, async function (this: Counter<L>) {
      const source = sourceNow();
      const values = source === undefined ? [] : await ask(source);
      // Not before the wait: two readers at once would add to each other's.
      this.reset();
      for (const { labels, value } of values) this.inc(labels, value);
    });
  }
}

interface Counted<L extends string> {
  readonly labels: Partial<Record<L, string>>;
  readonly value: number;
}

/** A kernel that cannot be asked must not keep the other figures away. */
async function countersOf(source: PolicyFigureSource): Promise<readonly DropFigure[]> {
  return source.counters().catch(() => []);
}
