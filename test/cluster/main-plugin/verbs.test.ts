/** CHECK and GC of pods on a real server (CNI 1.1.0), with nothing but the plugins' own role. */
import { fresh, shared } from "../../support/fixtures.ts";
import { ApiServerNode } from "../../support/kubernetes/api-server-node.ts";
import type { FaultProxy } from "../../support/kubernetes/fault-proxy.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { REFERENCE_PLUGINS_DIR } from "../../support/node.ts";

const CONF = { cniVersion: "1.1.0" };

const cluster = shared(startCluster);

const node = fresh(() => ApiServerNode.create(cluster, { pools: ["10.60.0.0/26"], pods: ["pod"] }));

describe("CHECK of a pod", () => {
  it("finds everything in its place after ADD, and names what was changed behind its back", async () => {
    const prevResult = await node.add({ conf: CONF });
    const conf = { ...CONF, prevResult };
    expect(await node.call("CHECK", { conf })).toMatchObject({ exit: 0, stdout: "" });

    await node.node.ip("route", "del", String(prevResult.ips[0]?.address));
    expect(await node.refusal("CHECK", { conf })).toContain("host route");
    await node.pod("pod", {
      annotations: { "cni.projectcalico.org/containerID": "newer", "cni.projectcalico.org/podIPs": "10.60.0.9/32" },
    });
    expect(await node.refusal("CHECK", { conf })).toContain("found container newer");
  });

  it("knows the addresses of annotations, whose result has no routes", async () => {
    await node.pod("fixed", { annotations: { "cni.projectcalico.org/ipAddrs": '["10.60.0.9"]' } });
    await node.pod("own", { annotations: { "cni.projectcalico.org/ipAddrsNoIpam": '["10.99.0.9"]' } });
    for (const pod of ["fixed", "own"]) {
      const call = await node.callOf(pod);
      const conf = { ...CONF, feature_control: { ip_addrs_no_ipam: true } };
      const prevResult = await node.add({ ...call, conf });
      expect(await node.call("CHECK", { ...call, conf: { ...conf, prevResult } })).toMatchObject({ exit: 0, stdout: "" });
      await node.node.ip("route", "del", String(prevResult.ips[0]?.address));
      expect(await node.refusal("CHECK", { ...call, conf: { ...conf, prevResult } })).toContain("host route");
    }
  });
});

describe("CHECK as CRI-O calls it", () => {
  const calico = { cniVersion: "1.0.0" };

  it("F4: accepts the interface of a pod that Calico's plugin attached, as its recordings have it", async () => {
    const prevResult = await node.add({ conf: calico });
    const host = String(prevResult.interfaces[0]?.name);
    const address = String(prevResult.ips[0]?.address);
    const sandbox = await node.sandbox();
    // test/golden/recordings/main: no alias on either end, host route and next hop by `ip route`, no neighbour.
    await node.node.ip("link", "del", host);
    await node.node.ip("link", "add", host, "address", "ee:ee:ee:ee:ee:ee", "type", "veth", "peer", "name", "eth0", "netns", sandbox.name);
    await node.node.ip("link", "set", host, "up");
    for (const command of [
      "link set eth0 up",
      "route add 169.254.1.1/32 dev eth0 scope link",
      "route add default via 169.254.1.1 dev eth0",
      `address add ${address} dev eth0`,
    ]) {
      await node.node.podIp(sandbox, ...command.split(" "));
    }
    await node.node.ip("route", "add", address, "dev", host, "scope", "link");
    const interfaces = prevResult.interfaces.map(({ mac: _, ...link }) => link);

    const run = await node.call("CHECK", { conf: { ...calico, prevResult: { ...prevResult, interfaces } } });

    expect(run).toMatchObject({ exit: 0, stdout: "" });
  });

  it("F4: accepts the MAC, the MTU and the settings that the plugin tuning gave the pod", async () => {
    const prevResult = await node.add({ conf: calico });
    const sandbox = await node.sandbox();
    const sysctl = { "net.ipv4.ip_forward": "1", "net.ipv4.conf.eth0.rp_filter": "2" };
    const tuning = { ...calico, name: "net1", type: "tuning", mtu: 1300, mac: "02:11:22:33:44:55", sysctl, prevResult };
    const tuned = await node.node.cni("ADD", { plugin: `${REFERENCE_PLUGINS_DIR}/tuning`, containerId: "c1", pod: sandbox, conf: tuning });
    expect(tuned).toMatchObject({ exit: 0 });
    expect((await node.node.podIp(sandbox, "-j", "link", "show", "eth0"))[0]).toMatchObject({ mtu: 1300, address: tuning.mac });

    expect(await node.call("CHECK", { conf: { ...calico, prevResult: tuned.json } })).toMatchObject({ exit: 0, stdout: "" });

    await node.node.podIp(sandbox, "link", "set", "eth0", "address", "02:11:22:33:44:66");
    expect(await node.refusal("CHECK", { conf: { ...calico, prevResult: tuned.json } })).toContain("MAC: wanted 02:11:22:33:44:55");
  });

  it.each([
    ["refuses connections", (proxy: FaultProxy) => proxy.refuse()],
    ["says nothing", (proxy: FaultProxy) => proxy.on({ times: Number.POSITIVE_INFINITY }, { kind: "hang" })],
  ])("F4: accepts a good pod while the API server %s, and still names a damaged one", async (_, stop) => {
    await using proxy = await cluster.proxy();
    await using node = await ApiServerNode.create(cluster, { via: proxy, pools: ["10.60.0.0/26"], pods: ["pod"] });
    const prevResult = await node.add({ conf: calico });
    const conf = { ...calico, prevResult };
    stop(proxy);

    expect(await node.call("CHECK", { conf })).toMatchObject({ exit: 0, stdout: "", stderr: expect.stringContaining("not compared") });

    await node.node.ip("route", "del", String(prevResult.ips[0]?.address));
    expect(await node.refusal("CHECK", { conf })).toContain("host route");
  });
});

describe("GC on a node of a cluster", () => {
  it("removes links and addresses of containers that the runtime does not list, and nothing else", async () => {
    await node.pod("lost");
    await node.pod("elsewhere", { node: "node2" });
    await node.add();
    await node.add(await node.callOf("lost", "c2"));
    await cluster.createNode("node2");
    await node.add({ ...(await node.callOf("elsewhere", "c3")), conf: { nodename: "node2" } });
    const mark = await cluster.mark();

    const valid = [
      { containerID: "c1", ifname: "eth0" },
      { containerID: "c3", ifname: "eth0" },
    ];
    const conf = { ...CONF, "cni.dev/valid-attachments": valid };
    expect(await node.call("GC", { container: "", conf })).toMatchObject({ exit: 0, stdout: "" });

    expect(Object.keys(await node.held()).sort()).toEqual(["net1.c1", "net1.c3"]);
    expect((await node.node.leftovers()).links).toHaveLength(2);
    expect((await cluster.requests(mark)).filter(({ verb, uri }) => verb === "list" && uri.includes("/pods"))).toEqual([]);
  });

  it("F2: blanks the annotations of what it collects, and those of a pod that has a newer container stay", async () => {
    await node.pod("lost");
    await node.add();
    await node.add(await node.callOf("lost", "c2"));
    await node.pod("pod", { annotations: { "cni.projectcalico.org/containerID": "newer" } });

    expect(await node.call("GC", { container: "", conf: { ...CONF, "cni.dev/valid-attachments": [] } })).toMatchObject({ exit: 0 });

    await node.expectNothingLeft("lost");
    expect(await node.annotations("lost")).toMatchObject({ containerID: "c2", podIP: "", podIPs: "" });
    expect(await node.annotations()).toMatchObject({ containerID: "newer" });
    expect((await node.annotations()).podIPs).not.toBe("");
  });

  it("leaves addresses of other nodes alone, without a question for each of them", async () => {
    await cluster.createNode("node2");
    await node.add({ container: "c3", conf: { nodename: "node2" } });
    await node.node.ip("link", "del", String((await node.node.leftovers()).links[0]));
    const mark = await cluster.mark();

    expect(await node.call("GC", { container: "", conf: { ...CONF, "cni.dev/valid-attachments": [] } })).toMatchObject({ exit: 0 });

    const requests = (await cluster.requests(mark)).map(({ verb, uri }) => `${verb} ${uri}`);
    expect(requests.filter((request) => request.startsWith("get"))).toEqual([expect.stringContaining("clusterinformations")]);
    expect(Object.keys(await node.held())).toEqual(["net1.c3"]);
  });
});

describe("M1: DEL of a pod whose namespace and name spell another one's handle", () => {
  it("leaves the address of that other pod where it is", async () => {
    // A network that is called like a namespace of tenants.
    const conf = { name: "test" };
    await node.add({ conf });
    const held = await node.held();
    expect(Object.keys(held)).toEqual(["test.c1"]);
    await node.pod("c1");
    const attacker = { ...(await node.callOf("c1", "attacker")), conf };
    await node.add(attacker);
    expect(await node.call("DEL", attacker)).toMatchObject({ exit: 0 });
    expect(await node.held()).toEqual(held);
  });
});
