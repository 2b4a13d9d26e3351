/** L3: something between node and API server that mixes answers up: no pod gets what another one's object says. */
import { shared } from "../../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE } from "../../../support/kubernetes/api-server-node.ts";
import { LEGACY, startCluster } from "../../../support/kubernetes/test-cluster.ts";

const FIXED = "10.60.0.40";

const cluster = shared(startCluster);
const proxy = shared(() => cluster.proxy());

/** Pod "other", of a fixed address, has been added; "pod" is to be. */
async function withOther(): Promise<ApiServerNode> {
  proxy.clear();
  const node = await ApiServerNode.create(cluster, { via: proxy, pools: ["10.60.0.0/26"] });
  await node.pod("other", { annotations: { "cni.projectcalico.org/ipAddrs": `["${FIXED}"]` } });
  await node.add(await node.callOf("other", "c0"));
  await node.pod("pod");
  proxy.clear();
  return node;
}

/** What is asked for, and what is answered instead. */
const MIX_UPS: readonly (readonly [string, RegExp, string])[] = [
  ["another pod", /\/pods\/pod$/, `/api/v1/namespaces/${NAMESPACE}/pods/other`],
  ["another namespace", /\/namespaces\/test$/, "/api/v1/namespaces/kube-system"],
  ["a handle for a block", /\/ipamblocks\/[^/]+$/, `/apis/${LEGACY}/ipamhandles/net1.c0`],
  ["another list", /\/ippools\?/, `/apis/${LEGACY}/ipreservations`],
];

describe("L3: an answer about something else than was asked for", () => {
  it.each(MIX_UPS)("(%s) is not believed: the ADD asks again on a new connection", async (_, asked, path) => {
    await using node = await withOther();
    proxy.on({ method: "GET", path: asked }, { kind: "mix-up", path });

    const { ips } = await node.add();

    expect(ips[0]?.address).not.toBe(`${FIXED}/32`);
    expect(await node.annotations()).toMatchObject({ podIP: ips[0]?.address, containerID: "c1" });
    expect(Object.keys(await node.held()).sort()).toEqual(["net1.c0", "net1.c1"]);
    expect(proxy.requests.filter(({ method, path }) => method === "GET" && asked.test(path))).toHaveLength(2);
    expect(proxy.connections).toBe(2);
  });

  it("fails the ADD when it does not get better, which leaves both pods as they were", async () => {
    await using node = await withOther();
    const before = [await node.annotations("other"), await node.held(), await node.node.leftovers()];
    const path = `/api/v1/namespaces/${NAMESPACE}/pods/other`;
    proxy.on({ method: "GET", path: /\/pods\/pod$/, times: Number.POSITIVE_INFINITY }, { kind: "mix-up", path });

    expect(await node.refusal("ADD")).toContain("the answer is about something else than was asked for");

    expect(await node.annotations()).toEqual({});
    expect([await node.annotations("other"), await node.held(), await node.node.leftovers()]).toEqual(before);
  });
});
