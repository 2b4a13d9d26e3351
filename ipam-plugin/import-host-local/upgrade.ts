/**
 * From host-local to blocks (I§7): addresses that running containers have from host-local become theirs in the datastore, then
 * host-local's directory goes. Killed at any moment and started again it goes on: a file is removed only after its address is safe, the
 * cluster is ready again before the directory goes, and a directory that is there is worked through from the beginning.
 */
import { type Address, formatAddress, parseAddress } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { workloadHandleId } from "../../lib/workload/identity.ts";
import { FROM_HOST_LOCAL } from "../workload.ts";
import { type Claimant, claimAddress, ensureTunnelAddress, named, persistently } from "./claim-address.ts";
import { isBookkeeping, isCursor } from "./host-local-directory.ts";
import type { PodOfNode, UpgradeCluster, UpgradePorts } from "./ports.ts";

/** For calls that were under way when the plugins were removed (I§7 step 4). */
const SETTLING_TIME_MS = 5000;
const PAUSE_AFTER_FAILURE_MS = 1000;
/** As long as a whole cluster may wait for one node. */
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
 * Once.
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

/** What would stop the upgrade half-way is found before a whole cluster waits for it. */
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
  /** Of its file. */
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

/** In a cluster the pods of the node say who has an address; on a node alone host-local's own record does. */
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
