/** One term of the controller in the test's own process, on a real API server, with minutes that pass when the test says so. */
import { fencedClient } from "../../controller/leader/elector.ts";
import { CONTROLLER, type ControllerOptions } from "../../controller/options.ts";
import { Term } from "../../controller/term.ts";
import { systemClock } from "../../ipam-plugin/host.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { type ApiGroup, LEGACY_GROUP } from "../../lib/datastore/calico/codec.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { createApiClient } from "../../lib/kubernetes/client/client.ts";
import { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import type { ClientLimits } from "../../lib/kubernetes/client/limits.ts";
import { resolveApiConfig } from "../../lib/kubernetes/config/resolve.ts";
import { resolveOptions } from "../../lib/resident/options.ts";
import { SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import { FakeClock } from "./fake-clock.ts";
import type { Identity } from "./kubernetes/test-cluster.ts";
import { until } from "./kubernetes/until.ts";

const CONNECTIONS = 4;
const MINUTE_MS = 60_000;

interface Reachable {
  kubeconfigFor(identity: Identity): Promise<string>;
}

interface TermOptions {
  /** The controller dies before the next write: what the server has is what a killed process leaves. */
  readonly mostWrites?: number;
  readonly group?: ApiGroup;
  /** Of its requests, where they differ. */
  readonly limits?: Partial<ClientLimits>;
}

export class ControllerTerm implements AsyncDisposable {
  readonly term: Term;
  readonly log: string[];
  readonly #clock: FakeClock;
  readonly #looks: Map<string, number>;
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;
  readonly #close: () => void;

  private constructor(term: Term, clock: FakeClock, looks: Map<string, number>, log: string[], close: () => void) {
    this.term = term;
    this.#clock = clock;
    this.#looks = looks;
    this.log = log;
    this.#close = close;
    this.#running = term.run(this.#ending.signal).catch((error: unknown) => {
      if (!this.#ending.signal.aborted) throw error;
    });
  }

  /** Returns when every duty has looked once. */
  static async begin(
    reachable: Reachable,
    given: Readonly<Record<string, string>> = {},
    { mostWrites = Number.POSITIVE_INFINITY, group = LEGACY_GROUP, limits = {} }: TermOptions = {},
  ): Promise<ControllerTerm> {
    const options: ControllerOptions = resolveOptions(CONTROLLER, { "scan-interval": "60", ...given }, {}, undefined);
    const kubeconfig = await reachable.kubeconfigFor("controller");
    const api = resolveApiConfig(
      decodeNetworkConfig({ datastore_type: "kubernetes", qps: 1000, burst: 1000, kubernetes: { kubeconfig } }),
      {},
    );
    const clock = new FakeClock();
    const looks = new Map<string, number>();
    const log: string[] = [];
    const connection = new ApiConnection(api);
    const client = createApiClient(api, { connections: CONNECTIONS, ...limits });
    let writes = 0;
    const fence = {
      get mayWrite() {
        return ++writes <= mostWrites;
      },
      writeLimitMs: MINUTE_MS,
    };
    const term = await Term.begin({
      options,
      connection,
      client: fencedClient(client, fence, CONNECTIONS),
      group,
      clock,
      // The network's time does not pass with the test's: a watch that is quiet for the minutes of a test is not silent.
      watchClock: { ...SYSTEM_CLOCK, now: () => clock.now() },
      allocatorClock: systemClock,
      log: { info: (message) => log.push(message), error: (message) => log.push(message) },
      onRun: ({ name, outcome, message }) => {
        looks.set(name, (looks.get(name) ?? 0) + 1);
        if (outcome === "failure") log.push(`${name} failed: ${message}`);
      },
      onReleased: () => undefined,
      onIdentity: () => undefined,
    });
    const under = new ControllerTerm(term, clock, looks, log, () => {
      client.close();
      connection.close();
    });
    await under.followed();
    await under.#quiet(new Map());
    return under;
  }

  /** So many minutes, one look of each duty in each; what became due has been worked on. */
  async minutes(count: number): Promise<void> {
    for (let minute = 0; minute < count; minute++) {
      const before = new Map(this.#looks);
      await this.#clock.advance(MINUTE_MS);
      await this.#quiet(before);
    }
  }

  /** Less than a minute; what became due has been worked on. */
  async seconds(count: number): Promise<void> {
    await this.#clock.advance(count * 1000);
    await this.#quiet(undefined);
  }

  /** A watch must have brought what the test has just changed before a look counts. */
  async sees(what: string, isSo: (view: Term["view"]) => boolean): Promise<void> {
    await until(what, () => isSo(this.term.view));
  }

  /** Every watch has begun: pauses between its tries pass at once, the network's time does not. */
  async followed(): Promise<void> {
    await until("every watch", async () => {
      if (this.term.view.states().every(({ followedSince }) => followedSince !== undefined)) return true;
      await this.#clock.advance(250);
      return false;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort(new Error("the test has ended"));
    const ended = this.#running;
    while (!(await Promise.race([ended.then(() => true), Bun.sleep(20).then(() => false)]))) await this.#clock.advance(10_000);
    this.#close();
  }

  /** @param before looks that do not count; absent: nobody needs to have looked */
  async #quiet(before: ReadonlyMap<string, number> | undefined): Promise<void> {
    let lacks = "";
    const isQuiet = () => {
      const { length, working, failing } = this.term.queue.status;
      const names = this.term.statuses.map(({ name }) => name);
      const late = names.filter((name) => before !== undefined && (this.#looks.get(name) ?? 0) <= (before.get(name) ?? 0));
      lacks = `${late.join(", ")} to look, and of ${length} queued, ${failing.length} failing, ${working ?? "nothing"} to end`;
      return names.length > 0 && late.length === 0 && working === undefined && length <= failing.length;
    };
    await until("every duty to look, and the queue to be empty", isQuiet).catch((error: unknown) => {
      throw new Error(`${messageOf(error)}: ${lacks}\n${this.log.slice(-20).join("\n")}`);
    });
  }
}
