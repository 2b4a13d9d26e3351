/** One node's IPAM plugin on a store that is like an API server: every read and every write is a request, and the store has no short cuts. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type AddOptions, type IpamAddition, ipamAdd } from "../../../ipam-plugin/add.ts";
import type { IpamCall } from "../../../ipam-plugin/call.ts";
import { createIpamHost, type IpamHost } from "../../../ipam-plugin/host.ts";
import { ipamRun } from "../../../ipam-plugin/ipam-plugin.ts";
import { formatPrefix } from "../../../lib/addresses/address.ts";
import type { CniRequest } from "../../../lib/cni/protocol.ts";
import type { Datastore } from "../../../lib/datastore/datastore.ts";
import type { OwnedObject } from "../../../lib/datastore/resources.ts";
import type { JsonObject } from "../../../lib/json/value.ts";
import type { OwnerReference } from "../../../lib/kubernetes/objects.ts";
import { Cluster, type ClusterSetup } from "../../support/cluster.ts";
import { TemporaryDirectory } from "../../support/fixtures.ts";
import { freeLock } from "../../support/free-lock.ts";
import { resolvedCall } from "../../support/ipam-node.ts";

const NAMESPACE = "shop";

const SILENT = { info() {}, error() {}, writeNow() {} };

const VERBS: Readonly<Record<string, string>> = { get: "GET", list: "LIST", create: "POST", update: "PUT", delete: "DELETE" };

export interface ServerCall {
  readonly container?: string;
  readonly pod?: string;
  /** Over the plugin's `ipam` section. */
  readonly ipam?: JsonObject;
  /** More CNI_ARGS: "IP=10.0.0.9". */
  readonly args?: string;
}

export class ServerNode implements Disposable {
  readonly cluster: Cluster;
  readonly ipam: IpamHost;
  lock: IpamHost["lock"] = freeLock;
  readonly #directory = new TemporaryDirectory();

  private constructor(cluster: Cluster) {
    this.cluster = cluster;
    const upgradeMarker = join(this.#directory.path, "ipam_upgraded");
    writeFileSync(upgradeMarker, "");
    this.ipam = createIpamHost({
      datastore: asOnServer(cluster.observed),
      log: SILENT,
      lock: (path, options) => this.lock(path, options),
      upgradeMarker,
    });
  }

  static async create(setup: ClusterSetup = {}): Promise<ServerNode> {
    const pools = { "10.0.0.0/24": {}, "fd00::/112": { blockSize: 122 } };
    return new ServerNode(await Cluster.create({ pools, nodes: { "node-a": {} }, ...setup }));
  }

  add(call: ServerCall = {}, options: AddOptions = {}): Promise<IpamAddition> {
    return ipamAdd(callOf("ADD", call), this.ipam, options);
  }

  async addresses(call: ServerCall = {}): Promise<readonly string[]> {
    return (await this.add(call)).addresses.map(formatPrefix);
  }

  async del(call: ServerCall = {}): Promise<void> {
    await ipamRun("DEL", callOf("DEL", call), this.ipam);
  }

  async gc(): Promise<void> {
    const call = callOf("GC", {});
    await ipamRun("GC", { ...call, config: { ...call.config, validAttachments: [] } }, this.ipam);
  }

  async status(): Promise<void> {
    await ipamRun("STATUS", callOf("STATUS", {}), this.ipam);
  }

  /** The requests of `work`, in order: "GET block", "LIST affinity". */
  async requestsOf(work: () => Promise<unknown>): Promise<readonly string[]> {
    const { calls } = this.cluster;
    calls.length = 0;
    await work();
    return calls.map((call) => {
      const [operation = "", kind = ""] = call.split(" ");
      return `${VERBS[operation]} ${kind}`;
    });
  }

  /** A machine with its instance, in one of whose pods it runs. */
  async addMachine(facts: Partial<OwnedObject> = {}): Promise<void> {
    const { machines, instances } = this.#objects;
    const machine = objectOf({ name: "vm", uid: "vm-uid", ...facts });
    const instance = objectOf({ name: "vm", uid: "vmi-uid", owners: [ownerOf("VirtualMachine", "vm", "vm-uid")] });
    const there = await machines.get(machine);
    if (there !== undefined) {
      await machines.update(machine, machine, there.revision);
      return;
    }
    await machines.create(machine, machine);
    await instances.create(instance, instance);
  }

  async addPod(name: string, labels: Readonly<Record<string, string>> = {}): Promise<void> {
    const pod = objectOf({ name, uid: `${name}-uid`, labels, owners: [ownerOf("VirtualMachineInstance", "vm", "vmi-uid")] });
    await this.#objects.pods.create(pod, pod);
  }

  [Symbol.dispose](): void {
    this.#directory[Symbol.dispose]();
  }

  get #objects() {
    return this.cluster.datastore.virtualMachines;
  }
}

function callOf(command: CniRequest["command"], call: ServerCall): IpamCall {
  const netconf: JsonObject = {
    cniVersion: "1.0.0",
    name: "net1",
    type: "tortie",
    datastore_type: "kubernetes",
    ipam: { type: "tortie-ipam", ...call.ipam },
  };
  const pod = `IgnoreUnknown=1;K8S_POD_NAMESPACE=${NAMESPACE};K8S_POD_NAME=${call.pod ?? "web-0"}`;
  const args = call.args === undefined ? pod : `${pod};${call.args}`;
  return { ...resolvedCall(command, netconf, { ...call, args }, SILENT), nodeName: "node-a" };
}

/** Pools are made by others, and names are in lower case. */
function asOnServer(datastore: Datastore): Datastore {
  const { traits, handles } = datastore;
  return {
    ...datastore,
    traits: { ...traits, poolsFrom: "cluster", nodesAreObjects: true, foldsHandleCase: true },
    handles: {
      get: (id) => handles.get(id.toLowerCase()),
      list: () => handles.list(),
      create: (id, handle) => handles.create(id.toLowerCase(), handle),
      update: (id, handle, revision) => handles.update(id.toLowerCase(), handle, revision),
      delete: (id, revision) => handles.delete(id.toLowerCase(), revision),
    },
  };
}

function objectOf(facts: Partial<OwnedObject> & Pick<OwnedObject, "name" | "uid">): OwnedObject {
  return { namespace: NAMESPACE, labels: {}, owners: [], isDeleting: false, ...facts };
}

function ownerOf(kind: string, name: string, uid: string): OwnerReference {
  return { apiVersion: "kubevirt.io/v1", kind, name, uid, isController: true };
}
