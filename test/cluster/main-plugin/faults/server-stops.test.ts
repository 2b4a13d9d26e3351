/** An API server that stops at any request of an operation: each operation is a pod on a node name of its own, and all of them run at once. */
import { shared } from "../../../support/fixtures.ts";
import { ApiServerNode, type PodCall } from "../../../support/kubernetes/api-server-node.ts";
import { startCluster, V3 } from "../../../support/kubernetes/test-cluster.ts";
import type { CniRun } from "../../../support/node.ts";
import { type Stop, Way } from "./way.ts";

const cluster = shared(startCluster);

/** The request that announces the pod, in an ADD that claims its node's first block: which request is which is in ../budget.test.ts. */
const LAST = 21;
const FIRST_ADD = stopsAt(9, LAST, 13);

/** A pod on a node of its own, which nothing but the node's name tells from the others. */
interface Trial extends Stop {
  readonly call: PodCall;
  readonly neighbour: PodCall;
  /** The trial's operation with the server that stops. */
  readonly doomed: PodCall;
}

/** From the first write on, before and after the server does what is asked; of a read it makes no difference. */
function stopsAt(first: number, last: number, firstWrite: number): Stop[] {
  const all = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  return all.flatMap((nth) => (nth < firstWrite ? [false] : [false, true]).map((isDone) => ({ nth, isDone })));
}

async function trialOf(node: ApiServerNode, stop: Stop, index: number): Promise<Trial> {
  const nodename = `n${index}`;
  await node.cluster.createNode(nodename);
  const conf = { nodename, ipam_lock_file: `${node.node.dir}/${nodename}.lock` };
  const call = async (pod: string): Promise<PodCall> => {
    await node.pod(pod, { node: nodename });
    return { ...(await node.callOf(pod)), conf };
  };
  const way = (await Way.open(node)).stopAt(stop);
  const own = await call(`pod${index}`);
  const kubernetes = { kubeconfig: way.kubeconfig };
  return { ...stop, call: own, neighbour: await call(`neighbour${index}`), doomed: { ...own, conf: { ...conf, kubernetes } } };
}

async function trialsOf(node: ApiServerNode, stops: readonly Stop[]): Promise<Trial[]> {
  // So large that no two of these nodes begin at the same block: one that finds its block taken asks more, and requests are counted.
  await node.pool("pool4", "10.60.0.0/18", { blockSize: 28 });
  return Promise.all(stops.map((stop, index) => trialOf(node, stop, index)));
}

/** Exit, code, message and details, which is all that a runtime has. */
function saidOf({ nth, isDone }: Stop, { exit, json }: CniRun): Record<string, unknown> {
  return { nth, isDone, exit, ...(json as Record<string, unknown>) };
}

function unreachable({ nth, isDone }: Stop): Record<string, unknown> {
  return {
    nth,
    isDone,
    exit: 1,
    code: 999,
    msg: expect.stringMatching(/(GET|POST|PUT|PATCH|DELETE) https:\/\/127\.0\.0\.1:\d+\/api.*connection refused/),
    details: expect.stringContaining("datastore-unavailable: make the datastore that the message names reachable"),
  };
}

async function runAll(node: ApiServerNode, command: string, trials: readonly Trial[]): Promise<Record<string, unknown>[]> {
  return Promise.all(trials.map(async (trial) => saidOf(trial, await node.call(command, trial.doomed))));
}

/** Names of the host ends, sorted. */
async function links(node: ApiServerNode): Promise<string[]> {
  return (await node.node.leftovers()).links.sort();
}

async function expectUnannounced(node: ApiServerNode, trials: readonly Trial[]): Promise<void> {
  const announced = await Promise.all(trials.map(async ({ call }) => (await node.annotations(call.pod)).podIPs ?? ""));
  expect(announced).toEqual(trials.map(() => ""));
}

/** Handle → addresses that the handles count, which may be more than the blocks have given away. */
async function handleCounts(): Promise<ReadonlyMap<string, number>> {
  const handles = (await cluster.list(V3, "ipamhandles")).map(({ spec }) => spec as { handleID: string; block: Record<string, bigint> });
  return new Map(handles.map(({ handleID, block }) => [handleID, Object.values(block).reduce((sum, count) => sum + Number(count), 0)]));
}

/** Handle → addresses that the blocks have given to it. */
async function addressCounts(): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (const { spec } of await cluster.list(V3, "ipamblocks")) {
    const { allocations, attributes } = spec as { allocations: (number | null)[]; attributes: { handle_id: string }[] };
    for (const index of allocations) {
      const handle = index === null ? undefined : attributes[Number(index)]?.handle_id;
      if (handle !== undefined) counts.set(handle, (counts.get(handle) ?? 0) + 1);
    }
  }
  return counts;
}

describe("An API server that stops at any request", () => {
  it("of an ADD fails it, says which was not answered, leaves no link; the DEL takes away the rest", async () => {
    await using node = await ApiServerNode.create(cluster);
    const trials = await trialsOf(node, stopsAt(1, 10, 8));
    const neighbours = await Promise.all(trials.map(({ neighbour }) => node.add(neighbour)));
    const held = await node.held();

    expect(await runAll(node, "ADD", trials)).toEqual(trials.map(unreachable));

    expect(await links(node)).toEqual(neighbours.map(({ interfaces }) => String(interfaces[0]?.name)).sort());
    expect((await node.hostRoutes()).sort()).toEqual(neighbours.map(({ ips }) => String(ips[0]?.address.replace("/32", ""))).sort());
    await Promise.all(trials.map(({ call }) => node.del(call)));
    expect(await node.held()).toEqual(held);
    await expectUnannounced(node, trials);
  });

  it("of a DEL fails it with the link gone; the next DEL takes away the rest", async () => {
    await using node = await ApiServerNode.create(cluster);
    const trials = await trialsOf(node, stopsAt(1, 8, 2));
    await Promise.all(trials.map(({ call }) => node.add(call)));

    expect(await runAll(node, "DEL", trials)).toEqual(trials.map(unreachable));

    await node.node.expectClean();
    await Promise.all(trials.map(({ call }) => node.del({ ...call, netns: "" })));
    await node.expectNothingLeft();
    await expectUnannounced(node, trials);
  });

  it("of the first ADD of a node, which claims a block: whatever a block has given away its handle counts, and the DEL leaves nothing", async () => {
    await using node = await ApiServerNode.create(cluster, { group: V3 });
    const trials = await trialsOf(node, FIRST_ADD);

    expect(await runAll(node, "ADD", trials)).toEqual(trials.map(unreachable));

    const counts = await handleCounts();
    const addresses = await addressCounts();
    const isGiven = ({ nth, isDone }: Stop) => nth === LAST || (nth === LAST - 1 && isDone);
    expect([...addresses.keys()].sort()).toEqual(
      trials
        .filter(isGiven)
        .map(({ call }) => `net1.${call.container}`)
        .sort(),
    );
    for (const [handle, count] of addresses) expect([handle, counts.get(handle)]).toEqual([handle, count]);
    await Promise.all(trials.map(({ call }) => node.del(call)));
    await node.expectNothingLeft();
    await expectUnannounced(node, trials);
  });

  it("of the first ADD of a node, which claims a block: the node's next ADD finds everything in order", async () => {
    await using node = await ApiServerNode.create(cluster, { group: V3 });
    const trials = await trialsOf(node, FIRST_ADD);

    expect(await runAll(node, "ADD", trials)).toEqual(trials.map(unreachable));

    await node.node.expectClean();
    await Promise.all(trials.map(({ call }) => node.add(call)));
    const held = await node.held();
    // What was announced counts as added, and every ADD of a pod takes an address.
    const counts = trials.map(({ call, nth, isDone }) => [`net1.${call.container}`, nth === LAST && isDone ? 2 : 1]);
    expect(Object.entries(held).map(([handle, { length }]) => [handle, length])).toEqual(expect.arrayContaining(counts));
    await Promise.all(trials.map(({ call }) => node.del(call)));
    await node.expectNothingLeft();
    await expectUnannounced(node, trials);

    const blocks = (await cluster.list(V3, "ipamblocks")).map(({ spec }) => `${spec?.affinity} ${spec?.cidr} confirmed`);
    const affinities = await cluster.list(V3, "blockaffinities");
    expect(affinities.map(({ spec }) => `${spec?.type}:${spec?.node} ${spec?.cidr} ${spec?.state}`).sort()).toEqual(blocks.sort());
    expect(blocks).toHaveLength(trials.length);
  });
});

describe("An API server whose process is killed", () => {
  it("while an ADD and a DEL write their block, and that is started again: their DELs leave nothing", async () => {
    await using node = await ApiServerNode.create(cluster);
    const [added, deleted] = await trialsOf(
      node,
      [1, 2].map((nth) => ({ nth, isDone: false })),
    );
    if (added === undefined || deleted === undefined) throw new Error("there are two");
    await node.add(deleted.call);
    const ways = await Promise.all([added, deleted].map(() => Way.open(node)));
    const killed = Promise.withResolvers<void>();
    let writing = 0;
    const die = async () => {
      if (++writing === 2) killed.resolve(Promise.all([...ways.map((way) => way.close()), cluster.stopApiServer()]).then(() => undefined));
      return killed.promise;
    };
    for (const { proxy } of ways) proxy.on({ method: "PUT" }, { kind: "before", action: die });
    const through = ({ call }: Trial, way: Way | undefined): PodCall => ({
      ...call,
      conf: { ...call.conf, kubernetes: { kubeconfig: way?.kubeconfig } },
    });

    const runs = await Promise.all([node.call("ADD", through(added, ways[0])), node.call("DEL", through(deleted, ways[1]))]);
    await cluster.startApiServer();

    expect(runs.map((run) => saidOf(added, run))).toEqual([unreachable(added), unreachable(added)]);
    await node.node.expectClean();
    await Promise.all([node.del(added.call), node.del({ ...deleted.call, netns: "" })]);
    await node.expectNothingLeft();
    await expectUnannounced(node, [added, deleted]);
  });
});
