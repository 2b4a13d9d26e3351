/** Writes that the server carries out and whose answer never arrives, seen from outside: what the plugins make of it is there once. */
import { shared } from "../../../support/fixtures.ts";
import { ApiServerNode } from "../../../support/kubernetes/api-server-node.ts";
import { type CalicoGroup, LEGACY, startCluster, V3 } from "../../../support/kubernetes/test-cluster.ts";

const cluster = shared(startCluster);
const proxy = shared(() => cluster.proxy());
beforeEach(() => proxy.clear());

const pooled = (group: CalicoGroup = LEGACY) =>
  ApiServerNode.create(cluster, { group, via: proxy, pools: ["10.60.0.0/26"], pods: ["pod"] });

/** "PUT ipamblocks" of every request that changes something, in order. */
function writes(): string[] {
  const all = proxy.requests.filter(({ method }) => method !== "GET");
  return all.map(({ method, path }) => `${method} ${/\/(blockaffinities|ipamblocks|ipamhandles|pods)/.exec(path)?.[1]}`);
}

function loseOnce(...kinds: readonly string[]): void {
  for (const kind of kinds) {
    const [method = "", path = ""] = kind.split(" ");
    proxy.on({ method, path }, { kind: "lose-answer" });
  }
}

const twice = (kinds: readonly string[]) => kinds.flatMap((kind) => [kind, kind]);

const CLAIM = ["POST blockaffinities", "POST ipamblocks", "PUT blockaffinities"];
const GRANT = ["POST ipamhandles", "PUT ipamblocks", "PATCH pods"];
const RELEASE = ["PATCH pods", "PUT ipamblocks", "DELETE ipamhandles"];

describe.each([LEGACY, V3] as const)("Every write whose answer is lost, %s", (group) => {
  it("is repeated once and done once, in the ADD that claims a block and in the DEL", async () => {
    await using node = await pooled(group);
    loseOnce(...CLAIM, ...GRANT);

    const { ips } = await node.add();

    expect(writes()).toEqual(twice([...CLAIM, ...GRANT]));
    expect(await node.held()).toEqual({ "net1.c1": [expect.stringMatching(/^10\.60\.0\.0\/26#/)] });
    expect(await node.podAddresses()).toEqual([ips[0]?.address]);
    expect(await node.annotations()).toMatchObject({ podIP: ips[0]?.address, containerID: "c1" });
    expect(await cluster.list(group, "blockaffinities")).toHaveLength(1);

    proxy.clear();
    loseOnce(...RELEASE);
    await node.del();
    expect(writes()).toEqual(twice(RELEASE));
    expect(await node.annotations()).toMatchObject({ podIP: "", podIPs: "" });
    await node.expectNothingLeft("pod");
  });
});

describe("A block whose write was carried out unanswered and that somebody else wrote since", () => {
  /** Somebody else writes the block before the plugin comes again: a new revision, and what the plugin wrote is still in it. */
  function touchBeforeRepetition(): void {
    proxy.on({ method: "PUT", path: "ipamblocks" }, { kind: "lose-answer" }).on(
      { method: "PUT", path: "ipamblocks", nth: 2 },
      {
        kind: "before",
        action: async () => {
          const path = `/apis/${LEGACY}/ipamblocks/10-60-0-0-26`;
          const { body } = await cluster.api("GET", path);
          const block = body as { spec: { sequenceNumber: bigint } };
          const spec = { ...block.spec, sequenceNumber: BigInt(block.spec.sequenceNumber) + 1n };
          expect(await cluster.api("PUT", path, { ...block, spec })).toMatchObject({ status: 200 });
        },
      },
    );
  }

  it.each([
    ["DEL", {}],
    ["GC", { container: "", conf: { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] } }],
  ])("is freed of all that the ADD took by %s", async (command, call) => {
    await using node = await pooled();
    touchBeforeRepetition();

    const { ips } = await node.add();

    expect((await node.held())["net1.c1"]).toHaveLength(1);
    expect(await node.podAddresses()).toEqual([ips[0]?.address]);
    expect(await node.annotations()).toMatchObject({ podIP: ips[0]?.address });
    expect(await node.call(command, call)).toMatchObject({ exit: 0 });
    expect(await node.held()).toEqual({});
    await node.node.expectClean();
  });

  it("is left alone by the DEL that freed its address, and so is the neighbour's", async () => {
    await using node = await pooled();
    await node.pod("neighbour");
    await node.add(await node.callOf("neighbour", "c0"));
    const neighbours = await node.held();
    await node.add();
    proxy.clear();
    touchBeforeRepetition();

    await node.del();

    expect(await node.held()).toEqual(neighbours);
    expect(await node.annotations()).toMatchObject({ podIP: "" });
  });
});
