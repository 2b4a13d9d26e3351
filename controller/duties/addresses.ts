/**
 * The addresses of nodes that are gone, and addresses that leaked on nodes that exist (I§5.4). Items of the queue are `node <name>` and
 * `handle <id>`.
 */
import { placedBlocks } from "../../doctor/snapshot.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { departedNodes, isReservedByWindows, type JudgedAllocation, judgeAllocations } from "../judge/allocations.ts";
import type { Duty, DutyContext } from "./duty.ts";
import { mayRelease } from "./may-release.ts";
import { releaseUnused } from "./release.ts";

/** A virtual machine's pod may come back for so long at least (I§5.4). */
const LEAST_MACHINE_GRACE_MS = 5 * 60_000;

interface Judgement {
  readonly allocations: readonly JudgedAllocation[];
  readonly departed: ReadonlySet<string>;
}

export class Addresses implements Duty {
  readonly name = "addresses";
  readonly #context: DutyContext;
  #unread: readonly string[] = [];

  constructor(context: DutyContext) {
    this.#context = context;
  }

  /** Pods whose annotations were not read to their end at the last look, as `<namespace>/<name>`: what was theirs is kept while they live. */
  get unread(): readonly string[] {
    return this.#unread;
  }

  async look(): Promise<readonly string[]> {
    const { view, observations, clock, nodeGraceMs, leakGraceMs } = this.#context;
    this.#unread = view.pods
      .filter(({ isWhole, isFinished }) => !isWhole && !isFinished)
      .map(({ namespace, name }) => `${namespace}/${name}`);
    if (!(await mayRelease(this.#context))) {
      for (const kind of ["node", "departed", "leak"]) observations.look(kind, [], clock.now());
      return [];
    }
    const { allocations, departed } = this.#judge();
    const now = clock.now();
    const keysOf = (verdict: JudgedAllocation["verdict"]) =>
      allocations.filter((allocation) => allocation.verdict === verdict).map(({ key }) => key);
    observations.look("node", departed, now);
    observations.look("departed", keysOf("departed"), now);
    observations.look("leak", leakGraceMs === 0 ? [] : keysOf("leaked"), now);
    const nodes = [...departed].filter((node) => observations.isConfirmed("node", node, nodeGraceMs, now));
    const handles = new Set(allocations.filter((allocation) => this.#isConfirmedLeak(allocation, now)).map(({ handle }) => handle));
    return [...nodes.map((node) => `node ${node}`), ...[...handles].map((handle) => `handle ${handle}`)];
  }

  async work(item: string, signal: AbortSignal): Promise<void> {
    if (!(await mayRelease(this.#context))) return;
    const [kind, name = ""] = item.split(" ");
    if (kind === "node") await this.#cleanNode(name, signal);
    else await this.#releaseHandle(name, signal);
  }

  async #cleanNode(node: string, signal: AbortSignal): Promise<void> {
    const { observations, clock, nodeGraceMs, live, log } = this.#context;
    const { allocations, departed } = this.#judge();
    if (!departed.has(node) || !observations.isConfirmed("node", node, nodeGraceMs, clock.now())) return;
    const isGone = async () => {
      if (!(await live.hasNode(node))) return true;
      log.info(`node ${node} exists although the watch does not show it: nothing more of it is touched`);
      return false;
    };
    if (!(await isGone())) return;
    const theirs = allocations.filter((allocation) => allocation.node === node);
    const isDue = (allocation: JudgedAllocation) =>
      allocation.verdict === "departed" &&
      departed.has(allocation.node) &&
      observations.isConfirmed("departed", allocation.key, 0, clock.now());
    const due = withWholeHandles(theirs.filter(isDue), allocations, isDue);
    const [tunnels, pods] = [due.filter(({ isTunnel }) => isTunnel), due.filter(({ isTunnel }) => !isTunnel)];
    const others = theirs.filter((allocation) => !allocation.isTunnel && !isReservedByWindows(allocation)).length;
    let released = pods.length - (await releaseUnused(this.#context, "node", pods, signal, isGone));
    // While anything of the node is kept it may come back, and its pods are reached through its tunnel.
    if (released === others) released += tunnels.length - (await releaseUnused(this.#context, "node", tunnels, signal, isGone));
    const blocks = (await isGone()) ? await this.#releaseBlocks(node, signal) : 0;
    if (released > 0 || blocks > 0) {
      const kept = theirs.length - released;
      log.info(`node ${node} is gone: ${released} addresses and ${blocks} blocks were released, ${kept} addresses are kept`);
    }
  }

  /** A block that still has addresses, of another node's pod for instance, stays until they are gone. @returns how many were released */
  async #releaseBlocks(node: string, signal: AbortSignal): Promise<number> {
    const { allocator, datastore } = this.#context;
    const owner = { type: "host", name: node } as const;
    let released = 0;
    for (const family of [4, 6] as const) {
      for (const { value } of await datastore.affinities.listByOwner(owner, family)) {
        try {
          await allocator.releaseAffinity(value.cidr, owner, { mustBeEmpty: true }, { signal });
          released++;
        } catch (error) {
          if (!(error instanceof TortieError && (error.word === "block-not-empty" || error.word === "block-claimed"))) throw error;
        }
      }
    }
    return released;
  }

  async #releaseHandle(handle: string, signal: AbortSignal): Promise<void> {
    const { clock } = this.#context;
    const { allocations } = this.#judge();
    const isDue = (allocation: JudgedAllocation) => this.#isConfirmedLeak(allocation, clock.now());
    const due = withWholeHandles(
      allocations.filter((allocation) => allocation.handle === handle && isDue(allocation)),
      allocations,
      isDue,
    );
    await releaseUnused(this.#context, "leak", due, signal);
  }

  #isConfirmedLeak({ verdict, key, machine }: JudgedAllocation, now: number): boolean {
    const { observations, leakGraceMs } = this.#context;
    if (verdict !== "leaked") return false;
    const grace = machine === undefined ? leakGraceMs : Math.max(leakGraceMs, LEAST_MACHINE_GRACE_MS);
    return observations.isConfirmed("leak", key, grace, now);
  }

  #judge(): Judgement {
    const { view } = this.#context;
    view.mustBeComplete();
    const { nodes } = view;
    const allocations = judgeAllocations(placedBlocks(view.blocks), {
      nodes,
      pods: view.pods,
      pod: (namespace, name) => view.pod(namespace, name),
    });
    const owners = [...view.affinities.map(({ value }) => value.owner), ...view.blocks.flatMap(({ value }) => value.affinity ?? [])];
    const hosts = owners.filter(({ type }) => type === "host").map(({ name }) => name);
    return { allocations, departed: departedNodes(allocations, hosts, nodes) };
  }
}

/** Those of which every allocation of the same handle is due, wherever it is (I§5.4). */
function withWholeHandles(
  due: readonly JudgedAllocation[],
  all: readonly JudgedAllocation[],
  isDue: (allocation: JudgedAllocation) => boolean,
): readonly JudgedAllocation[] {
  const kept = new Set(all.filter((allocation) => !isDue(allocation)).map(({ handle }) => handle));
  return due.filter(({ handle }) => !kept.has(handle));
}
