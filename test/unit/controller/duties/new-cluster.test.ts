/** What a new cluster begins with: its first pools, and ClusterInformation. */
import { ApiError } from "../../../../lib/kubernetes/api-client.ts";
import { ControllerWorld } from "../../../support/controller-world.ts";
import { fresh } from "../../../support/fixtures.ts";

const INFORMATION = "/apis/crd.projectcalico.org/v1/clusterinformations/default";
const KUBEADM = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";

describe("ClusterInformation of a new cluster", () => {
  const world = fresh(() => new ControllerWorld({ "cluster-information": "true" }));

  it("is made once, with the mark of its maker, and not again when somebody deletes it", async () => {
    await world.minutes(1);
    expect(world.api.get(INFORMATION)).toMatchObject({
      metadata: { labels: { "tortie.dev/made-by": "tortie-controller" } },
      spec: { datastoreReady: true },
    });
    await world.minutes(1);
    world.api.remove(INFORMATION);
    await world.minutes(2);
    await world.work("cluster-information default");
    expect(world.api.get(INFORMATION)).toBeUndefined();
    expect(world.log).toEqual(["ClusterInformation default is made: plugins may work"]);
  });

  it("that is there stays as it is", async () => {
    world.setReady(false);
    await world.minutes(2);
    await world.work("cluster-information default");
    expect(world.api.get(INFORMATION)).toMatchObject({ spec: { datastoreReady: false } });
    expect(world.api.writes).toEqual([]);
  });

  it.each([
    [409, undefined],
    [403, "arranged"],
  ])("that cannot be made with status %i: the message is %p", async (status, message) => {
    world.api.before = ({ method }) => {
      if (method === "POST") throw new ApiError("arranged", { status });
    };
    const failed = await world.minutes(1).catch((error: Error) => error.message);
    expect([failed, world.log]).toEqual([message, []]);
  });
});

describe("The first pools", () => {
  it("are those that the options name, marked as the controller's, and are not made again", async () => {
    const world = new ControllerWorld({ "ipv4-pool": "10.1.0.0/16", "ipv6-pool": "fd01::/64" });
    await world.minutes(3);
    expect(world.pool("default-ipv4")).toMatchObject({
      metadata: { labels: { "tortie.dev/made-by": "tortie-controller" }, annotations: { "tortie.dev/range-from": "--ipv4-pool" } },
      spec: { cidr: "10.1.0.0/16", blockSize: 26, natOutgoing: true, allowedUses: ["Workload", "Tunnel"] },
    });
    expect(world.pool("default-ipv6")).toMatchObject({ spec: { cidr: "fd01::/64", blockSize: 122 } });
    expect(world.log).toEqual([
      "pool default-ipv4 is made: 10.1.0.0/16, from --ipv4-pool",
      "pool default-ipv6 is made: fd01::/64, from --ipv6-pool",
    ]);
  });

  it("come from kubeadm, which is asked only for auto", async () => {
    const asked: string[] = [];
    const made = async (given: Readonly<Record<string, string>>, stored?: string) => {
      const world = new ControllerWorld(given);
      world.api.before = ({ path }) => asked.push(path);
      if (stored !== undefined) world.api.put(KUBEADM, { data: { ClusterConfiguration: stored } });
      await world.look();
      return world;
    };
    const world = await made({ "ipv4-pool": "auto" }, "networking:\n  podSubnet: 10.2.0.0/16\n");
    expect(world.pool("default-ipv4")).toMatchObject({ spec: { cidr: "10.2.0.0/16" } });
    expect(asked).toContain(KUBEADM);
    asked.length = 0;
    await made({ "ipv4-pool": "10.1.0.0/16" });
    await made({});
    expect(asked).not.toContain(KUBEADM);
    await expect(made({ "ipv4-pool": "auto" }, "nonsense")).rejects.toThrow("has no ClusterConfiguration that can be read");
    expect((await made({ "ipv4-pool": "auto" }, "networking: {}")).duties.firstPools.refusals).toEqual([
      expect.stringContaining("set --ipv4-pool"),
    ]);
  });

  it("grow with the ranges of nodes, and a refusal is told once", async () => {
    const world = new ControllerWorld({ "ipv4-pool": "auto" });
    await world.minutes(3);
    const refusal = expect.stringContaining("no IPv4 pool is made");
    expect([world.log, world.duties.firstPools.refusals]).toEqual([[refusal], [refusal]]);
    world.addNode("node1", { podCIDRs: ["10.3.0.0/24"] });
    await world.minutes(1);
    world.addNode("node2", { podCIDRs: ["10.3.8.0/24"] });
    await world.minutes(1);
    expect([world.pool("nodes-10-3-0-0-24"), world.pool("nodes-10-3-8-0-24")]).toEqual([expect.anything(), expect.anything()]);
    expect(world.duties.firstPools.refusals).toEqual([]);
  });

  it("are none of the controller's where somebody else has made one", async () => {
    const world = new ControllerWorld({ "ipv4-pool": "10.1.0.0/16" });
    world.addPool("theirs", "10.9.0.0/16");
    await world.minutes(2);
    await world.work("first-pools pool default-ipv4");
    expect(world.pool("default-ipv4")).toBeUndefined();
  });

  it.each([
    [409, undefined],
    [403, "arranged"],
  ])("that cannot be made with status %i: the message is %p", async (status, message) => {
    const world = new ControllerWorld({ "ipv4-pool": "10.1.0.0/16" });
    world.api.before = ({ method, path }) => {
      if (method === "POST" && path.endsWith("/ippools")) throw new ApiError("arranged", { status });
    };
    const failed = await world.minutes(1).catch((error: Error) => error.message);
    expect([failed, world.log]).toEqual([message, []]);
  });
});
