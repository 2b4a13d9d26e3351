/** The controller's duties at work on an API server in memory: minutes pass when a test says so, each with a look of every duty. */
import { type DutyContext, KubeControllers, LiveCluster, newObserved } from "../../controller/duties/duty.ts";
import { ControllerMetrics } from "../../controller/metrics.ts";
import { CONTROLLER } from "../../controller/options.ts";
import { Duties } from "../../controller/term.ts";
import { ClusterView } from "../../controller/view/cluster-view.ts";
import { Allocator } from "../../ipam-plugin/allocator/allocator.ts";
import { type Family, formatAddress } from "../../lib/addresses/address.ts";
import { LEGACY_GROUP } from "../../lib/datastore/calico/codec.ts";
import { type KubernetesDatastore, kubernetesDatastore } from "../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import type { JsonObject } from "../../lib/json/value.ts";
import { resolveOptions } from "../../lib/resident/options.ts";
import { ApiInMemory } from "./api-in-memory.ts";
import { assignOne } from "./blocks.ts";
import { FakeClock } from "./fake-clock.ts";

export const NAMESPACE = "shop";
const GROUP = `/apis/${LEGACY_GROUP}`;
const MINUTE_MS = 60_000;

export interface PodFacts {
  readonly node?: string;
  readonly containerId?: string;
  readonly phase?: string;
  /** Of its status. */
  readonly podIP?: string;
  readonly annotations?: JsonObject;
}

export class ControllerWorld {
  readonly api = new ApiInMemory();
  readonly clock = new FakeClock();
  readonly log: string[] = [];
  /** "leak 1" of each release. */
  readonly released: string[] = [];
  /** "created" and its like, one each time. */
  readonly identityChanges: string[] = [];
  readonly context: DutyContext;
  readonly datastore: KubernetesDatastore;
  /** Of the plugins on the nodes. */
  readonly allocator: Allocator;
  readonly duties: Duties;
  readonly #signal = new AbortController().signal;

  /** @param given options of the controller @param nodes that exist */
  constructor(given: Readonly<Record<string, string>> = {}, nodes: readonly string[] = ["node1", "node2"]) {
    const { api, clock, log } = this;
    const settings = resolveOptions(CONTROLLER, given, {}, undefined);
    let unreadable = 0;
    this.datastore = kubernetesDatastore(api, { group: LEGACY_GROUP, onDamaged: () => void unreadable++ });
    const allocatorClock = { nowMs: () => clock.date().getTime(), nowNs: () => BigInt(clock.date().getTime()) * 1_000_000n };
    this.allocator = new Allocator({ datastore: this.datastore, clock: allocatorClock, random: () => 0.5, sleep: async () => {} });
    const kinds = { endpointObjects: true, identities: settings.identities };
    const view = new ClusterView(api, LEGACY_GROUP, kinds);
    this.context = {
      view,
      live: new LiveCluster(api),
      group: LEGACY_GROUP,
      datastore: this.datastore,
      unreadable: () => unreadable,
      allocator: this.allocator,
      client: api,
      clock,
      allocatorClock,
      observed: newObserved(clock),
      kubeControllers: new KubeControllers(settings, api, view),
      nodeGraceMs: settings["node-grace"] * 1000,
      leakGraceMs: settings["leak-grace"] * 1000,
      log: { info: (message) => log.push(message), error: (message) => log.push(message) },
      onReleased: (reason, addresses) => this.released.push(`${reason} ${addresses}`),
      onIdentity: (change) => this.identityChanges.push(change),
    };
    this.duties = new Duties(this.context, settings, kinds);
    for (const node of nodes) this.addNode(node);
    if (!settings["cluster-information"]) this.setReady(true);
  }

  /** A cluster with one pool of IPv4, whose blocks have eight addresses. */
  static withPool(given: Readonly<Record<string, string>> = {}): ControllerWorld {
    const world = new ControllerWorld(given);
    world.addPool("pool", "10.60.0.0/24");
    return world;
  }

  /** Each with one look of every duty, and work on what is due. @throws what a duty throws */
  async minutes(count: number): Promise<void> {
    for (let minute = 0; minute < count; minute++) {
      await this.clock.advance(MINUTE_MS);
      await this.look();
    }
  }

  async look(): Promise<void> {
    const { observed, view } = this.context;
    for (const duty of this.duties.all) {
      for (const seen of Object.values(observed)) seen.forgetBefore(view.followedSince);
      for (const item of await duty.look(this.#signal)) await duty.work(item, this.#signal);
    }
  }

  /** What a duty finds due now. */
  async due(name: string): Promise<readonly string[]> {
    return (await this.duties.all.find((duty) => duty.name === name)?.look(this.#signal)) ?? [];
  }

  /** @param queued a duty's name, and its item */
  async work(queued: string): Promise<void> {
    const duty = this.duties.all.find(({ name }) => queued.startsWith(`${name} `));
    await duty?.work(queued.slice(duty.name.length + 1), this.#signal);
  }

  setReady(datastoreReady: boolean): void {
    this.api.put(`${GROUP}/clusterinformations/default`, { spec: { datastoreReady } });
  }

  addNode(name: string, spec: JsonObject = {}): void {
    this.api.put(`/api/v1/nodes/${name}`, { spec });
  }

  removeNode(name: string): void {
    this.api.remove(`/api/v1/nodes/${name}`);
  }

  addPool(name: string, cidr: string, { blockSize = cidr.includes(":") ? 125 : 29, metadata = {}, ...spec }: PoolFacts = {}): void {
    this.api.put(poolPath(name), { metadata, spec: { cidr, blockSize, ...spec } });
  }

  pool(name: string): JsonObject | undefined {
    return this.api.get(poolPath(name));
  }

  /** As `kubectl delete` does. */
  async deletePool(name: string): Promise<void> {
    await this.api.request({ method: "DELETE", path: poolPath(name) });
  }

  /** What an ADD takes. @returns the address */
  take(node: string, pod: string, containerId = `${pod}-c`, family: Family = 4): Promise<string> {
    return assignOne(this.allocator, node, `net1.${containerId}`, { node, namespace: NAMESPACE, pod }, family);
  }

  takeTunnel(node: string): Promise<string> {
    return assignOne(this.allocator, node, `vxlan-tunnel-addr-${node}`, { node, type: "vxlanTunnelAddress" });
  }

  addPod(name: string, { node = "node1", containerId = "", phase = "Running", podIP = "", annotations = {} }: PodFacts = {}): void {
    const recorded: Record<string, string> = containerId === "" ? {} : { "cni.projectcalico.org/containerID": containerId };
    this.api.put(podPath(name), {
      metadata: { annotations: { ...recorded, ...annotations } },
      spec: { nodeName: node },
      status: { phase, ...(podIP === "" ? {} : { podIP }) },
    });
  }

  /** A pod with the address and the annotations of its ADD. @returns the address */
  async addPodWithAddress(name: string, facts: PodFacts = {}): Promise<string> {
    const containerId = `${name}-c`;
    const address = await this.take(facts.node ?? "node1", name, containerId);
    const annotations = { "cni.projectcalico.org/podIP": `${address}/32`, "cni.projectcalico.org/podIPs": `${address}/32` };
    this.addPod(name, { containerId, ...facts, annotations });
    return address;
  }

  removePod(name: string): void {
    this.api.remove(podPath(name));
  }

  pod(name: string): JsonObject | undefined {
    return this.api.get(podPath(name));
  }

  /** Handle → its addresses. */
  async held(): Promise<Readonly<Record<string, readonly string[]>>> {
    const found: Record<string, readonly string[]> = {};
    for (const { value } of await this.datastore.handles.list()) {
      const addresses = (await this.allocator.addressesByHandle(value.id)) ?? [];
      found[value.id] = addresses.map(({ address }) => formatAddress(address));
    }
    return found;
  }

  /** CIDRs, by their owner. */
  async blocks(): Promise<readonly string[]> {
    return (await this.datastore.blocks.list()).map(({ value }) => `${value.affinity?.name ?? "nobody"} ${value.cidr}`);
  }
}

/** The figures of a controller that leads and has nothing to do, but for these sources. */
export function controllerMetrics(sources: Partial<ConstructorParameters<typeof ControllerMetrics>[0]> = {}): ControllerMetrics {
  return new ControllerMetrics({
    view: () => undefined,
    candidates: () => 0,
    queueLength: () => 0,
    leads: () => true,
    kubeControllers: () => undefined,
    checks: () => [],
    identities: () => undefined,
    ...sources,
  });
}

interface PoolFacts {
  readonly blockSize?: number;
  readonly metadata?: JsonObject;
  readonly disabled?: boolean;
}

function podPath(name: string): string {
  return `/api/v1/namespaces/${NAMESPACE}/pods/${name}`;
}

function poolPath(name: string): string {
  return `${GROUP}/ippools/${name}`;
}
