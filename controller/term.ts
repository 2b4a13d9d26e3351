/**
 * Runs one term of the leader: the watches begin, each duty looks at them in its own background task, and one queue does what is due. All
 * of it ends with the term's signal, and the next term remembers nothing of it.
 */

import { Allocator } from "../ipam-plugin/allocator/allocator.ts";
import { type ApiGroup, LEGACY_GROUP, servedGroup, V3_GROUP } from "../lib/datastore/calico/codec.ts";
import { kubernetesDatastore } from "../lib/datastore/kubernetes/kubernetes-datastore.ts";
import { messageOf } from "../lib/errors/errors.ts";
import { IDENTITY_PLURAL } from "../lib/identity/identity-object.ts";
import type { ApiConnection } from "../lib/kubernetes/client/connection.ts";
import { TokenBucket } from "../lib/kubernetes/client/limits.ts";
import { Informers } from "../lib/kubernetes/watch/informers.ts";
import { SECOND_MS } from "../lib/resident/options.ts";
import { type TaskRun, type TaskStatus, Tasks } from "../lib/resident/tasks.ts";
import { type BackOff, type Clock, pauseAfter } from "../lib/system/waiting.ts";
import { Addresses } from "./duties/addresses.ts";
import { Agents } from "./duties/agents.ts";
import { type Duty, type DutyContext, KubeControllers, LiveCluster, newObserved, type Observed } from "./duties/duty.ts";
import { Identities } from "./duties/identities.ts";
import { ClusterInformationMark, FirstPools } from "./duties/new-cluster.ts";
import { ANNOTATIONS, ENDPOINT_OBJECTS, LEFTOVERS, removalOf } from "./duties/orphans.ts";
import { Pools } from "./duties/pools.ts";
import type { ControllerOptions } from "./options.ts";
import { ClusterView, OWN_GROUP_PATH, type OwnKinds } from "./view/cluster-view.ts";

export interface TermOptions extends Pick<DutyContext, "client" | "clock" | "allocatorClock" | "log" | "onReleased" | "onIdentity"> {
  readonly options: ControllerOptions;
  /** For watches. */
  readonly connection: ApiConnection;
  /** Absent: the server is asked. */
  readonly group: ApiGroup | undefined;
  /** Of the watches and their limits: `now` is that of `clock`. */
  readonly watchClock: Clock;
  readonly onRun: (run: TaskRun) => void;
}

/** Makes the leader's duties from the options; each duty may look and work by itself. */
export class Duties {
  readonly addresses: Addresses;
  readonly agents: Agents;
  readonly firstPools: FirstPools;
  /** `undefined` where the cluster has no such kind, or the options want none. */
  readonly identities: Identities | undefined;
  readonly all: readonly Duty[];

  constructor(context: DutyContext, settings: ControllerOptions, kinds: OwnKinds) {
    const { identities } = context.view;
    this.identities = identities && new Identities(context, identities);
    this.addresses = new Addresses(context);
    this.agents = new Agents(context, { graceMs: settings["agent-grace"] * SECOND_MS, namespace: settings["lease-namespace"] });
    this.firstPools = new FirstPools(context, settings);
    this.all = [
      // Comes first: in a new cluster everything else waits for what they make.
      ...(settings["cluster-information"] ? [new ClusterInformationMark(context)] : []),
      this.firstPools,
      this.agents,
      this.addresses,
      removalOf(context, LEFTOVERS),
      removalOf(context, ANNOTATIONS),
      new Pools(context, settings["pool-finalizer"]),
      ...(kinds.endpointObjects ? [removalOf(context, ENDPOINT_OBJECTS)] : []),
      ...(this.identities === undefined ? [] : [this.identities]),
    ];
  }
}

export class Term {
  readonly view: ClusterView;
  readonly #observed: Observed;
  readonly queue: WorkQueue;
  readonly kubeControllers: KubeControllers;
  readonly duties: Duties;
  readonly #informers: Informers;
  readonly #tasks: Tasks;
  readonly #options: TermOptions;

  private constructor(options: TermOptions, group: ApiGroup, live: LiveCluster, kinds: OwnKinds) {
    const { clock, watchClock, client, connection, allocatorClock, log, onReleased, onIdentity, onRun, options: settings } = options;
    this.#options = options;
    this.queue = new WorkQueue(clock);
    this.#informers = new Informers(connection, { clock: watchClock, onProblem: (message) => log.error(message) });
    this.#tasks = new Tasks({ clock, onRun });
    this.#observed = newObserved(clock);
    this.view = new ClusterView(this.#informers, group, kinds);
    let unreadable = 0;
    const onDamaged = ({ message }: Error) => {
      unreadable++;
      log.error(message);
    };
    const datastore = kubernetesDatastore(client, { group, onDamaged });
    this.kubeControllers = new KubeControllers(settings, client, this.view);
    const context: DutyContext = {
      view: this.view,
      live,
      group,
      datastore,
      unreadable: () => unreadable,
      allocator: new Allocator({ datastore, clock: allocatorClock, log: (message) => log.error(message) }),
      client,
      clock,
      allocatorClock,
      observed: this.#observed,
      kubeControllers: this.kubeControllers,
      nodeGraceMs: settings["node-grace"] * SECOND_MS,
      leakGraceMs: settings["leak-grace"] * SECOND_MS,
      log,
      onReleased,
      onIdentity,
    };
    this.duties = new Duties(context, settings, kinds);
  }

  /** Finds out what the cluster has, and begins the watches. @throws ApiError; Error where Calico's definitions are not there yet */
  static async begin(options: TermOptions): Promise<Term> {
    const group = options.group ?? (await servedGroup(options.client));
    // A term keeps to one group: to guess it, as a plugin may for its one call, would watch what is not there.
    if (group === undefined) throw new Error(`the API server serves neither ${LEGACY_GROUP} nor ${V3_GROUP}`);
    const live = new LiveCluster(options.client);
    const { "endpoint-objects": endpointObjects, identities } = options.options;
    const served = endpointObjects || identities ? await live.kindsOf(OWN_GROUP_PATH) : [];
    return new Term(options, group, live, {
      endpointObjects: endpointObjects && served.includes("tortieendpoints"),
      identities: identities && served.includes(IDENTITY_PLURAL),
    });
  }

  /** Works until the signal ends it. */
  async run(signal: AbortSignal): Promise<void> {
    const { options, log } = this.#options;
    try {
      for (const cache of this.view.states()) log.info(`watching ${cache.name}`);
      await this.view.untilSynced(signal);
      const queued = this.queue.run(
        (item, within) => this.#work(item, within),
        signal,
        (item, message) => log.error(`${item}: ${message}; it will be tried again`),
      );
      for (const duty of this.duties.all) {
        const run = async (within: AbortSignal) => {
          this.#forgetUnfollowed();
          for (const item of await duty.look(within)) this.queue.add(`${duty.name} ${item}`);
        };
        const intervalMs = Math.min(options["scan-interval"] * SECOND_MS, duty.mostMs ?? Number.POSITIVE_INFINITY);
        this.#tasks.update(duty.name, { run, intervalMs, quiet: true });
      }
      await queued;
    } finally {
      await this.#tasks[Symbol.asyncDispose]();
      await this.#informers[Symbol.asyncDispose]();
    }
  }

  get statuses(): readonly TaskStatus[] {
    return this.#tasks.statuses();
  }

  get candidates(): number {
    return this.#observed.leak.size + this.#observed.departed.size;
  }

  async #work(queued: string, signal: AbortSignal): Promise<void> {
    const duty = this.duties.all.find(({ name }) => queued.startsWith(`${name} `));
    this.#forgetUnfollowed();
    await duty?.work(queued.slice(duty.name.length + 1), signal);
  }

  #forgetUnfollowed(): void {
    for (const seen of Object.values(this.#observed)) seen.forgetBefore(this.view.followedSince);
  }
}

const BACK_OFF: BackOff = { base: 5, longest: 30_000 };
const RATE_PER_SECOND = 10;
const BURST = 100;

export interface QueueStatus {
  /** The key that is being worked on. */
  readonly working: string | undefined;
  readonly length: number;
  /** Keys whose last try failed, with what it said. */
  readonly failing: readonly { readonly key: string; readonly failures: number; readonly message: string }[];
}

interface Failure {
  readonly count: number;
  readonly message: string;
}

/**
 * Works on keys, each at most once at a time: one that comes again during its work is worked on again afterwards. A failure puts the key
 * back, later each time; all keys share one rate (figures of kube-controllers, I§5.4).
 */
export class WorkQueue {
  readonly #clock: Clock;
  readonly #bucket: TokenBucket;
  /** When each key is due. */
  readonly #due = new Map<string, number>();
  readonly #failures = new Map<string, Failure>();
  #working: string | undefined;
  #woken = Promise.withResolvers<void>();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#bucket = new TokenBucket(RATE_PER_SECOND, BURST, clock.now());
  }

  /** Adds a key. One that waits after a failure goes on waiting. */
  add(key: string): void {
    if (this.#due.has(key)) return;
    this.#due.set(key, this.#clock.now());
    this.#woken.resolve();
  }

  get status(): QueueStatus {
    const failing = [...this.#failures].map(([key, { count, message }]) => ({ key, failures: count, message }));
    return { working: this.#working, length: this.#due.size, failing };
  }

  /** Works on one key after the other until the signal is aborted. Never rejects. @param onFailure called after each failure */
  async run(
    work: (key: string, signal: AbortSignal) => Promise<void>,
    signal: AbortSignal,
    onFailure: (key: string, message: string) => void,
  ): Promise<void> {
    while (!signal.aborted) {
      const [key, due] = this.#next() ?? [undefined, Number.POSITIVE_INFINITY];
      const wait = due - this.#clock.now();
      if (key === undefined || wait > 0) {
        await this.#sleep(wait, signal);
        continue;
      }
      const turn = this.#bucket.take(this.#clock.now());
      if (turn > 0) await this.#clock.sleep(turn, signal);
      if (signal.aborted) return;
      this.#due.delete(key);
      this.#working = key;
      try {
        await work(key, signal);
        this.#failures.delete(key);
      } catch (error) {
        if (signal.aborted) return;
        const count = (this.#failures.get(key)?.count ?? 0) + 1;
        const message = messageOf(error);
        this.#failures.set(key, { count, message });
        this.#due.set(key, this.#clock.now() + pauseAfter(count, BACK_OFF, this.#clock));
        onFailure(key, message);
      } finally {
        this.#working = undefined;
      }
    }
  }

  #next(): readonly [string, number] | undefined {
    let first: readonly [string, number] | undefined;
    for (const entry of this.#due) if (first === undefined || entry[1] < first[1]) first = entry;
    return first;
  }

  /** Sleeps until a key comes, the time is over, or the signal is aborted. */
  async #sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
    this.#woken = Promise.withResolvers();
    const awake = new AbortController();
    const ended = AbortSignal.any([awake.signal, signal]);
    void this.#woken.promise.then(() => awake.abort());
    await this.#clock.sleep(Number.isFinite(milliseconds) ? milliseconds : 60_000, ended);
  }
}
