/**
 * Releases addresses of nodes that are gone, and addresses that leaked on nodes that exist (I§5.4). Items of the queue are `node <name>`
 * and `handle <id>`.
 */
import { placedBlocks } from "../../doctor/snapshot.ts";
import { formatAddress } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { podEndpointKey } from "../../lib/workload/endpoint.ts";
import { departedNodes, isReservedByWindows, type JudgedAllocation, judgeAllocations, mayStillUse } from "../judge/allocations.ts";
import { type Duty, type DutyContext, mayRelease } from "./duty.ts";

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

  /**
   * Lists pods whose annotations were not read to their end at the last look, as `<namespace>/<name>`: what is theirs is kept while they
   * live.
   */
  get unread(): readonly string[] {
    return this.#unread;
  }

  async look(): Promise<readonly string[]> {
    const { view, observed, nodeGraceMs, leakGraceMs } = this.#context;
    this.#unread = view.pods
      .filter(({ isWhole, isFinished }) => !isWhole && !isFinished)
      .map(({ namespace, name }) => `${namespace}/${name}`);
    if (!(await mayRelease(this.#context))) {
      for (const kind of ["node", "departed", "leak"] as const) observed[kind].forget();
      return [];
    }
    const { allocations, departed } = this.#judge();
    const keysOf = (verdict: JudgedAllocation["verdict"]) =>
      allocations.filter((allocation) => allocation.verdict === verdict).map(({ key }) => key);
    observed.node.look(departed);
    observed.departed.look(keysOf("departed"));
    observed.leak.look(leakGraceMs === 0 ? [] : keysOf("leaked"));
    const nodes = [...departed].filter((node) => observed.node.isConfirmed(node, nodeGraceMs));
    const handles = new Set(allocations.filter((allocation) => this.#isConfirmedLeak(allocation)).map(({ handle }) => handle));
    return [...nodes.map((node) => `node ${node}`), ...[...handles].map((handle) => `handle ${handle}`)];
  }

  async work(item: string, signal: AbortSignal): Promise<void> {
    if (!(await mayRelease(this.#context))) return;
    const [kind, name = ""] = item.split(" ");
    if (kind === "node") await this.#cleanNode(name, signal);
    else await this.#releaseHandle(name, signal);
  }

  async #cleanNode(node: string, signal: AbortSignal): Promise<void> {
    const { observed, nodeGraceMs, live, log } = this.#context;
    const { allocations, departed } = this.#judge();
    if (!departed.has(node) || !observed.node.isConfirmed(node, nodeGraceMs)) return;
    const isGone = async () => {
      if (!(await live.hasNode(node))) return true;
      log.info(`node ${node} exists although the watch does not show it: nothing more of it is touched`);
      return false;
    };
    if (!(await isGone())) return;
    const theirs = allocations.filter((allocation) => allocation.node === node);
    const isDue = (allocation: JudgedAllocation) =>
      allocation.verdict === "departed" && departed.has(allocation.node) && observed.departed.isConfirmed(allocation.key, 0);
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

  /**
   * Releases blocks. One that still has addresses, of another node's pod for instance, stays until they are gone.
   * @returns how many were released
   */
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
    const { allocations } = this.#judge();
    const isDue = (allocation: JudgedAllocation) => this.#isConfirmedLeak(allocation);
    const due = withWholeHandles(
      allocations.filter((allocation) => allocation.handle === handle && isDue(allocation)),
      allocations,
      isDue,
    );
    await releaseUnused(this.#context, "leak", due, signal);
  }

  #isConfirmedLeak({ verdict, key, machine }: JudgedAllocation): boolean {
    const { observed, leakGraceMs } = this.#context;
    if (verdict !== "leaked") return false;
    const grace = machine === undefined ? leakGraceMs : Math.max(leakGraceMs, LEAST_MACHINE_GRACE_MS);
    return observed.leak.isConfirmed(key, grace);
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

/** Picks those of which every allocation of the same handle is due, wherever it is (I§5.4). */
function withWholeHandles(
  due: readonly JudgedAllocation[],
  all: readonly JudgedAllocation[],
  isDue: (allocation: JudgedAllocation) => boolean,
): readonly JudgedAllocation[] {
  const kept = new Set(all.filter((allocation) => !isDue(allocation)).map(({ handle }) => handle));
  return due.filter(({ handle }) => !kept.has(handle));
}

type ReleaseContext = Pick<DutyContext, "live" | "datastore" | "allocator" | "log" | "onReleased">;

/** As many as kube-controllers releases at once (I§5.4). */
const BATCH = 10_000;

/**
 * Releases what no pod uses any more: the pods are asked for once more, their records are blanked first (design, invariant 3), and the
 * allocator releases each allocation by handle and sequence number, so that one made since is left alone.
 *
 * @param allocations all of each handle that is named among them
 * @param isStillDue asked before each write: the requests before it take time, in which a node may come back
 * @returns how many were kept, because a pod or a virtual machine turned out to use them
 */
async function releaseUnused(
  context: ReleaseContext,
  reason: "node" | "leak",
  allocations: readonly JudgedAllocation[],
  signal: AbortSignal,
  isStillDue: () => Promise<boolean> = async () => true,
): Promise<number> {
  const byHandle = Map.groupBy(allocations, ({ handle }) => handle);
  const free: JudgedAllocation[] = [];
  for (const group of byHandle.values()) {
    signal.throwIfAborted();
    // One address in use keeps all of its handle (I§5.4).
    if (await isUnused(context, group)) free.push(...group);
  }
  let released = 0;
  while (released < free.length && (await isStillDue())) {
    const batch = free.slice(released, released + BATCH);
    await release(context, reason, batch, signal);
    released += batch.length;
  }
  return allocations.length - released;
}

async function isUnused(context: ReleaseContext, group: readonly JudgedAllocation[]): Promise<boolean> {
  const asked = new Set<string>();
  for (const allocation of group) {
    if (!(await isMachineGone(context, allocation))) return false;
    for (const owner of allocation.pods) {
      const pod = await context.live.pod(owner.namespace, owner.name);
      if (mayStillUse(pod, owner, allocation.address)) return false;
      // A pod that has ended may still be recorded with the address.
      const isRecorded = pod?.isAnnotated === true && pod.containerId !== "" && allocation.handle.endsWith(pod.containerId);
      if (!isRecorded || asked.has(pod.uid)) continue;
      asked.add(pod.uid);
      await context.datastore.records.clear(podEndpointKey(owner.node, owner), pod.containerId);
    }
  }
  return true;
}

/**
 * Says whether the virtual machine is gone. One whose name is not known counts as there, and so does each where KubeVirt cannot be asked.
 */
async function isMachineGone({ datastore, live }: ReleaseContext, { machine, namespace }: JudgedAllocation): Promise<boolean> {
  if (machine === undefined) return true;
  if (machine === "" || namespace === "" || !(await live.hasKubeVirt())) return false;
  const { instances, machines } = datastore.virtualMachines;
  const key = { namespace, name: machine };
  return (await instances.get(key)) === undefined && (await machines.get(key)) === undefined;
}

async function release(
  { allocator, log, onReleased }: ReleaseContext,
  reason: "node" | "leak",
  allocations: readonly JudgedAllocation[],
  signal: AbortSignal,
): Promise<void> {
  const options = allocations.map(({ address, block, handle, sequenceNumber }) => ({ address, block, handle, sequenceNumber }));
  const { done, unallocated, error } = await allocator.releaseIps(options, { signal });
  const released = done.length - unallocated.length;
  if (released > 0) {
    onReleased(reason, released);
    const free = new Set(unallocated.map(formatAddress));
    const carriedOut = new Set(done.map(({ address }) => formatAddress(address)));
    for (const { address, handle, node, pods } of allocations) {
      const text = formatAddress(address);
      if (!carriedOut.has(text) || free.has(text)) continue;
      const [owner] = pods;
      const whose = owner === undefined ? "" : `, of pod ${owner.namespace}/${owner.name}`;
      log.info(`released ${text} of handle ${handle} on node ${node}${whose}: ${WHY[reason]}`);
    }
  }
  if (error !== undefined) throw error;
}

const WHY = { node: "the node is gone", leak: "no pod uses it" } as const;
