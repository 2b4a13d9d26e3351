/**
 * A pod that is deleted and made again under its name while the runtime still deletes its old sandbox: wherever that DEL meets the new
 * sandbox's ADD, the new one is what it would have been without it.
 */
import { shared } from "../../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE } from "../../../support/kubernetes/api-server-node.ts";
import { connectNode } from "../../../support/kubernetes/connect-node.ts";
import { type CalicoGroup, LEGACY, startCluster, V3 } from "../../../support/kubernetes/test-cluster.ts";
import type { Pod as Sandbox } from "../../../support/node.ts";

const cluster = shared(startCluster);
const proxy = shared(() => cluster.proxy());
beforeEach(() => proxy.clear());

/** The pod's first incarnation has been added as container "old"; the second one, of another uid, is to be added. */
async function recreated(group: CalicoGroup = LEGACY): Promise<ApiServerNode> {
  const node = await ApiServerNode.create(cluster, { group, via: proxy, pools: ["10.60.0.0/26", "fd60::/122"], pods: ["pod"] });
  await connectNode(node.node, cluster);
  await node.add({ container: "old", sandbox: await node.sandbox("old"), conf: DUAL });
  await cluster.remove("v1", "pods", "pod", NAMESPACE);
  await node.pod("pod");
  proxy.clear();
  return node;
}

const DUAL = { ipam: { type: "calico-ipam", assign_ipv6: "true" } };

/** As another process of the same runtime would: straight, and without waiting for the lock that the ADD may hold. */
async function deleteOld(node: ApiServerNode, netns?: string): Promise<void> {
  const conf = { ...DUAL, kubernetes: { kubeconfig: await cluster.kubeconfigFor("cni") }, ipam_lock_file: `${node.node.dir}/other.lock` };
  await node.del({ container: "old", sandbox: await node.sandbox("old"), conf, ...(netns === undefined ? {} : { netns }) });
}

/** All that belongs to the container in the kernel and on the server, as it is now. */
async function stateOf(node: ApiServerNode, sandbox: Sandbox): Promise<Record<string, unknown>> {
  return {
    links: await node.node.ip("-j", "link", "show"),
    routes: [await node.node.ip("-j", "-4", "route", "show"), await node.node.ip("-j", "-6", "route", "show", "proto", "boot")],
    podLink: await node.node.podIp(sandbox, "-j", "link", "show", "eth0"),
    addresses: await node.podAddresses(sandbox),
    podRoutes: await node.podRoutes(sandbox),
    annotations: await node.annotations(),
    held: await node.held(),
  };
}

/** The new container has one address of each family, and the old one has nothing. */
async function expectOnlyNew(node: ApiServerNode, addresses: readonly string[]): Promise<void> {
  const sandbox = await node.sandbox("new");
  const bare = addresses.map((address) => address.replace(/\/.*/, ""));
  expect(addresses).toHaveLength(2);
  expect(await node.podAddresses(sandbox)).toEqual(addresses);
  expect(await node.hostRoutes()).toEqual(bare);
  expect((await node.node.leftovers()).links).toHaveLength(1);
  expect(await node.annotations()).toEqual({ containerID: "new", podIP: addresses[0], podIPs: addresses.join(",") });
  const held = await node.held();
  expect([Object.keys(held), held["net1.new"]?.length]).toEqual([["net1.new"], 2]);
}

async function addNew(node: ApiServerNode): Promise<readonly string[]> {
  const { ips } = await node.add({ container: "new", sandbox: await node.sandbox("new"), conf: DUAL });
  return ips.map(({ address }) => address);
}

describe.each([LEGACY, V3] as const)("The old sandbox's DEL, %s", (group) => {
  const HOW = ["with its namespace", "without its namespace"];
  it.each(HOW)("after the new one's ADD, %s, changes nothing of it, however often it comes", async (how) => {
    await using node = await recreated(group);
    const addresses = await addNew(node);
    const sandbox = await node.sandbox("new");
    const before = await stateOf(node, sandbox);
    const netns = how === "with its namespace" ? undefined : "";

    await deleteOld(node, netns);
    const { "net1.old": _old, ...held } = before.held as Record<string, unknown>;
    expect(await stateOf(node, sandbox)).toEqual({ ...before, held });
    await expectOnlyNew(node, addresses);

    await deleteOld(node, netns);
    expect(await stateOf(node, sandbox)).toEqual({ ...before, held });
  });

  it.each([
    ["GET", "/pods/"],
    ["POST", "ipamhandles"],
    ["PUT", "ipamblocks"],
    ["PATCH", "/pods/"],
  ])("in the middle of the new one's ADD, before its %s of %s, leaves the new one whole", async (method, path) => {
    await using node = await recreated(group);
    proxy.on({ method, path }, { kind: "before", action: () => deleteOld(node) });

    const addresses = await addNew(node);

    await expectOnlyNew(node, addresses);
    await node.del({ container: "new", sandbox: await node.sandbox("new"), conf: DUAL });
    await node.expectNothingLeft("pod");
  });
});

describe("The old sandbox's DEL", () => {
  it("before the new one's ADD frees what was the old one's, and the new pod is not written to", async () => {
    await using node = await recreated();
    await deleteOld(node);
    expect(await node.annotations()).toEqual({});
    await node.expectNothingLeft();

    await expectOnlyNew(node, await addNew(node));
  });

  it("at the same time as the new one's ADD leaves the new one whole", async () => {
    await using node = await recreated();

    const [addresses] = await Promise.all([addNew(node), deleteOld(node)]);

    await expectOnlyNew(node, addresses);
  });
});
