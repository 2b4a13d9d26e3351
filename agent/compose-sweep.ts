/** Sweep and drift, plugged to endpoints, kernel and cluster (A§8.1). */
import type { Dataplane } from "../dataplane/dataplane.ts";
import { hostLinks } from "../dataplane/linux/host-links.ts";
import type { HostSockets } from "../dataplane/netlink/host-sockets.ts";
import { enumerate } from "../doctor/problem.ts";
import type { HostScope } from "../ipam-plugin/host-scope/host-scope.ts";
import { chooseDatastore } from "../lib/config/datastore-choice.ts";
import { isCalicoIpam } from "../lib/config/ipam-section.ts";
import { nodeName } from "../lib/config/node-name.ts";
import type { Pod } from "../lib/kubernetes/objects.ts";
import { uidsOfPod } from "../lib/kubernetes/pod-uids.ts";
import type { AgentLog } from "../lib/resident/agent-log.ts";
import type { Controllers } from "../lib/resident/controllers.ts";
import { SYSTEM_CLOCK } from "../lib/system/clock.ts";
import type { AgentCluster } from "./compose-cluster.ts";
import type { AgentHealth } from "./compose-health.ts";
import { DirectRecords } from "./direct-records/direct-records.ts";
import { linkDrift } from "./endpoints/build/mend-link.ts";
import type { EndpointManager } from "./endpoints/manager.ts";
import type { EndpointRecord } from "./endpoints/record/endpoint-record.ts";
import type { Nodes } from "./node/nodes.ts";
import { attachmentKey } from "./run-directory/attachment-key.ts";
import type { AttachmentLocks } from "./run-directory/attachment-locks.ts";
import { AddressSweep, type SweptStore } from "./sweep/address-sweep.ts";
import { sweptBlocks } from "./sweep/blocks.ts";
import { Drift } from "./sweep/drift.ts";
import { sweptGrants } from "./sweep/grants.ts";
import { Sweep, type SweptPods } from "./sweep/sweep.ts";
import type { Holder, WitnessPods } from "./sweep/witnesses.ts";

const INTERVAL_MS = 60_000;

export interface AgentSweepOptions {
  readonly manager: EndpointManager;
  /** Name of this node. */
  readonly node: string;
  readonly dataplane: Dataplane;
  readonly host: HostSockets;
  readonly controllers: Controllers;
  readonly cluster: AgentCluster | undefined;
  readonly health: AgentHealth;
  /** `<run>/direct`. */
  readonly directDirectory: string;
  readonly locks: Pick<AttachmentLocks, "tryTake">;
  readonly hostScope: () => HostScope;
  readonly nodes: Pick<Nodes, "served">;
  readonly isRestored: () => boolean;
  readonly remove: (record: EndpointRecord) => Promise<void>;
  readonly log: Pick<AgentLog, "info" | "error">;
}

export function startSweeps(options: AgentSweepOptions): void {
  const { manager, node, dataplane, controllers, cluster, health, isRestored, remove, log } = options;
  const direct = new DirectRecords(options.directDirectory);
  const links = () => hostLinks(options.host);
  const sweep = new Sweep({
    clock: SYSTEM_CLOCK,
    isRestored,
    node,
    records: () => manager.list(),
    links,
    dataplane,
    isClaimed: (attachment) => direct.has(attachment),
    pods: cluster && sweptPods(cluster),
    async takeOver(record, { index }) {
      const { hostInterface } = record;
      if (hostInterface !== undefined) await manager.write({ ...record, hostInterface: { ...hostInterface, index } });
    },
    remove,
    onFound(kind, what, isNew) {
      health.metrics.sweepFound(kind);
      // What stays as it is would fill the log, a line a minute.
      if (isNew) log.info(`sweep: ${kind}: ${what}`);
    },
  });
  const drift = new Drift({
    clock: SYSTEM_CLOCK,
    endpoints: () =>
      manager
        .endpoints()
        .filter(({ state }) => state === "ready")
        .map(({ id }) => id),
    async drift(id) {
      const record = manager.get(id)?.record;
      return record === undefined ? [] : linkDrift(record, dataplane);
    },
    mend: (id, reason) => manager.trigger(id, { level: 1, reason }),
    onUnproven: (what) => health.health.find("sandboxes", what),
    onContested: (id, what) => health.health.find(`drift ${id}`, what),
    onFound: () => health.metrics.sweepFound("drift"),
  });
  const addressSweep = (store: SweptStore) =>
    new AddressSweep({
      clock: SYSTEM_CLOCK,
      isRestored,
      store,
      witnesses: { direct: () => direct.list(), records: () => manager.list(), links, pods: cluster && witnessPods(cluster) },
      tryLock: (holder) => tryLock(options.locks, holder),
      onReleased(kind, what, count) {
        health.metrics.sweepFound(kind, count);
        log.info(`sweep: ${kind}: released ${what}`);
      },
      onUnread: (kind, pods) =>
        health.health.find(
          `annotations ${kind}`,
          pods.length === 0
            ? undefined
            : `pods with too much text or too many addresses in annotations keep what they had: ${enumerate(pods)}`,
        ),
    });
  const networks = () =>
    options.nodes
      .served()
      .filter(({ config, env }) => isCalicoIpam(config.ipam.type) && chooseDatastore(config, env) !== "kubernetes")
      .map(({ config, node }) => ({ config, nodeName: config.kubernetes.nodeName ?? nodeName(config), ipam: node.ipam }));
  const toLog = {
    error: (message: string) => log.error(message),
    info: (message: string) => log.info(message),
    writeNow: (_: string, message: string) => log.info(message),
  };
  const blocks = addressSweep(sweptBlocks(networks, toLog));
  controllers.update("sweep-blocks", { run: (signal) => blocks.run(signal), intervalMs: INTERVAL_MS, quiet: true });
  const grants = addressSweep(sweptGrants(options.hostScope));
  controllers.update("sweep-grants", { run: (signal) => grants.run(signal), intervalMs: INTERVAL_MS, quiet: true });
  controllers.update("sweep", { run: (signal) => sweep.run(signal), intervalMs: INTERVAL_MS, quiet: true });
  controllers.update("drift", { run: (signal) => drift.run(signal), intervalMs: INTERVAL_MS, quiet: true });
}

/** What the sweep asks of a cluster. */
export function sweptPods({ pods, readPod }: AgentCluster): SweptPods {
  return {
    get isComplete() {
      return isFollowed(pods);
    },
    uidsOf: (key) => uidsOf(pods.get(key)),
    ask: async (key) => uidsOf(await readPod(key)),
  };
}

/** What the sweep of addresses asks of a cluster. */
export function witnessPods({ pods, readPod }: AgentCluster): WitnessPods {
  return {
    get isComplete() {
      return isFollowed(pods);
    },
    list: () => pods.list(),
    read: (key) => readPod(key),
  };
}

function isFollowed({ state: { isSynced, followedSince } }: AgentCluster["pods"]): boolean {
  return isSynced && followedSince !== undefined;
}

function tryLock(locks: Pick<AttachmentLocks, "tryTake">, { network, containerId, ifname = "eth0" }: Holder): Disposable | undefined {
  return locks.tryTake(attachmentKey({ network, containerId, interfaceName: ifname }));
}

function uidsOf(pod: Pod | undefined): readonly string[] {
  return pod === undefined ? [] : uidsOfPod(pod);
}
