/**
 * A node in this process: the datastore in memory, and a dataplane that keeps nothing but names. Of a Kubernetes cluster, with one pod
 * behind a KubernetesCore of ours, or of plain containers only. Every effect of a verb is noted in order, and any of them can be made to fail.
 */
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { attachmentAlias, namesAttachment, parseAttachmentAlias } from "../../dataplane/alias.ts";
import { type AttachedLink, type Dataplane, type LinkOfAttachment, NO_NODE_STATE, type RecordedLink } from "../../dataplane/dataplane.ts";
import type { DesiredState } from "../../dataplane/desired-state.ts";
import { mayReplace } from "../../dataplane/linux/ends.ts";
import { createIpamHost } from "../../ipam-plugin/host.ts";
import type { CniRequest, CniResult } from "../../lib/cni/protocol.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import {
  type Datastore,
  type EndpointRecords,
  ETCD_TRAITS,
  KUBERNETES_TRAITS,
  type KubernetesCore,
  type Profiles,
} from "../../lib/datastore/datastore.ts";
import { podOf, recordOfPod } from "../../lib/datastore/kubernetes/pod-record.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { JsonObject } from "../../lib/json/value.ts";
import type { Namespace, Pod } from "../../lib/kubernetes/objects.ts";
import type { Logger } from "../../lib/log/logger.ts";
import { add } from "../../main-plugin/add.ts";
import { type NetworkCall, resolveAddCall, resolveAttachmentCall, resolveNetworkCall } from "../../main-plugin/call.ts";
import { check } from "../../main-plugin/check.ts";
import { del } from "../../main-plugin/del.ts";
import { gc } from "../../main-plugin/gc.ts";
import type { Host } from "../../main-plugin/host.ts";
import { status } from "../../main-plugin/status.ts";
import { hostScopeOf } from "./grant-directories.ts";
import { type Call, type Fate, type MemoryDatastore, MemoryStore } from "./memory-datastore.ts";
import { podOf as samplePod } from "./pods.ts";
import { samplePool } from "./samples.ts";

const CONTAINER_ID = "cni.projectcalico.org/containerID";
const POD_IP = "cni.projectcalico.org/podIP";
const POD_IPS = "cni.projectcalico.org/podIPs";

export interface PodCall extends Partial<Pick<NetworkCall, "journal" | "sandbox" | "held" | "collection">> {
  readonly container?: string;
  readonly interfaceName?: string;
  readonly network?: string;
  readonly args?: string;
  /** Absent: that of this process, which is not touched. */
  readonly netns?: string;
  /** Keys over the node's network configuration. */
  readonly conf?: JsonObject;
  readonly signal?: AbortSignal;
}

export class PodNode implements AsyncDisposable {
  /** Effects in their order: "get cluster-information default", "pod", "apply", "write record". */
  readonly effects: string[] = [];
  /** Links of the host: name → alias. */
  readonly links = new Map<string, string>();
  /** Links of the host that an ADD has not finished, whichever process runs it: index → name. */
  readonly unfinished = new Map<number, string>();
  /** Names of the interfaces of the one sandbox that there is. */
  readonly podEnds = new Set<string>();
  /** Errors and warnings of the log. */
  readonly errors: string[] = [];
  readonly datastore: MemoryDatastore;
  pod: Pod | undefined = samplePod({ namespace: "shop", name: "cart", uid: "9b1c", nodeName: "worker-1", phase: "Pending" });
  namespace: Namespace | undefined = { name: "shop", labels: {}, annotations: {} };
  /** Thrown by the effect of this name. */
  failure: { readonly effect: string; readonly error: Error } | undefined;
  /** Done once, just before the effect of this name. */
  meanwhile: { readonly effect: string; readonly work: () => unknown } | undefined;
  /** What the dataplane was last asked to compare the kernel with. */
  inspected: { readonly desired: DesiredState; readonly recorded: RecordedLink } | undefined;
  /** What the dataplane was last asked to make. */
  applied: DesiredState | undefined;
  /** Of the profiles that were asked for. */
  readonly ingressSelectors: string[] = [];
  /** Of every link that is made. */
  warnings: readonly string[] = [];
  readonly #store = new MemoryStore();
  readonly #directory = mkdtempSync(join(tmpdir(), "tortie-pod-node-"));
  readonly #kind: "cluster" | "containers" | "etcd";

  private constructor(kind: "cluster" | "containers" | "etcd") {
    this.#kind = kind;
    // Our own executable under the IPAM plugin's name is served in this process.
    symlinkSync(process.execPath, join(this.#directory, "calico-ipam"));
    this.datastore = this.#store.connect();
  }

  static create(): Promise<PodNode> {
    return PodNode.#withStore(new PodNode("cluster"));
  }

  static async #withStore(node: PodNode): Promise<PodNode> {
    await node.datastore.pools.create("pool4", samplePool("pool4", "10.60.0.0/26"));
    await node.datastore.nodes.create("worker-1", { name: "worker-1", labels: {} });
    await node.setReady(true);
    return node;
  }

  /** No cluster, no pods. */
  static forContainers(): PodNode {
    return new PodNode("containers");
  }

  /** With the store of an etcd, which keeps endpoints as objects of their own, and no API server. */
  static forEtcd(): Promise<PodNode> {
    return PodNode.#withStore(new PodNode("etcd"));
  }

  async setReady(datastoreReady: boolean | undefined): Promise<void> {
    const { clusterInformation } = this.datastore;
    const stored = await clusterInformation.get("default");
    if (stored === undefined) await clusterInformation.create("default", { datastoreReady });
    else await clusterInformation.update("default", { datastoreReady }, stored.revision);
  }

  async add(call: PodCall = {}): Promise<CniResult> {
    return add(resolveAddCall(this.#call("ADD", call)), this.#host());
  }

  async del(call: PodCall = {}): Promise<void> {
    return del(resolveAttachmentCall(this.#call("DEL", call)), this.#host());
  }

  /** What a process that serves many calls has of an ADD. */
  parts(call: PodCall = {}): { readonly call: NetworkCall; readonly host: Host } {
    return { call: this.#call("ADD", call), host: this.#host() };
  }

  /** @param valid pairs of container and interface that the runtime still knows */
  gc(...valid: readonly (readonly [container: string, interfaceName: string])[]): Promise<void> {
    const conf = { "cni.dev/valid-attachments": valid.map(([containerID, ifname]) => ({ containerID, ifname })) };
    return gc(this.#call("GC", { container: "", conf }), this.#host());
  }

  async status(call: PodCall = {}): Promise<void> {
    return status(this.#call("STATUS", call), this.#host());
  }

  async check(call: PodCall = {}): Promise<void> {
    return check(resolveAddCall(this.#call("CHECK", call)), this.#host());
  }

  annotations(): Readonly<Record<string, string>> {
    return this.pod?.annotations ?? {};
  }

  annotate(annotations: Readonly<Record<string, string>>): void {
    if (this.pod !== undefined) this.pod = { ...this.pod, annotations: { ...this.pod.annotations, ...annotations } };
  }

  /** Addresses by the handle that holds them. */
  async handles(): Promise<Readonly<Record<string, number>>> {
    const counts: Record<string, number> = {};
    for (const { value } of await this.datastore.blocks.list()) {
      for (const index of value.allocations) {
        const handle = index === null ? undefined : value.attributes[index]?.handleId;
        if (handle !== undefined) counts[handle] = (counts[handle] ?? 0) + 1;
      }
    }
    const known = (await this.datastore.handles.list()).map(({ value }) => value.id).sort();
    expect(known).toEqual(Object.keys(counts).sort());
    return counts;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    rmSync(this.#directory, { recursive: true });
  }

  #call(
    command: "ADD" | "DEL" | "CHECK" | "GC" | "STATUS",
    {
      container = "c1",
      interfaceName = "eth0",
      network = "net1",
      args,
      netns = "/proc/self/ns/net",
      conf = {},
      signal,
      ...members
    }: PodCall,
  ): NetworkCall {
    const netconf: JsonObject = {
      name: network,
      type: "calico",
      cniVersion: "1.0.0",
      nodename: "worker-1",
      nodename_file_optional: true,
      ipam_lock_file: join(this.#directory, "ipam.lock"),
      ...this.#storeConf(),
      ...conf,
    };
    const request: CniRequest = {
      command,
      containerId: container,
      netns,
      interfaceName,
      args: args ?? (this.#kind === "cluster" ? "IgnoreUnknown=1;K8S_POD_NAME=cart;K8S_POD_NAMESPACE=shop" : ""),
      path: this.#directory,
      netnsOverride: true,
      stdin: new TextEncoder().encode(JSON.stringify(netconf)),
      netconf,
      network,
      cniVersion: "1.0.0",
    };
    const call = resolveNetworkCall(request, decodeNetworkConfig(netconf), {}, this.#log, signal);
    return { ...call, ...members };
  }

  #storeConf(): JsonObject {
    const ipam = { type: "calico-ipam" };
    if (this.#kind === "cluster") return { datastore_type: "kubernetes", ipam, policy: { type: "k8s" } };
    if (this.#kind === "etcd") return { datastore_type: "etcdv3", etcd_endpoints: "http://127.0.0.1:9", ipam };
    return { datastore_type: "local", ipam: { ...ipam, pools: [{ cidr: "10.60.0.0/26" }] } };
  }

  #host(): Host {
    const connected = this.#store.connect("plugin", (call) => this.#gate(call));
    const datastore =
      this.#kind === "cluster"
        ? this.#asOfCluster(connected)
        : { ...connected, traits: this.#kind === "etcd" ? ETCD_TRAITS : connected.traits, profiles: this.#profiles() };
    return {
      dataplane: this.#dataplane(),
      datastore: async () => datastore,
      core: async () => (this.#kind === "cluster" ? this.#core() : undefined),
      ipam: async () => createIpamHost({ datastore, log: this.#log }),
      hostScope: async () => hostScopeOf(),
      routers: async () => [],
      state: async () => NO_NODE_STATE,
      async [Symbol.asyncDispose]() {},
    };
  }

  get #log(): Logger {
    return {
      debug: () => {},
      info: () => {},
      error: (message) => {
        this.errors.push(message);
      },
      step: () => {},
      flush: async () => {},
      writeNow: () => {},
    };
  }

  async #gate(call: Call): Promise<Fate> {
    await this.#effect(`${call.operation} ${call.kind}${call.operation === "get" ? ` ${call.key}` : ""}`, () => {});
    return "proceed";
  }

  async #effect<T>(effect: string, work: () => T): Promise<T> {
    const { meanwhile } = this;
    if (meanwhile?.effect === effect) {
      this.meanwhile = undefined;
      await meanwhile.work();
    }
    this.effects.push(effect);
    if (this.failure?.effect === effect) throw this.failure.error;
    return work();
  }

  #core(): KubernetesCore {
    return {
      pod: () => this.#effect("pod", () => this.pod),
      namespace: () => this.#effect("namespace", () => this.namespace),
      node: () => this.#effect("node", () => undefined),
      serverVersion: async () => "v1.34.4",
    };
  }

  /** With the traits of a cluster's store, but for the case of handles, which a store in memory keeps apart. */
  #asOfCluster(datastore: Datastore): Datastore {
    const traits = { ...KUBERNETES_TRAITS, listsFromMemory: false, foldsHandleCase: false };
    return { ...datastore, traits, records: this.#records() };
  }

  /** Noted, and kept nowhere. */
  #profiles(): Profiles {
    return {
      ensure: ({ name, ingressSelector }) =>
        this.#effect(`ensure profile ${name}`, () => {
          this.ingressSelectors.push(ingressSelector);
        }),
    };
  }

  #records(): EndpointRecords {
    return {
      read: () => this.#effect("read record", () => this.pod && recordOfPod(this.pod)),
      write: ({ containerID, ipNetworks }) =>
        this.#effect("write record", () =>
          this.annotate({ [CONTAINER_ID]: containerID, [POD_IP]: ipNetworks[0] ?? "", [POD_IPS]: ipNetworks.join(",") }),
        ),
      clear: async (key, containerID) => {
        if (podOf(key) === undefined) return "gone";
        return this.#effect("clear record", () => {
          if (this.pod === undefined) return "gone";
          if (this.annotations()[CONTAINER_ID] !== containerID) return "not-ours";
          this.annotate({ [POD_IP]: "", [POD_IPS]: "" });
          return "cleared";
        });
      },
    };
  }

  #dataplane(): Dataplane {
    const { links, podEnds } = this;
    return {
      apply: (_, desired) =>
        this.#effect("apply", () => {
          const { host, pod } = desired;
          this.applied = desired;
          const there = links.get(host.name) ?? "";
          if (!mayReplace(there, host)) throw new TortieError("interface-exists", `${host.name} exists`);
          links.set(host.name, attachmentAlias(host.owner));
          podEnds.add(pod.name);
          return {
            podMac: "02:00:00:00:00:01",
            hostIndex: 7,
            kind: "veth" as const,
            warnings: this.warnings,
            [Symbol.asyncDispose]: async () => {
              this.effects.push("undo apply");
              links.delete(host.name);
              podEnds.delete(pod.name);
            },
          };
        }),
      inspect: async (_, desired, recorded = {}) => {
        this.inspected = { desired, recorded };
        const { name } = desired.pod;
        return podEnds.has(name) ? [] : [{ side: "pod", object: `link ${name}`, wanted: "present", found: "missing" }];
      },
      drift: async () => [],
      mend: async () => ({ mended: [], left: [] }),
      remove: (link) => {
        if ("index" in link && link.owner === undefined) {
          this.unfinished.delete(link.index);
          return Promise.resolve({});
        }
        return this.#effect("remove link", () => {
          const alias = links.get(link.hostInterface);
          if (alias !== undefined && !isRemovable(alias, link)) return { keptFor: alias };
          links.delete(link.hostInterface);
          podEnds.clear();
          return {};
        });
      },
      ownerOf: async (hostInterface) => parseAttachmentAlias(links.get(hostInterface) ?? ""),
      list: async () => [
        ...[...links].map(([hostInterface, alias], index) => ({ hostInterface, index, owner: parseAttachmentAlias(alias) ?? NOBODY })),
        ...[...this.unfinished].map(([index, hostInterface]) => ({ hostInterface, index })),
      ],
      applyNode: async () => {
        this.effects.push("node");
        return undefined;
      },
    };
  }
}

/** Of a link whose alias is not ours, which a real dataplane leaves out of its list. */
const NOBODY = { network: "", containerId: "", interfaceName: "" };

function isRemovable(alias: string, link: AttachedLink | LinkOfAttachment): boolean {
  if (link.owner === undefined) return false;
  const predecessors = "predecessors" in link ? link.predecessors : undefined;
  return predecessors === undefined ? namesAttachment(alias, link.owner) : mayReplace(alias, { owner: link.owner, predecessors });
}
