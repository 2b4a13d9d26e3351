/** Blocks mode of a resident process on a real API server: what it asks of the server, by the server's audit log (A§11.7). */
import { blocksParts } from "../../../agent/addresses/blocks-parts.ts";
import type { CachedKubernetes } from "../../../agent/addresses/cached-kubernetes.ts";
import type { Datastore } from "../../../lib/datastore/datastore.ts";
import type { Host } from "../../../main-plugin/host.ts";
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { startCluster, type TestCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { hostEnds, OneProcess } from "../../support/one-process.ts";

const BURST = 60;
const podName = (index: number): string => `pod${index}`;
const indexes = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);

const cluster = shared(startCluster);

/** A resident process with pods, whose copies are in sync. */
class Resident implements AsyncDisposable {
  readonly world: ApiServerNode;
  readonly calls: OneProcess;
  readonly host: Host;

  private constructor(world: ApiServerNode, calls: OneProcess, host: Host) {
    this.world = world;
    this.calls = calls;
    this.host = host;
  }

  static async create(pods: number, ipam: Readonly<Record<string, string>> = {}, pool: { blockSize?: number } = {}): Promise<Resident> {
    const world = await ApiServerNode.create(cluster);
    await world.pool("pool4", "10.66.0.0/22", pool);
    for (const index of indexes(pods)) await world.pod(podName(index));
    const calls = new OneProcess(
      pods,
      () => ({
        cniVersion: "1.0.0",
        name: "net1",
        type: "calico",
        datastore_type: "kubernetes",
        calico_api_group: world.group,
        nodename: world.name,
        nodename_file_optional: true,
        ipam: { type: "calico-ipam", ...ipam },
        policy: { type: "k8s" },
        kubernetes: { kubeconfig: world.kubeconfig },
        // Of the other process, which has the limit of one call.
        qps: -1,
      }),
      (index) => `K8S_POD_NAME=${podName(index)};K8S_POD_NAMESPACE=${NAMESPACE}`,
    );
    const kubeconfig = await cluster.kubeconfigFor("agent");
    const host = calls.host(blocksParts({ kubeconfig, log: { error: () => {} } }));
    const datastore = await host.datastore();
    if (!isCached(datastore)) throw new Error("the datastore has no copies");
    await datastore.untilSynced(AbortSignal.timeout(60_000));
    return new Resident(world, calls, host);
  }

  /** What is asked meanwhile, watches left out: "create ipamhandles". */
  async requestsOf(work: () => Promise<unknown>): Promise<readonly string[]> {
    const mark = await cluster.mark();
    await work();
    return this.requestsSince(mark);
  }

  async requestsSince(mark: Awaited<ReturnType<TestCluster["mark"]>>): Promise<readonly string[]> {
    const requests = await cluster.requests(mark);
    return requests
      .filter(({ verb, uri }) => verb !== "watch" && !uri.includes("/tokenreviews"))
      .map(({ verb, uri }) => `${verb} ${kindIn(uri)}`);
  }

  add(index: number): Promise<readonly string[]> {
    return this.calls.add(index, this.host);
  }

  del(index: number): Promise<void> {
    return this.calls.del(index, this.host);
  }

  /** Those that the node has, with a confirmed affinity. */
  async blocks(): Promise<readonly string[]> {
    const affinities = await (await this.host.datastore()).affinities.listAll();
    return affinities.filter(({ value }) => value.state === "confirmed").map(({ value }) => value.cidr);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]();
    this.calls[Symbol.dispose]();
    await this.world[Symbol.asyncDispose]();
  }
}

function isCached(datastore: Datastore): datastore is CachedKubernetes {
  return "untilSynced" in datastore;
}

/** "/apis/group/v1/ipamblocks/name?x" → "ipamblocks"; "/api/v1/namespaces/test/pods/a/status" → "pods/status". */
function kindIn(uri: string): string {
  const [path = ""] = uri.split("?");
  const [, , ...rest] = path.split("/").filter((part) => part !== "");
  const parts = path.startsWith("/apis/") ? rest.slice(1) : rest;
  const own = parts[0] === "namespaces" && parts.length > 2 ? parts.slice(2) : parts;
  return [own[0], ...own.slice(2)].join("/");
}

function count(requests: readonly string[], request: string): number {
  return requests.filter((each) => each === request).length;
}

describe("A resident process whose copies are in sync", () => {
  it("A-I06: asks 3 times for one ADD and 3 times for its DEL", async () => {
    await using resident = await Resident.create(2);
    await resident.add(0);

    const added = await resident.requestsOf(() => resident.add(1));
    const deleted = await resident.requestsOf(() => resident.del(1));

    expect(added).toEqual(["create ipamhandles", "update ipamblocks", "patch pods/status"]);
    expect(deleted).toEqual(["patch pods/status", "update ipamblocks", "delete ipamhandles"]);
    await resident.del(0);
    expect(await resident.world.held()).toEqual({});
  });

  it("A-I06: asks at most 2.2 times an ADD and a DEL when 60 come at once, with at most 4 block writes; no address twice", async () => {
    await using resident = await Resident.create(BURST + 1);
    await resident.add(BURST);
    const all = indexes(BURST);
    let addresses: readonly (readonly string[])[] = [];

    const added = await resident.requestsOf(async () => {
      addresses = await Promise.all(all.map((index) => resident.add(index)));
    });

    expect(new Set(addresses.flat()).size).toBe(BURST);
    expect(hostEnds()).toHaveLength(BURST + 1);
    expect(count(added, "update ipamblocks")).toBeLessThanOrEqual(4);
    expect(added.length / BURST).toBeLessThanOrEqual(2.2);
    for (const index of all) expect((await resident.world.annotations(podName(index))).podIPs).toBe(addresses[index]?.join(","));

    const deleted = await resident.requestsOf(() => Promise.all(all.map((index) => resident.del(index))));

    expect(deleted.length / BURST).toBeLessThanOrEqual(2.2);
    await resident.del(BURST);
    expect(await resident.world.held()).toEqual({});
    expect(hostEnds()).toEqual([]);
  });

  it("A-I06: has the next block before it needs it, so that the ADD that goes there asks 3 times too", async () => {
    await using resident = await Resident.create(17, {}, { blockSize: 28 });
    for (const index of indexes(12)) await resident.add(index);
    expect(await resident.blocks()).toHaveLength(1);

    // Less than a quarter of 16 addresses are left.
    const mark = await cluster.mark();
    await resident.add(12);
    let asked: readonly string[] = [];
    await until("a second block", async () => {
      asked = await resident.requestsSince(mark);
      return asked.includes("update blockaffinities");
    });
    // The node besides, unless it was read within the last second.
    expect(asked.filter((request) => !/ipamhandles|update ipamblocks|pods|get nodes/.test(request))).toEqual([
      "list ippools",
      "list blockaffinities",
      "list blockaffinities", // affinities without labels
      "get ipamblocks",
      "create blockaffinities",
      "list blockaffinities", // overlaps
      "list ipamblocks",
      "create ipamblocks",
      "update blockaffinities",
    ]);
    for (const index of [13, 14, 15]) await resident.add(index);
    const added = await resident.requestsOf(() => resident.add(16));

    expect(added).toEqual(["create ipamhandles", "update ipamblocks", "patch pods/status"]);
    expect(await resident.blocks()).toHaveLength(2);
    for (const index of indexes(17)) await resident.del(index);
    expect(await resident.world.held()).toEqual({});
  });

  it("asks nothing but watches while nothing is asked of it", async () => {
    await using resident = await Resident.create(1);
    await resident.add(0);
    expect(await resident.requestsOf(() => Bun.sleep(3_000))).toEqual([]);
    await resident.del(0);
  });

  it("A-I08: shares its block with another process that does not wait for it", async () => {
    await using resident = await Resident.create(BURST);
    const { calls, host } = resident;
    const foreign = calls.host();
    await resident.add(0);
    const own = indexes(BURST).filter((index) => index > 0 && index % 4 !== 0);
    const others = indexes(BURST).filter((index) => index > 0 && index % 4 === 0);

    const results = await Promise.all([...own.map((index) => calls.add(index, host)), ...others.map((index) => calls.add(index, foreign))]);

    expect(new Set(results.flat()).size).toBe(BURST - 1);
    expect(Object.keys(await resident.world.held())).toHaveLength(BURST);
    // Each deletes what the other has added.
    await Promise.all([...own.map((index) => calls.del(index, foreign)), ...[0, ...others].map((index) => calls.del(index, host))]);
    expect(await resident.world.held()).toEqual({});
    expect(hostEnds()).toEqual([]);
    await foreign[Symbol.asyncDispose]();
  });

  it("A-I09: keeps no IPv4 address of 20 ADDs at once that get no IPv6 address", async () => {
    await using resident = await Resident.create(20, { assign_ipv4: "true", assign_ipv6: "true" });

    const outcomes = await Promise.allSettled(indexes(20).map((index) => resident.add(index)));

    expect(outcomes.map(({ status }) => status)).toEqual(indexes(20).map(() => "rejected"));
    expect(await resident.world.held()).toEqual({});
    expect(hostEnds()).toEqual([]);
  });
});
