/** Starts sweep and drift (A§8.1). */

import { hostLinks } from "../../dataplane/linux/host-facts.ts";
import { enumerate } from "../../doctor/problem.ts";
import type { AttachmentLocks } from "../../handover/attachment-locks.ts";
import type { EndpointRecord } from "../../handover/record.ts";
import type { HostScope } from "../../ipam-plugin/host-scope/host-scope.ts";
import { fileKey } from "../../lib/cni/attachment-id.ts";
import { chooseDatastore } from "../../lib/config/datastore-choice.ts";
import { isCalicoIpam } from "../../lib/config/ipam-section.ts";
import { nodeName } from "../../lib/config/node-name.ts";
import type { Pod } from "../../lib/kubernetes/objects.ts";
import { uidsOfPod } from "../../lib/kubernetes/objects.ts";
import { SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import type { Hosts } from "../../main-plugin/hosts.ts";
import { linkDrift } from "../endpoints/mend-link.ts";
import type { RestoredEndpoints } from "../endpoints/start.ts";
import type { AgentCluster, AgentContext } from "../start/context.ts";
import { AddressSweep, type SweptStore, sweptBlocks, sweptGrants } from "./addresses.ts";
import { Drift } from "./drift.ts";
import { Sweep, type SweptPods } from "./sweep.ts";
import type { Holder, WitnessPods } from "./witnesses.ts";

const INTERVAL_MS = 60_000;

interface SweptParts extends RestoredEndpoints {
  readonly locks: Pick<AttachmentLocks, "tryTake">;
  readonly hostScope: () => HostScope;
  readonly hosts: Pick<Hosts, "served">;
  readonly remove: (record: EndpointRecord) => Promise<void>;
  /** Whether the plugins serve the network themselves. */
  readonly isLeftToPlugins: (network: string) => boolean;
}

/** Starts the background tasks that look for what nobody owns, and for what differs from how it was made. */
export function startSweeps(context: AgentContext, parts: SweptParts): void {
  const [blocks, grants] = addressSweeps(context, parts);
  const { controllers } = context;
  const [sweep, drift] = [linkSweep(context, parts), driftOf(context, parts)];
  for (const [name, task] of Object.entries({ "sweep-blocks": blocks, "sweep-grants": grants, sweep, drift })) {
    controllers.update(name, { run: (signal) => task.run(signal), intervalMs: INTERVAL_MS, quiet: true });
  }
}

function linkSweep(
  { node, host, dataplane, cluster, health, log }: AgentContext,
  { manager, isRestored, remove, isLeftToPlugins }: SweptParts,
): Sweep {
  return new Sweep({
    clock: SYSTEM_CLOCK,
    isRestored,
    node,
    records: () => manager.list(),
    links: () => hostLinks(host),
    dataplane,
    isLeftToPlugins,
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
}

function driftOf({ dataplane, health }: AgentContext, { manager }: SweptParts): Drift {
  return new Drift({
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
    mend: (id, reason) => manager.get(id)?.mending.trigger({ level: 1, reason }),
    onUnproven: (what) => health.health.find("sandboxes", what),
    onContested: (id, what) => health.health.find(`drift ${id}`, what),
    onFound: () => health.metrics.sweepFound("drift"),
  });
}

/** Sweeps the addresses of blocks, and those of this node's ranges. */
function addressSweeps(
  { host, cluster, health, log }: AgentContext,
  { manager, isRestored, locks, hostScope, hosts, isLeftToPlugins }: SweptParts,
): readonly [AddressSweep, AddressSweep] {
  const links = () => hostLinks(host);
  const addressSweep = (store: SweptStore) =>
    new AddressSweep({
      clock: SYSTEM_CLOCK,
      isRestored,
      store,
      witnesses: { records: () => manager.list(), links, pods: cluster && witnessPods(cluster) },
      tryLock: (holder) => tryLock(locks, holder),
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
    hosts
      .served()
      .filter(({ config }) => !isLeftToPlugins(config.name))
      .filter(({ config, env }) => isCalicoIpam(config.ipam.type) && chooseDatastore(config, env) !== "kubernetes")
      .map(({ config, host }) => ({ config, nodeName: config.kubernetes.nodeName ?? nodeName(config), ipam: host.ipam }));
  const toLog = {
    error: (message: string) => log.error(message),
    info: (message: string) => log.info(message),
    writeNow: (_: string, message: string) => log.info(message),
  };
  return [addressSweep(sweptBlocks(networks, toLog)), addressSweep(sweptGrants(hostScope))];
}

/** Asks the cluster what the sweep wants to know. */
export function sweptPods({ pods, readPod }: AgentCluster): SweptPods {
  return {
    get isComplete() {
      return isFollowed(pods);
    },
    uidsOf: (key) => uidsOf(pods.get(key)),
    ask: async (key) => uidsOf(await readPod(key)),
  };
}

/** Asks the cluster what the sweep of addresses wants to know. */
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
  return locks.tryTake(fileKey({ network, containerId, ifname }));
}

function uidsOf(pod: Pod | undefined): readonly string[] {
  return pod === undefined ? [] : uidsOfPod(pod);
}
