/** When addresses of pods and of nodes are released, on an API server in memory. Its minutes are the test's. */
import { ApiError } from "../../../../lib/kubernetes/api-client.ts";
import { address } from "../../../support/addresses.ts";
import { assignOne } from "../../../support/blocks.ts";
import { ControllerWorld, NAMESPACE } from "../../../support/controller-world.ts";
import { fresh } from "../../../support/fixtures.ts";

const KUBE_CONTROLLERS = "/api/v1/namespaces/kube-system/pods/kc";

const world = fresh(() => ControllerWorld.withPool());

function addKubeControllers(world: ControllerWorld): void {
  const name = "calico-kube-controllers";
  world.api.put(KUBE_CONTROLLERS, { metadata: { labels: { "k8s-app": name } }, spec: { serviceAccountName: name, nodeName: "node1" } });
}

describe("A leaked address", () => {
  it("is released after fifteen minutes, with its handle, and told; those of pods and tunnels stay", async () => {
    const leaked = await world.take("node1", "never-was");
    const used = await world.addPodWithAddress("web");
    const tunnel = await world.takeTunnel("node1");
    await world.minutes(15);
    expect(Object.keys(await world.held())).toHaveLength(3);
    await world.minutes(1);
    expect(await world.held()).toEqual({ "net1.web-c": [used], "vxlan-tunnel-addr-node1": [tunnel] });
    expect(world.released).toEqual(["leak 1"]);
    expect(world.log).toEqual([
      `released ${leaked} of handle net1.never-was-c on node node1, of pod ${NAMESPACE}/never-was: no pod uses it`,
    ]);
  });

  it("stays when its pod turns up meanwhile, and the time begins anew when it goes", async () => {
    await world.take("node1", "slow");
    await world.minutes(14);
    world.addPod("slow");
    await world.minutes(10);
    world.removePod("slow");
    await world.minutes(15);
    expect(world.released).toEqual([]);
    await world.minutes(1);
    expect(world.released).toEqual(["leak 1"]);
  });

  it.each<[string, Readonly<Record<string, string>>, (world: ControllerWorld) => void]>([
    ["where no grace is set", { "leak-grace": "0" }, () => {}],
    ["while the datastore is paused", {}, (world) => world.setReady(false)],
    ["where Calico's kube-controllers is said to run", { "calico-kube-controllers": "present" }, () => {}],
    ["where Calico's kube-controllers runs", {}, addKubeControllers],
  ])("stays %s", async (_where, options, arrange) => {
    const world = ControllerWorld.withPool(options);
    await world.take("node1", "never-was");
    arrange(world);
    await world.minutes(40);
    expect(await world.held()).toHaveProperty(["net1.never-was-c"]);
    expect(world.context.observed.leak.size).toBe(0);
  });

  it("is not counted as seen while Calico's kube-controllers ran", async () => {
    await world.take("node1", "never-was");
    await world.minutes(10);
    addKubeControllers(world);
    await world.minutes(1);
    world.api.remove(KUBE_CONTROLLERS);
    await world.minutes(15);
    expect(world.released).toEqual([]);
    await world.minutes(1);
    expect(world.released).toEqual(["leak 1"]);
  });

  it("stays while another address of its handle is in use", async () => {
    world.addPool("pool6", "fd60::/64");
    await world.take("node1", "web", "web-c");
    const used = await world.take("node1", "web", "web-c", 6);
    world.addPod("other", { podIP: used });
    await world.minutes(30);
    expect(world.released).toEqual([]);
    world.removePod("other");
    await world.minutes(17);
    expect(await world.held()).toEqual({});
  });

  it("stays when the server itself has the pod that the watch lacks", async () => {
    await world.take("node1", "web");
    world.api.before = ({ path }) => {
      if (path.endsWith("/pods/web")) world.addPod("web");
    };
    await world.minutes(16);
    expect(world.released).toEqual([]);
  });

  it("of a virtual machine stays five minutes at least, and wherever KubeVirt cannot be asked", async () => {
    const world = ControllerWorld.withPool({ "leak-grace": "60" });
    const machine = { node: "node1", namespace: NAMESPACE, pod: "virt-launcher-vm", "vmi-name": "vm" };
    await assignOne(world.allocator, "node1", "vm-handle", machine);
    await world.take("node1", "never-was");
    await world.minutes(2);
    expect(Object.keys(await world.held())).toEqual(["vm-handle"]);
    await world.minutes(20);
    expect(Object.keys(await world.held())).toEqual(["vm-handle"]);
    world.api.put("/apis/kubevirt.io/v1", {});
    world.api.put(`/apis/kubevirt.io/v1/namespaces/${NAMESPACE}/virtualmachines/vm`, {});
    await world.minutes(2);
    expect(Object.keys(await world.held())).toEqual(["vm-handle"]);
    world.api.remove(`/apis/kubevirt.io/v1/namespaces/${NAMESPACE}/virtualmachines/vm`);
    await world.minutes(2);
    expect(await world.held()).toEqual({});
  });

  it("of a pod that has ended is taken out of the pod's annotations before it is released", async () => {
    await world.addPodWithAddress("done", { phase: "Succeeded" });
    world.api.writes.length = 0;
    await world.minutes(16);
    expect(world.released).toEqual(["leak 1"]);
    expect(world.pod("done")).toMatchObject({
      metadata: { annotations: { "cni.projectcalico.org/podIP": "", "cni.projectcalico.org/podIPs": "" } },
    });
    const [first = "", second = ""] = world.api.writes.filter((write) => write.includes("/pods/") || write.includes("/ipamblocks/"));
    expect([first, second]).toEqual([expect.stringContaining("/pods/done"), expect.stringContaining("/ipamblocks/")]);
  });

  it("stays while its pod is not read to its end, which is told", async () => {
    await world.take("node1", "web");
    const long = Array.from({ length: 65 }, (_, index) => `10.99.0.${index}/32`).join(",");
    world.addPod("web", { containerId: "web-c", annotations: { "cni.projectcalico.org/podIPs": long } });
    await world.minutes(20);
    expect([world.released, world.duties.addresses.unread]).toEqual([[], [`${NAMESPACE}/web`]]);
    world.addPod("web", { phase: "Failed", containerId: "web-c", annotations: { "cni.projectcalico.org/podIPs": long } });
    await world.minutes(17);
    expect([world.released, world.duties.addresses.unread]).toEqual([["leak 1"], []]);
  });
});

describe("A look at the cluster", () => {
  it.each<[string, () => void, string]>([
    ["while a watch is lost", () => (world.api.followedSince = undefined), "are not complete"],
    ["before the first complete lists", () => (world.api.isSynced = false), "are not complete"],
    ["where the list of nodes is empty", () => ["node1", "node2"].map((node) => world.removeNode(node)), "which is not believed"],
  ])("is refused %s", async (_when, arrange, message) => {
    arrange();
    await expect(world.look()).rejects.toThrow(message);
    await expect(world.duties.addresses.work("handle x", new AbortController().signal)).rejects.toThrow(message);
  });

  it("that comes after a gap begins the times anew", async () => {
    await world.take("node1", "never-was");
    await world.minutes(14);
    world.api.followedSince = world.clock.now() + 1;
    await world.minutes(15);
    expect(world.released).toEqual([]);
    await world.minutes(1);
    expect(world.released).toEqual(["leak 1"]);
  });
});

describe("A node that is gone", () => {
  beforeEach(async () => {
    await world.addPodWithAddress("near", { node: "node1" });
    await world.take("node2", "far");
    await world.takeTunnel("node2");
  });

  it("loses pods' addresses, its tunnel's and its blocks after five minutes, and no other does", async () => {
    await world.minutes(3);
    world.removeNode("node2");
    await world.minutes(5);
    expect(Object.keys(await world.held())).toHaveLength(3);
    await world.minutes(1);
    expect(Object.keys(await world.held())).toEqual(["net1.near-c"]);
    expect((await world.blocks()).map((block) => block.split(" ")[0])).toEqual(["node1"]);
    expect(world.released).toEqual(["node 1", "node 1"]);
    expect(world.log.at(-1)).toBe("node node2 is gone: 2 addresses and 1 blocks were released, 0 addresses are kept");
    await world.minutes(10);
    expect(world.log.at(-1)).toContain("2 addresses and 1 blocks");
  });

  it("keeps everything when it comes back in time, and the time begins anew", async () => {
    world.removeNode("node2");
    await world.minutes(5);
    world.addNode("node2");
    await world.minutes(1);
    world.removeNode("node2");
    await world.minutes(5);
    expect(world.released).toEqual([]);
    await world.minutes(1);
    expect(world.released).toEqual(["node 1", "node 1"]);
  });

  it("keeps the addresses of pods and containers that may run, and its tunnel with them", async () => {
    await world.addPodWithAddress("stays", { node: "node2" });
    world.removeNode("node2");
    await world.minutes(10);
    expect(Object.keys(await world.held()).sort()).toEqual(["net1.near-c", "net1.stays-c", "vxlan-tunnel-addr-node2"]);
    expect(world.log).toContain("node node2 is gone: 1 addresses and 0 blocks were released, 2 addresses are kept");
    world.removePod("stays");
    await world.minutes(10);
    expect(Object.keys(await world.held())).toEqual(["net1.near-c"]);

    const other = ControllerWorld.withPool();
    await assignOne(other.allocator, "node2", "net1.container", { node: "node2" });
    await other.takeTunnel("node2");
    other.removeNode("node2");
    await other.minutes(20);
    expect(Object.keys(await other.held()).sort()).toEqual(["net1.container", "vxlan-tunnel-addr-node2"]);
    expect(other.log).toEqual([]);
  });

  it("keeps what the server itself has a pod for, and its tunnel with that", async () => {
    await world.take("node2", "slow");
    world.removeNode("node2");
    world.api.before = ({ path }) => {
      if (path.endsWith("/pods/slow")) world.addPod("slow", { node: "node2" });
    };
    await world.minutes(6);
    expect(Object.keys(await world.held()).sort()).toEqual(["net1.near-c", "net1.slow-c", "vxlan-tunnel-addr-node2"]);
    expect(world.log.at(-1)).toBe("node node2 is gone: 1 addresses and 0 blocks were released, 2 addresses are kept");
  });

  it("keeps everything when the server itself has it, and its return is told", async () => {
    world.removeNode("node2");
    const { request } = world.api;
    world.api.request = async (asked) => {
      if (!asked.path.endsWith("/nodes/node2")) return request.call(world.api, asked);
      return "{}";
    };
    await world.minutes(10);
    expect(world.released).toEqual([]);
    expect(await world.blocks()).toHaveLength(2);
    expect(world.log).toContain("node node2 exists although the watch does not show it: nothing more of it is touched");
  });

  it("that comes back while its pods are asked for keeps what is not released yet", async () => {
    world.removeNode("node2");
    world.api.before = ({ path }) => {
      if (path.endsWith("/pods/far")) world.addNode("node2");
    };
    await world.minutes(10);
    expect(Object.keys(await world.held()).sort()).toEqual(["net1.far-c", "net1.near-c", "vxlan-tunnel-addr-node2"]);
    expect(await world.blocks()).toHaveLength(2);
  });

  it("is not released while the server answers about it with an error", async () => {
    world.removeNode("node2");
    world.api.before = ({ path }) => {
      if (path.endsWith("/nodes/node2")) throw new ApiError("arranged", { status: 403 });
    };
    await world.minutes(5);
    await expect(world.minutes(1)).rejects.toThrow("arranged");
    expect(world.released).toEqual([]);
  });

  it("gives up its blocks without addresses, and leaves those in use by another node to them", async () => {
    const world = ControllerWorld.withPool();
    await world.take("node2", "far");
    const [block = ""] = (await world.blocks()).map((text) => text.split(" ")[1]);
    const borrowed = block.replace(/\d+\/29$/, (last) => String(Number.parseInt(last, 10) + 5));
    const attributes = { node: "node1", namespace: NAMESPACE, pod: "guest" };
    await world.allocator.assignIp({
      address: address(borrowed),
      handle: "net1.guest-c",
      attributes,
      owner: { type: "host", name: "node1" },
    });
    world.addPod("guest", { podIP: borrowed });
    world.removeNode("node2");
    await world.minutes(10);
    expect(await world.held()).toEqual({ "net1.guest-c": [borrowed] });
    expect(await world.blocks()).toEqual([`node2 ${block}`]);
  });

  it("is no matter of an item that is not due any more", async () => {
    const { signal } = new AbortController();
    await world.duties.addresses.work("node node1", signal);
    world.removeNode("node2");
    await world.minutes(3);
    await world.duties.addresses.work("node node2", signal);
    await world.duties.addresses.work("handle net1.far-c", signal);
    world.setReady(false);
    await world.duties.addresses.work("handle net1.far-c", signal);
    expect(world.released).toEqual([]);
  });
});
