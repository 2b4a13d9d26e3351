/** The background tasks of the process, one a name; of an endpoint, those whose names its manager makes (A§6.1, A§6.2). */
import { type Clock, SYSTEM_CLOCK } from "../system/clock.ts";
import { Controller } from "./controller.ts";
import type { ControllerParameters, ControllerRun, ControllerStatus } from "./parameters.ts";

export interface ControllersOptions {
  readonly clock?: Clock;
  /** `--max-controller-interval` in milliseconds; 0: no cap. */
  readonly maxIntervalMs?: number;
  /** Told of each run that has ended. */
  readonly onRun?: (run: ControllerRun) => void;
}

export class Controllers implements AsyncDisposable {
  readonly #options: ControllersOptions;
  readonly #controllers = new Map<string, Controller>();

  constructor(options: ControllersOptions = {}) {
    this.#options = options;
  }

  /** Makes the controller, or gives the one of this name new parameters; either runs at once. */
  update(name: string, parameters: ControllerParameters): void {
    const known = this.#controllers.get(name);
    const { clock = SYSTEM_CLOCK, maxIntervalMs = 0, onRun = () => {} } = this.#options;
    if (known !== undefined) known.update(parameters);
    else this.#controllers.set(name, new Controller(name, parameters, { clock, maxIntervalMs, onRun }));
  }

  /** Runs it now. @returns whether there is one of this name */
  trigger(name: string): boolean {
    const known = this.#controllers.get(name);
    known?.trigger();
    return known !== undefined;
  }

  /** Aborts its run, and calls its stop function; does nothing where there is none of this name. */
  async remove(name: string): Promise<void> {
    const known = this.#controllers.get(name);
    this.#controllers.delete(name);
    await known?.remove();
  }

  /** In the order of names. */
  statuses(): readonly ControllerStatus[] {
    return [...this.#controllers.values()].map(({ status }) => status).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Removes all. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#controllers.keys()].map((name) => this.remove(name)));
  }
}
