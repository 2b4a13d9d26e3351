/**
 * Counts the controller's figures for Prometheus. Those of the addresses have the names and labels of Calico's kube-controllers, so that
 * its dashboards go on working; figures of the process begin with `tortie_controller_`. Only the leader counts addresses.
 */
import type { Counter, Histogram } from "prom-client";
import { placedPools } from "../doctor/snapshot.ts";
import { isFree, prefixOf } from "../ipam-plugin/allocator/block.ts";
import { covers } from "../lib/addresses/address.ts";
import type { Block } from "../lib/datastore/resources.ts";
import { Figures } from "../lib/resident/figures.ts";
import { CHECK_VALUES, type CheckState } from "../lib/resident/health.ts";
import type { TaskRun } from "../lib/resident/tasks.ts";
import type { ClusterView } from "./view/cluster-view.ts";

const PREFIX = "tortie_controller_";
/** Label of what is in no pool, as in Calico. */
const NO_POOL = "no_ippool";
const NO_NODE = "no_affinity";
const SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60];

export interface MetricSources {
  /** `undefined` while this controller does not lead. */
  readonly view: () => Pick<ClusterView, "blocks" | "pools" | "gap"> | undefined;
  /** Addresses that have been seen unused, and are not released yet. */
  readonly candidates: () => number;
  readonly queueLength: () => number;
  readonly leads: () => boolean;
  /** Why addresses are left to Calico's kube-controllers; `undefined` when they are not. */
  readonly kubeControllers: () => string | undefined;
  /** Checks of the controller's health. */
  readonly checks: () => readonly { readonly name: string; readonly state: CheckState }[];
  /** `undefined` where this controller does not lead, or there are no identities. */
  readonly identities: () => Readonly<Record<"active" | "retired" | "missing", number>> | undefined;
}

interface Count {
  readonly pool: string;
  readonly node: string;
  readonly blocks: number;
  readonly inUse: number;
  readonly borrowed: number;
}

export class ControllerMetrics extends Figures {
  readonly #sources: MetricSources;
  readonly #reclaimed: Counter<"reason">;
  readonly #requests: Counter<"method" | "status">;
  readonly #runs: Counter<"name" | "status">;
  readonly #seconds: Histogram<"name">;
  readonly #identityChanges: Counter<"change">;

  constructor(sources: MetricSources) {
    super("", SECONDS);
    this.#sources = sources;
    this.#reclaimed = this.counter("ipam_allocations_gc_reclamations", "Addresses that were released", ["reason"]);
    this.#requests = this.counter(`${PREFIX}requests_total`, "Requests of the watches to the API server", ["method", "status"]);
    this.#runs = this.counter(`${PREFIX}runs_total`, "Looks of the duties", ["name", "status"]);
    this.#seconds = this.histogram(`${PREFIX}run_seconds`, "How long looks of the duties take", ["name"]);
    const changes = "Identities that were created, renumbered, revived, retired and deleted";
    this.#identityChanges = this.counter(`${PREFIX}identity_changes_total`, changes, ["change"]);
    this.sampled(`${PREFIX}identities`, "Identities, and sets of labels without one", ["state"], (gauge) => {
      for (const [state, count] of Object.entries(sources.identities() ?? {})) gauge.set({ state }, count);
    });
    this.#sampledCounts("ipam_allocations_per_node", "Addresses in use, by node", ["node"], ({ inUse }) => inUse);
    this.#sampledCounts("ipam_blocks_per_node", "Blocks, by node", ["node"], ({ blocks }) => blocks);
    this.#sampledCounts("ipam_allocations_borrowed_per_node", "Addresses in blocks of other nodes", ["node"], ({ borrowed }) => borrowed);
    this.#sampledCounts("ipam_allocations_in_use", "Addresses in use", ["ippool", "node"], ({ inUse }) => inUse);
    this.#sampledCounts("ipam_allocations_borrowed", "Addresses in blocks of other nodes", ["ippool", "node"], ({ borrowed }) => borrowed);
    this.#sampledCounts("ipam_blocks", "Blocks", ["ippool", "node"], ({ blocks }) => blocks);
    this.sampled("ipam_ippool_size", "Addresses of the pool", ["ippool"], (gauge) => {
      for (const { pool, prefix } of placedPools(this.#complete()?.pools.map((view) => view.pool) ?? [])) {
        gauge.set({ ippool: pool.name }, 2 ** ((prefix.address.family === 4 ? 32 : 128) - prefix.length));
      }
    });
    this.sampled("ipam_allocations_gc_candidates", "Addresses that have been seen unused", [], (gauge) => gauge.set(sources.candidates()));
    this.sampled(`${PREFIX}leads`, "1 on the controller that leads", [], (gauge) => gauge.set(sources.leads() ? 1 : 0));
    this.sampled(`${PREFIX}calico_kube_controllers`, "1 while addresses are left to Calico's kube-controllers", [], (gauge) =>
      gauge.set(sources.kubeControllers() === undefined ? 0 : 1),
    );
    this.sampled(`${PREFIX}check_state`, "Checks of health: 0 in order, 1 a warning, 2 a failure", ["check"], (gauge) => {
      for (const { name, state } of sources.checks()) gauge.set({ check: name }, CHECK_VALUES[state]);
    });
    this.sampled(`${PREFIX}queue_length`, "Items that wait", [], (gauge) => gauge.set(sources.queueLength()));
    this.sampled(`${PREFIX}resident_memory_bytes`, "Memory of the process", [], (gauge) => gauge.set(process.memoryUsage.rss()));
  }

  released(reason: "node" | "leak", addresses: number): void {
    this.#reclaimed.inc({ reason }, addresses);
  }

  identityChanged(change: string): void {
    this.#identityChanges.inc({ change });
  }

  asked(method: string, status: number): void {
    this.#requests.inc({ method, status: String(status) });
  }

  ran({ name, outcome, seconds }: TaskRun): void {
    this.#runs.inc({ name, status: outcome });
    this.#seconds.observe({ name }, seconds);
  }

  #complete() {
    const view = this.#sources.view();
    return view === undefined || view.gap !== undefined ? undefined : view;
  }

  #counts(): readonly Count[] {
    const view = this.#complete();
    if (view === undefined) return [];
    const pools = placedPools(view.pools.map(({ pool }) => pool));
    return view.blocks.flatMap(({ value }) => {
      const prefix = prefixOf(value.cidr);
      const pool = pools.find((candidate) => covers(candidate.prefix, prefix))?.pool.name ?? NO_POOL;
      return countsOf(value).map((count) => ({ ...count, pool }));
    });
  }

  #sampledCounts<L extends "ippool" | "node">(name: string, help: string, labels: readonly L[], value: (count: Count) => number): void {
    this.sampled<"ippool" | "node">(name, help, labels, (gauge) => {
      for (const count of this.#counts()) {
        const all = { ippool: count.pool, node: count.node };
        const amount = value(count);
        if (amount > 0) gauge.inc(Object.fromEntries(labels.map((label) => [label, all[label]])), amount);
      }
    });
  }
}

/** Counts a block for its owner, and an address for the node that it is on. */
function countsOf(block: Block): readonly Omit<Count, "pool">[] {
  const owner = block.affinity?.type === "host" ? block.affinity.name : NO_NODE;
  const byNode = new Map<string, { inUse: number; borrowed: number }>();
  for (const [ordinal, index] of block.allocations.entries()) {
    if (index === null || isFree(block, ordinal)) continue;
    const attribute = block.attributes[index];
    if (attribute?.releasedAt !== undefined) continue;
    const node = attribute?.activeOwner?.node ?? owner;
    const count = byNode.get(node) ?? { inUse: 0, borrowed: 0 };
    byNode.set(node, { inUse: count.inUse + 1, borrowed: count.borrowed + (node === owner ? 0 : 1) });
  }
  const used = [...byNode].map(([node, { inUse, borrowed }]) => ({ node, inUse, borrowed, blocks: 0 }));
  return [{ node: owner, blocks: 1, inUse: 0, borrowed: 0 }, ...used];
}
