/** Containers that no Kubernetes knows, with everything in etcd: the rows N of C§11.1, by the executables and judged by iproute2. */
import { startEtcd } from "../../support/etcd/etcd.ts";
import { EtcdNode } from "../../support/etcd/etcd-node.ts";
import { fresh, shared } from "../../support/fixtures.ts";

const PROFILE = "/calico/resources/v3/projectcalico.org/profiles/net1";
const HANDLE = "/calico/ipam/v2/handle/net1.cid1";
const HOST_LOCAL = { ipam: { type: "host-local", subnet: "10.0.0.0/8" } };

const etcd = shared(startEtcd);
const world = fresh(() => EtcdNode.create(etcd));

async function added(call: Parameters<EtcdNode["call"]>[2] = {}) {
  const pod = await world.node.addPod();
  const run = await world.call("ADD", pod, call);
  if (run.exit !== 0) throw new Error(run.stdout);
  return { pod, result: JSON.parse(run.stdout) };
}

const withoutRoutes = ({ routes, ...result }: Readonly<Record<string, unknown>>) => result;

describe("A container of a runtime without Kubernetes", () => {
  it("N1: gets an address of host-local, its endpoint and its network's profile, and a DEL leaves only the profile", async () => {
    const { pod, result } = await added({ keys: HOST_LOCAL });
    expect(result.ips).toEqual([{ address: expect.stringMatching(/^10\..*\/32$/), interface: 1 }]);
    const endpoint = await world.endpoint();
    const [podEnd] = await world.node.podIp(pod, "-j", "link", "show", "eth0");
    expect(endpoint?.spec).toEqual({
      orchestrator: "cni",
      node: "node1",
      containerID: "cid1",
      endpoint: "eth0",
      ipNetworks: [result.ips[0].address],
      profiles: ["net1"],
      interfaceName: "calicid1",
      mac: podEnd?.address,
    });
    expect(JSON.parse((await etcd.contents()).get(PROFILE) ?? "").spec).toEqual({
      egress: [{ action: "Allow" }],
      ingress: [{ action: "Allow", source: { selector: "has(net1)" } }],
      labelsToApply: { net1: "" },
    });
    expect((await world.call("DEL", pod, { keys: HOST_LOCAL })).exit).toBe(0);
    expect(await world.endpoint()).toBeUndefined();
    await world.node.expectClean();
    expect((await etcd.contents()).has(PROFILE)).toBe(true);
  });

  it.each([
    ["N3, N4: that is not ready", { datastoreReady: false }],
    ["N5, N6: without ClusterInformation", undefined],
  ])("%s refuses ADD and DEL, and serves the DEL when it is ready again", async (_, information) => {
    const { pod } = await added();
    await etcd.remove("/calico/resources/v3/projectcalico.org/clusterinformations/default");
    if (information !== undefined) await world.put("clusterinformations", "default", information);
    const other = await world.node.addPod();
    expect((await world.call("ADD", other, { containerId: "cid2" })).exit).toBe(1);
    expect((await world.call("DEL", pod)).exit).toBe(1);
    expect(await world.keys("ipam/v2/handle/")).toEqual([HANDLE]);
    await world.put("clusterinformations", "default", { datastoreReady: true });
    expect((await world.call("DEL", pod)).exit).toBe(0);
    expect(await world.keys("ipam/v2/handle/")).toEqual([]);
  });

  it("N2: takes the place of a link that has its name and no owner, and its DEL succeeds", async () => {
    await world.node.ip("link", "add", "calicid1", "type", "veth", "peer", "name", "peer0");
    const [before] = await world.node.ip("-j", "link", "show", "calicid1");
    const { pod } = await added();
    const [after] = await world.node.ip("-j", "link", "show", "calicid1");
    expect(after?.ifindex).not.toBe(before?.ifindex);
    expect((await world.call("DEL", pod)).exit).toBe(0);
    await world.node.expectClean();
    expect(await world.keys("ipam/v2/handle/")).toEqual([]);
  });

  it("N7: forwards where it is allowed to, and not otherwise", async () => {
    const allowed = await added({ containerId: "c1", keys: { container_settings: { allow_ip_forwarding: true } } });
    expect(await world.node.sysctl("net/ipv4/ip_forward", allowed.pod)).toBe("1");
    const ordinary = await added({ containerId: "c2" });
    expect(await world.node.sysctl("net/ipv4/ip_forward", ordinary.pod)).toBe("0");
  });

  it.each(["bogus", "grpc"])(
    "N8, N9, N10: is refused another dataplane (%s) before anything is taken, and its DEL succeeds",
    async (type) => {
      const pod = await world.node.addPod();
      const keys = { dataplane_options: { type, socket: "unix:///run/absent" } };
      const { exit, json } = await world.call("ADD", pod, { keys });
      expect({ exit, json }).toMatchObject({ exit: 1, json: { msg: expect.stringContaining(type) } });
      expect(await world.keys("ipam/v2/")).toEqual([]);
      await world.node.expectClean();
      expect((await world.call("DEL", pod, { keys })).exit).toBe(0);
    },
  );

  it("N20: is answered a second time when its host end has another name by now, and its handle stays", async () => {
    const { pod, result } = await added();
    await world.node.ip("link", "set", "calicid1", "down");
    await world.node.ip("link", "set", "calicid1", "name", "sali0");
    await world.node.ip("link", "set", "sali0", "up");
    const second = await world.call("ADD", pod);
    expect({ exit: second.exit, ips: JSON.parse(second.stdout).ips }).toEqual({ exit: 0, ips: result.ips });
    expect(await world.keys("ipam/v2/handle/")).toEqual([HANDLE]);
  });

  it("N21: is built again over a route to its address that is there already", async () => {
    const { pod, result } = await added();
    const [{ address }] = result.ips;
    await world.node.podIp(pod, "link", "delete", "eth0");
    await world.node.ip("link", "add", "calicid1", "type", "veth", "peer", "name", "peer0");
    await world.node.ip("link", "set", "calicid1", "up");
    await world.node.ip("route", "add", address, "dev", "calicid1", "scope", "link");
    const second = await world.call("ADD", pod);
    expect({ exit: second.exit, ips: JSON.parse(second.stdout).ips }).toEqual({ exit: 0, ips: result.ips });
    const routes = await world.node.ip("-j", "route", "show", address);
    expect(routes).toEqual([expect.objectContaining({ dev: "calicid1", scope: "link" })]);
  });

  it("N24: has a result with both ends, and one address that points to its own", async () => {
    world.node.excuse("host-local keeps its list outside of the machine's directory", "not-granted");
    const { pod, result } = await added({ keys: { ...HOST_LOCAL, cniVersion: "0.3.1" } });
    const [podEnd] = await world.node.podIp(pod, "-j", "link", "show", "eth0");
    expect(result.interfaces).toEqual([
      expect.objectContaining({ name: "calicid1" }),
      { name: "eth0", mac: podEnd?.address, sandbox: pod.netnsPath },
    ]);
    expect(result.ips).toEqual([{ version: "4", address: expect.stringMatching(/^10\./), interface: 1 }]);
  });

  it("N11, N12: is on the node that hostname names, unless nodename does", async () => {
    for (const node of ["named-hostname.somewhere", "by-nodename"]) await world.put("nodes", node, {});
    await added({ containerId: "c1", keys: { nodename: undefined, hostname: "named-hostname.somewhere" } });
    expect((await world.endpoint("c1", "default", "named-hostname.somewhere"))?.spec.node).toBe("named-hostname.somewhere");
    await added({ containerId: "c2", keys: { nodename: "by-nodename", hostname: "named-hostname.somewhere" } });
    expect((await world.endpoint("c2", "default", "by-nodename"))?.spec.node).toBe("by-nodename");
  });

  it("N13, N14: has no label of Mesos and DC/OS, and stays in its namespace", async () => {
    const labels = [
      { key: "k", value: "v" },
      { key: "DCOS_SPACE", value: "/a/b/c" },
      { key: "projectcalico.org/namespace", value: "other" },
    ];
    await added({ keys: { args: { "org.apache.mesos": { network_info: { labels: { labels } } } } } });
    expect((await world.endpoint())?.metadata.labels).toEqual({
      "projectcalico.org/namespace": "default",
      "projectcalico.org/orchestrator": "cni",
    });
    expect(await world.endpoint("cid1", "other")).toBeUndefined();
  });

  it("N15: is refused the feature of addresses without IPAM", async () => {
    const pod = await world.node.addPod();
    const { exit, stdout } = await world.call("ADD", pod, { keys: { feature_control: { ip_addrs_no_ipam: true } } });
    expect({ exit, stdout }).toMatchObject({ exit: 1, stdout: expect.stringContaining("ip_addrs_no_ipam") });
  });

  it("N16, N17: that was never added can be deleted, with a sandbox and without", async () => {
    const pod = await world.node.addPod();
    expect((await world.call("DEL", pod)).exit).toBe(0);
    expect((await world.call("DEL", undefined, { netns: "/var/run/netns/nowhere" })).exit).toBe(0);
  });

  it("N18, N19: keeps what it has at a second ADD, and a second network's profile joins", async () => {
    const { pod, result } = await added();
    expect(withoutRoutes(JSON.parse((await world.call("ADD", pod)).stdout))).toEqual(withoutRoutes(result));
    expect((await world.endpoint())?.spec.profiles).toEqual(["net1"]);
    const second = await world.call("ADD", pod, { keys: { name: "net2" } });
    expect(withoutRoutes(JSON.parse(second.stdout))).toEqual(withoutRoutes(result));
    expect((await world.endpoint())?.spec.profiles).toEqual(["net1", "net2"]);
    expect(await world.keys("ipam/v2/handle/")).toEqual([HANDLE]);
    expect((await world.keys("resources/v3/projectcalico.org/profiles/")).length).toBe(2);
  });

  it("N22, N23: is served by an etcd that -t finds, and not by a port where nobody listens", async () => {
    const probe = (endpoints: string) =>
      world.node.run([`${world.node.binDir}/calico`, "-t"], {
        env: { CNI_COMMAND: "VERSION" },
        stdin: JSON.stringify(world.conf({ etcd_endpoints: endpoints })),
      });
    expect(await probe(world.endpoints)).toMatchObject({ exit: 0, stdout: "" });
    const nobody = await probe("http://127.0.0.1:1");
    expect(nobody.exit).toBe(1);
    expect(JSON.parse(nobody.stdout)).toMatchObject({ code: 100, msg: "data store connection failed" });
  });

  it("gives its address back, and its endpoint goes, when GC does not list it; what is listed stays", async () => {
    await added({ containerId: "gone" });
    await added({ containerId: "kept" });
    const keys = { cniVersion: "1.1.0", "cni.dev/valid-attachments": [{ containerID: "kept", ifname: "eth0" }] };
    expect(await world.call("GC", undefined, { keys })).toMatchObject({ exit: 0 });
    expect(await world.keys("ipam/v2/handle/")).toEqual(["/calico/ipam/v2/handle/net1.kept"]);
    expect(await world.endpoint("gone")).toBeUndefined();
    expect(await world.endpoint("kept")).toMatchObject({ spec: { containerID: "kept" } });
  });

  it("many at once get one address each, and all are given back", async () => {
    const pods = await Promise.all(Array.from({ length: 12 }, () => world.node.addPod()));
    const runs = await Promise.all(pods.map((pod, index) => world.call("ADD", pod, { containerId: `c${index}` })));
    const addresses = runs.map(({ stdout }) => JSON.parse(stdout).ips[0].address);
    expect(new Set(addresses).size).toBe(12);
    const ends = await Promise.all(pods.map((pod, index) => world.call("DEL", pod, { containerId: `c${index}` })));
    expect(ends.map(({ exit }) => exit)).toEqual(ends.map(() => 0));
    expect(await world.keys("ipam/v2/handle/")).toEqual([]);
  });
});
