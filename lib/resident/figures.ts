/** Makes the figures of a resident process, and shows them as Prometheus reads them. */
import { Counter, Gauge, Histogram, Registry } from "prom-client";

export abstract class Figures {
  protected readonly registry: Registry;
  readonly #prefix: string;
  readonly #seconds: number[];

  /**
   * @param prefix of every figure's name
   * @param seconds buckets of figures that say how long something takes
   */
  constructor(prefix: string, seconds: number[], registry = new Registry()) {
    this.#prefix = prefix;
    this.#seconds = seconds;
    this.registry = registry;
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  text(): Promise<string> {
    return this.registry.metrics();
  }

  protected counter<L extends string>(name: string, help: string, labelNames: readonly L[], collect?: (this: Counter<L>) => Promise<void>) {
    return new Counter<L>({ ...this.#described(name, help, labelNames), ...(collect && { collect }) });
  }

  protected histogram<L extends string>(name: string, help: string, labelNames: readonly L[], buckets = this.#seconds) {
    return new Histogram<L>({ ...this.#described(name, help, labelNames), buckets });
  }

  /** Makes a gauge that asks for its values at each reading. */
  protected sampled<L extends string>(name: string, help: string, labelNames: readonly L[], sample: (gauge: Gauge<L>) => void): void {
    const collect = function (this: Gauge<L>) {
      this.reset();
      sample(this);
    };
    new Gauge<L>({ ...this.#described(name, help, labelNames), collect });
  }

  #described<L extends string>(name: string, help: string, labelNames: readonly L[]) {
    return { name: this.#prefix + name, help, labelNames: [...labelNames], registers: [this.registry] };
  }
}
