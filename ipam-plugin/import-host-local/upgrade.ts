/**
 * Moves addresses from host-local to blocks (I§7): those that running containers have from host-local become theirs in the datastore, then
 * host-local's directory goes. Killed at any moment and started again it goes on: a file is removed only after its address is safe, the
 * cluster is ready again before the directory goes, and a directory that is there is worked through from the beginning.
 */

import { type Address, addressAt, formatAddress, maskPrefix, parseAddress, parsePrefix, sizeOf } from "../../lib/addresses/address.ts";
import { isDatastoreFailure, isRefusal } from "../../lib/datastore/errors.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { NamespacedName } from "../../lib/kubernetes/objects.ts";
import type { Logger } from "../../lib/log/logger.ts";
import { workloadHandleId } from "../../lib/workload/identity.ts";
import type { Allocator } from "../allocator/allocator.ts";
import type { OwnerAttributes } from "../allocator/types.ts";
import { FROM_HOST_LOCAL } from "../workload.ts";
import { type HostLocalDirectory, isBookkeeping, isCursor } from "./host-local-directory.ts";

/** Waits for calls that were under way when the plugins were removed (I§7 step 4). */
const SETTLING_TIME_MS = 5000;
const PAUSE_AFTER_FAILURE_MS = 1000;
/** Limits how long a whole cluster may wait for one node. */
const TIME_LIMIT_MS = 300_000;

export interface Upgraded {
  /** Addresses that are their containers' now, by whomever they were moved. */
  readonly moved: readonly string[];
  /** Addresses that belong to no container now. */
  readonly dropped: readonly string[];
  /** Addresses of running containers that the datastore gives to others: an operator must decide. */
  readonly contested: readonly string[];
}

const NOTHING: Upgraded = { moved: [], dropped: [], contested: [] };

/**
 * Tries until it is done (I§7), or until its time limit ends, because the whole cluster is paused meanwhile. It goes on then, and the
 * init container that fails is started again.
 *
 * @throws TortieError `upgrade-unfinished`
 */
export async function upgradeUntilDone(ports: UpgradePorts, limitMs = TIME_LIMIT_MS): Promise<Upgraded> {
  const end = performance.now() + limitMs;
  for (;;) {
    try {
      return await upgrade(ports);
    } catch (error) {
      if (performance.now() >= end) return await giveUp(ports, limitMs, error);
      ports.log.error(`cannot upgrade from host-local yet, trying again: ${messageOf(error)}`);
      await ports.sleep(PAUSE_AFTER_FAILURE_MS);
    }
  }
}

async function giveUp(ports: UpgradePorts, limitMs: number, cause: unknown): Promise<never> {
  const { cluster, log } = ports;
  try {
    if (cluster !== undefined && (await cluster.isPausing())) await persistently(ports, () => cluster.resume());
  } catch (error) {
    log.error(`the cluster stays paused, set datastoreReady of ClusterInformation to true: ${messageOf(error)}`);
  }
  throw new TortieError("upgrade-unfinished", `not upgraded from host-local within ${limitMs / 1000} s: ${messageOf(cause)}`, { cause });
}

/**
 * Upgrades once.
 *
 * @throws TortieError `upgrade-directory`, `address-outside-pools`: nothing was changed; and whatever the ports throw
 */
export async function upgrade(ports: UpgradePorts): Promise<Upgraded> {
  const { directory, cluster } = ports;
  if (!directory.exists()) return NOTHING;
  if (cluster !== undefined) await ensureTunnelAddress(ports, cluster);
  if (directory.names().length === 0) {
    directory.removeItself();
    return NOTHING;
  }
  await checkBeforehand(ports);
  if (cluster !== undefined) await stopCluster(ports, cluster);
  // Held to the end: what a host-local that is still called would add then, would be lost.
  using _held = directory.lock();
  const upgraded = await moveAll(ports);
  if (cluster !== undefined) await persistently(ports, () => cluster.resume());
  directory.removeItself();
  return upgraded;
}

/** Finds what would stop the upgrade half-way before a whole cluster waits for it. */
async function checkBeforehand(ports: UpgradePorts): Promise<void> {
  using _held = ports.directory.lock();
  const claimants = await claimantsOf(ports);
  for (const { address, claimant } of recordsOf(ports, claimants)) {
    if (claimant === undefined) continue;
    try {
      await ports.allocator.attributesOf(address);
    } catch (error) {
      throw named(error, address);
    }
  }
}

async function stopCluster(ports: UpgradePorts, cluster: UpgradeCluster): Promise<void> {
  await persistently(ports, () => cluster.pause());
  await cluster.removePlugins();
  await ports.sleep(SETTLING_TIME_MS);
}

async function moveAll(ports: UpgradePorts): Promise<Upgraded> {
  const { directory, log } = ports;
  const moved: string[] = [];
  const dropped: string[] = [];
  const contested: string[] = [];
  const claimants = await claimantsOf(ports);
  for (const name of directory.names().filter(isCursor)) directory.remove(name);
  for (const { name, address, claimant } of recordsOf(ports, claimants)) {
    const text = formatAddress(address);
    if (claimant === undefined) dropped.push(text);
    else if (await claimAddress(ports, address, claimant)) moved.push(text);
    else contested.push(text);
    directory.remove(name);
  }
  log.info(`host-local's ${directory.path}: ${moved.length} addresses moved, ${dropped.length} without container dropped`);
  return { moved, dropped, contested };
}

interface AddressRecord {
  /** Names its file. */
  readonly name: string;
  readonly address: Address;
  /** `undefined`: no container has the address any more. */
  readonly claimant: Claimant | undefined;
}

type Claimants = (address: Address, containerId: string) => Claimant | undefined;

/** @throws TortieError `upgrade-directory` for a file that host-local does not make */
function recordsOf({ directory }: UpgradePorts, claimantOf: Claimants): readonly AddressRecord[] {
  const names = directory.names().filter((name) => !isBookkeeping(name));
  return names.map((name) => {
    const address = parseAddress(name);
    if (address === undefined) {
      throw new TortieError("upgrade-directory", `${directory.path} holds "${name}", which is no address and no file of host-local's`);
    }
    const [first = ""] = directory.read(name).split("\n");
    return { name, address, claimant: claimantOf(address, first.trim()) };
  });
}

/** Finds who has an address: in a cluster the pods of the node say it, on a node alone host-local's own record. */
async function claimantsOf({ node, network, cluster }: UpgradePorts): Promise<Claimants> {
  if (cluster === undefined) {
    // Without a container the call that made the file has not come to its end.
    return (_address, containerId) =>
      containerId === "" ? undefined : { handle: workloadHandleId(network, containerId), attributes: { node, note: FROM_HOST_LOCAL } };
  }
  const byAddress = new Map<string, PodOfNode>();
  for (const pod of await cluster.pods()) {
    for (const text of pod.addresses) {
      const address = parseAddress(text);
      if (address !== undefined) byAddress.set(formatAddress(address), pod);
    }
  }
  return (address, containerId) => {
    const pod = byAddress.get(formatAddress(address));
    if (pod === undefined) return undefined;
    const { namespace, name } = pod;
    // Without a container the pod's DEL finds it by the legacy form (I§1.7).
    const handle = containerId === "" ? `${namespace}.${name}` : workloadHandleId(network, containerId);
    return { handle, attributes: { node, pod: name, namespace } };
  };
}

/** Has what the upgrade works on: the allocator, host-local's directory, and in a cluster what only its API knows. */
export interface UpgradePorts {
  readonly node: string;
  /** First part of the handles; `k8s-pod-network` in a cluster. */
  readonly network: string;
  readonly allocator: Pick<Allocator, "assignIp" | "attributesOf">;
  readonly directory: HostLocalDirectory;
  /** Absent on a node without a cluster: every container that host-local knows keeps its address, and no other node has to wait. */
  readonly cluster?: UpgradeCluster;
  readonly sleep: (milliseconds: number) => Promise<void>;
  readonly log: Pick<Logger, "info" | "error">;
}

/** Writes may throw DatastoreError `conflict`: they are tried again. */
export interface UpgradeCluster {
  /** Pods of this node. */
  pods(): Promise<readonly PodOfNode[]>;
  /** Reads `spec.podCIDR` of this node. */
  podCidr(): Promise<string | undefined>;
  /** Reads the IPIP tunnel address of this node, as Calico's node resource has it. */
  tunnelAddress(): Promise<string | undefined>;
  setTunnelAddress(address: string): Promise<void>;
  /**
   * Makes `datastoreReady` of ClusterInformation false, so that no CNI plugin of Calico, on any node, gives out an address, and marks it
   * with this node's name.
   */
  pause(): Promise<void>;
  /** Tells whether the mark of this node is there, be it from an upgrade that was killed. */
  isPausing(): Promise<boolean>;
  /** Takes this node's mark away, and makes the cluster ready unless another node has marked it. */
  resume(): Promise<void>;
  /** Removes the CNI plugins that would go on giving out host-local's addresses; succeeds for those that do not exist. */
  removePlugins(): Promise<void>;
}

export interface PodOfNode extends NamespacedName {
  /** `status.podIPs`. */
  readonly addresses: readonly string[];
}

interface Claimant {
  readonly handle: string;
  readonly attributes: OwnerAttributes;
}

/**
 * Allocates an address in the datastore to the container or tunnel that uses it already. Harmless to repeat: an address that the claimant
 * has already is fine.
 *
 * @returns false when the datastore says that it is another's, which cannot be mended here
 * @throws TortieError `address-outside-pools`, `affinity-strict`; DatastoreError
 */
async function claimAddress(
  { allocator, node, log }: Pick<UpgradePorts, "allocator" | "node" | "log">,
  address: Address,
  { handle, attributes }: Claimant,
): Promise<boolean> {
  try {
    await allocator.assignIp({ address, handle, attributes, owner: { type: "host", name: node } });
    return true;
  } catch (error) {
    if (!(error instanceof TortieError && error.word === "address-taken")) throw named(error, address);
    const holder = await allocator.attributesOf(address);
    if (holder?.handle === handle) return true;
    const whose = holder?.handle === undefined ? "nobody yet, it is cooling down" : `handle ${holder.handle}`;
    log.error(`${formatAddress(address)} is in use by handle ${handle}, but the datastore says it belongs to ${whose}: remove one of them`);
    return false;
  }
}

/** Names the address in an error: the allocator's, in Calico's words, do not, and here one of many is wrong. */
export function named(error: unknown, address: Address): unknown {
  if (!isRefusal(error)) return error;
  const { word, next, message } = error;
  return new TortieError(word, `${formatAddress(address)}: ${message.trim()}`, { cause: error, next });
}

const MOST_TRIES = 5;
const PAUSE_MS = 1000;

/** Repeats a write, which is safe because one that conflicted has changed nothing. @throws what the last try threw */
async function persistently({ sleep }: Pick<UpgradePorts, "sleep">, write: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await write();
    } catch (error) {
      if (!isDatastoreFailure(error, "conflict") || tries === MOST_TRIES) throw error;
      await sleep(PAUSE_MS);
    }
  }
}

/**
 * Makes a tunnel address, unless the node has one or for IPv6. The address is claimed before the node names it, so that a node killed in
 * between claims it again. One that a pod has by mistake is not named: the node agent finds another at its start.
 */
async function ensureTunnelAddress(ports: UpgradePorts, cluster: UpgradeCluster): Promise<void> {
  const { node } = ports;
  if (((await cluster.tunnelAddress()) ?? "") !== "") return;
  const podCidr = parsePrefix((await cluster.podCidr()) ?? "");
  if (podCidr === undefined || podCidr.address.family === 6 || sizeOf(podCidr) < 2n) return;
  const address = addressAt(maskPrefix(podCidr), 1);
  const claimant = { handle: `ipip-tunnel-addr-${node}`, attributes: { node, type: "ipipTunnelAddress" } };
  if (!(await claimAddress(ports, address, claimant))) return;
  await persistently(ports, () => cluster.setTunnelAddress(formatAddress(address)));
}
