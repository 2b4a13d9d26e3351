/**
 * One term of the leader: the watches begin, each duty looks at them in its own background task, and one queue does what is due. All of
 * it ends with the term's signal, and nothing of it is remembered by the next.
 */
import type { Clock as AllocatorClock } from "../ipam-plugin/allocator/allocator.ts";
import { Allocator } from "../ipam-plugin/allocator/allocator.ts";
import { type ApiGroup, LEGACY_GROUP, servedGroup, V3_GROUP } from "../lib/datastore/calico/group.ts";
import { kubernetesDatastore } from "../lib/datastore/kubernetes/kubernetes-datastore.ts";
import { type ApiClient, ApiError } from "../lib/kubernetes/api-client.ts";
import type { ApiConnection } from "../lib/kubernetes/client/connection.ts";
import { Informers } from "../lib/kubernetes/watch/informers.ts";
import { Controllers } from "../lib/resident/controllers.ts";
import { SECOND_MS } from "../lib/resident/option-entry.ts";
import type { ControllerRun, ControllerStatus } from "../lib/resident/parameters.ts";
import type { Clock } from "../lib/system/clock.ts";
import { Addresses } from "./duties/addresses.ts";
import { Annotations } from "./duties/annotations.ts";
import { ClusterInformationMark } from "./duties/cluster-information.ts";
import type { Duty, DutyContext } from "./duties/duty.ts";
import { EndpointObjects } from "./duties/endpoint-objects.ts";
import { FirstPools } from "./duties/first-pools.ts";
import { KubeControllers } from "./duties/kube-controllers.ts";
import { Leftovers } from "./duties/leftovers.ts";
import { LiveCluster } from "./duties/live-cluster.ts";
import { Pools } from "./duties/pools.ts";
import { Observations } from "./judge/observations.ts";
import type { ControllerOptions } from "./options.ts";
import { type QueueStatus, WorkQueue } from "./queue/work-queue.ts";
import { ClusterView, ENDPOINT_PATH } from "./view/cluster-view.ts";

export interface TermOptions {
  readonly options: ControllerOptions;
  /** For watches. */
  readonly connection: ApiConnection;
  /** Its writes stop with the lease. */
  readonly client: ApiClient;
  /** Absent: the server is asked. */
  readonly group: ApiGroup | undefined;
  readonly clock: Clock;
  /** Of the watches and their limits: `now` is that of `clock`. */
  readonly watchClock: Clock;
  readonly allocatorClock: AllocatorClock;
  readonly log: DutyContext["log"];
  readonly onRun: (run: ControllerRun) => void;
  readonly onReleased: DutyContext["onReleased"];
}

export class Term {
  readonly view: ClusterView;
  readonly #observations = new Observations();
  readonly #queue: WorkQueue;
  readonly #kubeControllers: KubeControllers;
  readonly #informers: Informers;
  readonly #controllers: Controllers;
  readonly #addresses: Addresses;
  readonly #firstPools: FirstPools;
  readonly #duties: readonly Duty[];
  readonly #options: TermOptions;

  private constructor(options: TermOptions, group: ApiGroup, hasEndpointObjects: boolean) {
    const { clock, watchClock, client, connection, allocatorClock, log, onReleased, onRun } = options;
    const settings = options.options;
    this.#options = options;
    this.#queue = new WorkQueue(clock);
    this.#informers = new Informers(connection, { clock: watchClock, onProblem: (message) => log.error(message) });
    this.#controllers = new Controllers({ clock, onRun });
    this.view = new ClusterView(this.#informers, group, hasEndpointObjects);
    let unreadable = 0;
    const onDamaged = ({ message }: Error) => {
      unreadable++;
      log.error(message);
    };
    const datastore = kubernetesDatastore(client, { group, onDamaged });
    this.#kubeControllers = new KubeControllers(settings, client, this.view);
    const context: DutyContext = {
      view: this.view,
      live: new LiveCluster(client),
      datastore,
      unreadable: () => unreadable,
      allocator: new Allocator({ datastore, clock: allocatorClock, log: (message) => log.error(message) }),
      client,
      clock,
      allocatorClock,
      observations: this.#observations,
      kubeControllers: this.#kubeControllers,
      nodeGraceMs: settings["node-grace"] * SECOND_MS,
      leakGraceMs: settings["leak-grace"] * SECOND_MS,
      log,
      onReleased,
    };
    this.#addresses = new Addresses(context);
    this.#firstPools = new FirstPools(context, group, settings);
    this.#duties = [
      // First: in a new cluster everything else waits for what they make.
      ...(settings["cluster-information"] ? [new ClusterInformationMark(context, group)] : []),
      this.#firstPools,
      this.#addresses,
      new Leftovers(context),
      new Annotations(context),
      new Pools(context, group, settings["pool-finalizer"]),
      ...(hasEndpointObjects ? [new EndpointObjects(context)] : []),
    ];
  }

  /** Finds out what the cluster has, and begins the watches. @throws ApiError; Error where Calico's definitions are not there yet */
  static async begin(options: TermOptions): Promise<Term> {
    const group = options.group ?? (await servedGroup(options.client));
    // A term keeps to one group: to guess it, as a plugin may for its one call, would watch what is not there.
    if (group === undefined) throw new Error(`the API server serves neither ${LEGACY_GROUP} nor ${V3_GROUP}`);
    const hasObjects = options.options["endpoint-objects"] && (await isServed(options.client, ENDPOINT_PATH));
    return new Term(options, group, hasObjects);
  }

  /** Works until the signal ends it. */
  async run(signal: AbortSignal): Promise<void> {
    const { options, log } = this.#options;
    try {
      for (const cache of this.view.states()) log.info(`watching ${cache.name}`);
      await this.view.untilSynced(signal);
      const queued = this.#queue.run(
        (item, within) => this.#work(item, within),
        signal,
        (item, message) => log.error(`${item}: ${message}; it will be tried again`),
      );
      for (const duty of this.#duties) {
        const run = async (within: AbortSignal) => {
          this.#observations.forgetBefore(this.view.followedSince);
          for (const item of await duty.look(within)) this.#queue.add(`${duty.name} ${item}`);
        };
        const intervalMs = Math.min(options["scan-interval"] * SECOND_MS, duty.mostMs ?? Number.POSITIVE_INFINITY);
        this.#controllers.update(duty.name, { run, intervalMs, quiet: true });
      }
      await queued;
    } finally {
      await this.#controllers[Symbol.asyncDispose]();
      await this.#informers[Symbol.asyncDispose]();
    }
  }

  get statuses(): readonly ControllerStatus[] {
    return this.#controllers.statuses();
  }

  get queue(): QueueStatus {
    return this.#queue.status;
  }

  /** Why addresses were left to Calico's kube-controllers at the last look; `undefined` when they were not. */
  get kubeControllers(): string | undefined {
    return this.#kubeControllers.found;
  }

  /** Pods whose annotations were not read to their end at the last look. */
  get unreadPods(): readonly string[] {
    return this.#addresses.unread;
  }

  /** Why pools that the options ask for were not made at the last look. */
  get poolRefusals(): readonly string[] {
    return this.#firstPools.refusals;
  }

  get candidates(): number {
    return this.#observations.count("leak") + this.#observations.count("departed");
  }

  async #work(queued: string, signal: AbortSignal): Promise<void> {
    const duty = this.#duties.find(({ name }) => queued.startsWith(`${name} `));
    this.#observations.forgetBefore(this.view.followedSince);
    await duty?.work(queued.slice(duty.name.length + 1), signal);
  }
}

async function isServed(client: ApiClient, path: string): Promise<boolean> {
  try {
    await client.request({ method: "GET", path });
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return false;
    throw error;
  }
}
