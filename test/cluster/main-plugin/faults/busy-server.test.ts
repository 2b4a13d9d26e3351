/** A server that is too busy, restarting or out of order for a moment, at each request of an operation in turn. */
import { fresh, shared } from "../../../support/fixtures.ts";
import { ApiServerNode } from "../../../support/kubernetes/api-server-node.ts";
import type { Fault } from "../../../support/kubernetes/fault-proxy.ts";
import { startCluster } from "../../../support/kubernetes/test-cluster.ts";
import { phrases } from "../../../support/words.ts";

const cluster = shared(startCluster);
const proxy = shared(() => cluster.proxy());
beforeEach(() => proxy.clear());

const ADD = phrases`
  GET clusterinformations, GET /pods/, GET /namespaces/test?, GET ippools, GET ipreservations, GET blockaffinities,
  GET ipamblocks, POST ipamhandles, PUT ipamblocks, PATCH /pods/
`;
const DEL = phrases`
  GET clusterinformations, GET ipamhandles/net1.c1, GET ipamconfigs, GET ipamblocks, PUT ipamblocks,
  DELETE ipamhandles, GET ipamhandles/test.pod, PATCH /pods/
`;

const FAULTS: Readonly<Record<string, Fault>> = {
  "429 with Retry-After": { kind: "answer", status: 429, headers: { "retry-after": "0" } },
  "500": { kind: "answer", status: 500 },
  "503": { kind: "answer", status: 503 },
  "504": { kind: "answer", status: 504 },
  "a broken connection": { kind: "cut" },
};

/** Method and the end of the path of every request, in order. */
function asked(kinds: readonly string[]): string[] {
  return proxy.requests.map(
    ({ method, path }) => kinds.find((kind) => matcherOf(kind).method === method && path.match(matcherOf(kind).path)) ?? path,
  );
}

function matcherOf(kind: string): { readonly method: string; readonly path: RegExp } {
  const [method = "", part = ""] = kind.split(" ");
  return { method, path: part.endsWith("?") ? new RegExp(`${part.slice(0, -1)}$`) : new RegExp(part.replaceAll(".", "\\.")) };
}

async function warm(): Promise<ApiServerNode> {
  const node = await ApiServerNode.create(cluster, { via: proxy, pools: ["10.60.0.0/26"], pods: ["neighbour", "pod"] });
  await node.add(await node.callOf("neighbour", "c0"));
  proxy.clear();
  return node;
}

const node = fresh(warm);

describe.each(Object.entries(FAULTS))("Each request that is answered once by %s", (_, fault) => {
  it("is asked once more, by ADD and by DEL, and both succeed", async () => {
    for (const kind of ADD) proxy.on(matcherOf(kind), fault);

    const { ips } = await node.add();

    expect(asked(ADD).sort()).toEqual([...ADD, ...ADD].sort());
    expect(await node.annotations()).toMatchObject({ podIP: ips[0]?.address, containerID: "c1" });
    expect((await node.held())["net1.c1"]).toHaveLength(1);

    proxy.clear();
    for (const kind of DEL) proxy.on(matcherOf(kind), fault);
    await node.del();
    expect(asked(DEL).sort()).toEqual([...DEL, ...DEL].sort());
    expect(Object.keys(await node.held())).toEqual(["net1.c0"]);
    expect(await node.annotations()).toMatchObject({ podIP: "", podIPs: "" });
  });
});

describe("A server that is too busy", () => {
  it("and names a time is not asked again before", async () => {
    const arrivals: number[] = [];
    proxy.on({ method: "PUT" }, { kind: "answer", status: 429, headers: { "retry-after": "1" } });
    proxy.on({ method: "PUT", nth: 2 }, { kind: "before", action: () => arrivals.push(performance.now()) });
    const started = performance.now();

    await node.add();

    expect((arrivals[0] ?? 0) - started).toBeGreaterThanOrEqual(1000);
  });

  it("and names a time beyond all patience fails the ADD at once, which leaves nothing", async () => {
    const fault = { kind: "answer", status: 429, headers: { "retry-after": "3600" }, message: "too many requests" } as const;
    proxy.on({ method: "PATCH", times: Number.POSITIVE_INFINITY }, fault);

    const { exit, json } = await node.call("ADD", {});

    expect([exit, json]).toEqual([
      1,
      {
        code: 999,
        msg: expect.stringMatching(/^Pod\(test\/pod\): PATCH .*too many requests/),
        details: expect.stringMatching(/^datastore-unavailable: /),
      },
    ]);
    expect(Object.keys(await node.held())).toEqual(["net1.c0"]);
    expect((await node.node.leftovers()).links).toHaveLength(1);
  });
});
