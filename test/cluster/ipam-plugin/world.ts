/**
 * One node of a real cluster on which the compiled `calico-ipam` is called as a runtime calls it: by absolute path, with nothing but CNI_*
 * in its environment, as the service account of manifests/plugins/rbac.yaml. What the server holds is read and written by plain requests.
 */
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { addressAt, formatAddress, parsePrefix } from "../../../lib/addresses/address.ts";
import {
  type Answer,
  type CalicoSuite,
  callIpam,
  type HeldOwners,
  type IpamCall,
  NODE,
  POOL4,
  POOL6,
  timeless,
} from "../../support/calico-cases.ts";
import { connectNode } from "../../support/kubernetes/connect-node.ts";
import { ipamConfigurationOf } from "../../support/kubernetes/resources.ts";
import {
  type CalicoGroup,
  type Fields,
  LEGACY,
  type StoredObject,
  startCluster,
  type TestCluster,
} from "../../support/kubernetes/test-cluster.ts";
import { Node } from "../../support/node.ts";

const MARKER_DIRECTORY = "/var/run/calico";

export interface Call extends IpamCall {
  /** Name of a pod in the namespace `default`, before the other CNI_ARGS. */
  readonly pod?: string;
  /** Over the network configuration. */
  readonly conf?: Fields;
}

/** `spec` of an IPAMBlock (I§2.4). */
export interface BlockSpec {
  readonly cidr: string;
  readonly affinity?: string;
  readonly allocations: readonly (number | null)[];
  readonly unallocated: readonly number[];
  readonly attributes: readonly {
    readonly handle_id?: string;
    readonly secondary?: Readonly<Record<string, string>>;
    readonly alternateOwnerAttrs?: Readonly<Record<string, string>>;
    readonly releasedAt?: string;
  }[];
  readonly sequenceNumber: bigint;
  readonly sequenceNumberForAllocation: Readonly<Record<string, bigint>>;
}

export class World implements AsyncDisposable, CalicoSuite {
  readonly cluster: TestCluster;
  readonly node: Node;
  readonly #kubeconfig: string;
  /** Where the plugin finds Calico's objects. */
  group: CalicoGroup = LEGACY;

  private constructor(cluster: TestCluster, node: Node, kubeconfig: string) {
    this.cluster = cluster;
    this.node = node;
    this.#kubeconfig = kubeconfig;
  }

  static async create(): Promise<World> {
    const cluster = await startCluster();
    const node = await Node.create({ binds: { [MARKER_DIRECTORY]: "calico" } });
    node.holders.add(cluster);
    await connectNode(node, cluster);
    return new World(cluster, node, await cluster.kubeconfigFor("cni"));
  }

  /** Nothing but a node and the two pools of Calico's suite, which the plugin finds in this group. */
  async reset(group: CalicoGroup, pools: Readonly<Record<string, Fields>> = { p4: { cidr: POOL4 }, p6: { cidr: POOL6 } }): Promise<void> {
    this.group = group;
    rmSync(join(this.node.dir, "calico"), { recursive: true, force: true });
    await this.cluster.reset();
    await this.cluster.setReady(true);
    await this.cluster.createNode(NODE);
    for (const [name, pool] of Object.entries(pools)) await this.createPool(name, pool);
  }

  async createPool(name: string, pool: Fields): Promise<void> {
    await this.cluster.createPool(name, { group: this.group, ...pool });
  }

  disablePool(name: string): Promise<void> {
    return this.change("ippools", name, { disabled: true });
  }

  removePool(name: string): Promise<void> {
    return this.cluster.remove(this.group, "ippools", name);
  }

  /** Replaces fields of an object's spec. */
  async change(plural: string, name: string, changes: Fields): Promise<void> {
    const stored = await this.get(plural, name);
    if (stored === undefined) throw new Error(`no ${plural} ${name}`);
    await this.cluster.apply({ ...stored, spec: { ...stored.spec, ...changes } });
  }

  get(plural: string, name: string): Promise<StoredObject | undefined> {
    return this.cluster.get(this.group, plural, name);
  }

  list(plural: string): Promise<readonly StoredObject[]> {
    return this.cluster.list(this.group, plural);
  }

  /** Creates an object of the group; its labels and annotations come with the metadata. */
  async put(kind: string, metadata: StoredObject["metadata"] | { readonly name: string }, spec: Fields): Promise<void> {
    await this.cluster.apply({ apiVersion: this.group, kind, metadata, spec });
  }

  async configure(spec: Fields): Promise<void> {
    const defaults = { strictAffinity: false, autoAllocateBlocks: true, maxBlocksPerHost: 0 };
    await this.put(ipamConfigurationOf(this.group).kind, { name: "default" }, { ...defaults, ...spec });
  }

  add(call: Call = {}): Promise<Answer> {
    return this.#call("ADD", call);
  }

  del(call: Call = {}): Promise<Answer> {
    return this.#call("DEL", call);
  }

  /** @param valid containers that the runtime knows */
  gc(valid: readonly string[]): Promise<Answer> {
    const attachments = valid.map((containerID) => ({ containerID, ifname: "c" }));
    return this.#call("GC", { conf: { cniVersion: "1.1.0", "cni.dev/valid-attachments": attachments }, timeoutMs: 280_000 });
  }

  hasMarker(): boolean {
    return existsSync(join(this.node.dir, "calico", "cni", "ipam_upgraded"));
  }

  async handles(): Promise<readonly string[]> {
    return (await this.list("ipamhandles")).map(({ metadata }) => metadata.name);
  }

  async blocks(): Promise<readonly BlockSpec[]> {
    return (await this.list("ipamblocks")).map(blockSpecOf);
  }

  async block(name: string): Promise<BlockSpec | undefined> {
    const stored = await this.get("ipamblocks", name);
    return stored && blockSpecOf(stored);
  }

  /** Addresses in blocks by the handle that holds them, with their owners but for the times; IPv4 first. */
  async heldBy(handle: string): Promise<readonly HeldOwners[]> {
    const held: HeldOwners[] = [];
    for (const { cidr, allocations, attributes } of await this.blocks()) {
      const prefix = parsePrefix(cidr);
      if (prefix === undefined) throw new Error(`block ${cidr} has no CIDR`);
      for (const [ordinal, index] of allocations.entries()) {
        const attribute = index === null ? undefined : attributes[index];
        if (attribute?.handle_id !== handle) continue;
        const address = formatAddress(addressAt(prefix, BigInt(ordinal)));
        held.push({ address, active: timeless(attribute.secondary), alternate: timeless(attribute.alternateOwnerAttrs) });
      }
    }
    return held.toSorted((a, b) => Number(a.address.includes(":")) - Number(b.address.includes(":")));
  }

  async ownerOf(cidr: string): Promise<string | undefined> {
    return (await this.block(cidr.replaceAll(/[./]/g, "-")))?.affinity;
  }

  async expectNothingHeld(): Promise<void> {
    expect(await this.handles()).toEqual([]);
    expect((await this.blocks()).flatMap(({ attributes }) => attributes)).toEqual([]);
  }

  /** "get ipamblocks", in order, as the server saw them from us. */
  async requestsOf(work: () => Promise<unknown>): Promise<readonly string[]> {
    const mark = await this.cluster.mark();
    await work();
    const requests = await this.cluster.requests(mark);
    return requests.map(({ verb, uri }) => `${verb} ${resourceOf(uri)}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]();
    await this.cluster[Symbol.asyncDispose]();
  }

  #call(command: string, { pod, args, ipam, conf, ...rest }: Call): Promise<Answer> {
    const podArgs = pod === undefined ? undefined : `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${pod}`;
    const call = { ...rest, args: [podArgs, args].filter((part) => part !== undefined).join(";") };
    return callIpam(this.node, command, call, {
      cniVersion: "1.0.0",
      datastore_type: "kubernetes",
      calico_api_group: this.group,
      kubernetes: { kubeconfig: this.#kubeconfig },
      ipam_lock_file: `${this.node.dir}/ipam.lock`,
      ...conf,
      ipam: { type: "calico-ipam", ...ipam },
    });
  }
}

/** The server has checked it against the schema. */
function blockSpecOf({ spec }: StoredObject): BlockSpec {
  return spec as unknown as BlockSpec;
}

/** "ipamblocks" of /apis/crd.projectcalico.org/v1/ipamblocks/10-0-0-0-26?limit=500, "pods" of a pod's path. */
function resourceOf(uri: string): string {
  const [path = ""] = uri.split("?");
  const parts = path.split("/");
  const rest = parts.slice(parts[1] === "apis" ? 4 : 3);
  return (rest[0] === "namespaces" && rest.length > 2 ? rest[2] : rest[0]) ?? uri;
}
