/** Pods whose addresses come from host-local: rows K1 to K14 of C§11.2, wherever Calico's objects are. */
import { fresh, shared } from "../../support/fixtures.ts";
import type { ApiServerNode, CniOutput } from "../../support/kubernetes/api-server-node.ts";
import { ALL_STORES, BOTH_STORES, PodStores } from "../../support/kubernetes/pod-stores.ts";

/** SHA-1 of "test.pod" (C§4.1). */
const HOST_END = `cali${new Bun.CryptoHasher("sha1").update("test.pod").digest("hex").slice(0, 11)}`;
const GATEWAY6 = "fe80::ecee:eeff:feee:eeee";

const stores = shared(PodStores.start);

function hostLocal(node: ApiServerNode, section: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return { type: "host-local", dataDir: `${node.node.dir}/host-local`, ...section };
}

const addressesOf = ({ ips }: CniOutput) => ips.map(({ address }) => address);
const bare = (address = "") => address.replace(/\/.*/, "");

describe.each(ALL_STORES)("A pod with host-local, %s", (store) => {
  it("K1: is networked as the contract says, and DEL takes it all away", async () => {
    await using node = await stores.node(store, { pods: ["pod"] });
    const ipam = hostLocal(node, { subnet: "10.0.0.0/8" });
    const sandbox = await node.sandbox();

    const result = await node.add({ conf: { ipam } });

    const [address = ""] = addressesOf(result);
    expect(address).toMatch(/^10\..*\/32$/);
    const { labels, ...endpoint } = (await node.endpoint()) ?? { labels: {} };
    expect(labels).toEqual({
      "projectcalico.org/namespace": "test",
      "projectcalico.org/orchestrator": "k8s",
      "projectcalico.org/serviceaccount": "default",
    });
    expect(endpoint).toMatchObject({
      name: "node1-k8s-pod-eth0",
      pod: "pod",
      interfaceName: HOST_END,
      serviceAccountName: "default",
      ipNetworks: [address],
      profiles: ["kns.test", "ksa.test.default"],
      node: "node1",
      endpoint: "eth0",
      containerID: "c1",
      orchestrator: "k8s",
      ports: [],
      ipNATs: [],
    });
    const [link] = await node.node.ip("-j", "link", "show", HOST_END);
    expect(link).toMatchObject({ mtu: 1500, operstate: "UP", address: "ee:ee:ee:ee:ee:ee" });
    const ipv4 = `net/ipv4/conf/${HOST_END}`;
    for (const [path, value] of [
      [`${ipv4}/proxy_arp`, "1"],
      [`${ipv4}/route_localnet`, "1"],
      [`${ipv4}/forwarding`, "1"],
      [`net/ipv4/neigh/${HOST_END}/proxy_delay`, "0"],
      [`net/ipv6/conf/${HOST_END}/accept_ra`, "0"],
    ]) {
      expect([path, await node.node.sysctl(String(path))]).toEqual([path, value]);
    }
    expect(await node.node.sysctl("net/ipv4/ip_forward", sandbox)).toBe("0");
    expect(await node.node.ip("-j", "-d", "-4", "route", "show")).toEqual([
      { type: "unicast", dst: bare(address), dev: HOST_END, protocol: "boot", scope: "link", flags: [] },
    ]);
    expect(await node.podAddresses()).toEqual([address]);
    expect(await node.podRoutes()).toEqual(["default via 169.254.1.1", "169.254.1.1"]);
    // Felix answers the pod's neighbour questions; nothing is written in advance on Kubernetes.
    expect(await node.node.podIp(sandbox, "-j", "neigh", "show", "nud", "permanent")).toEqual([]);

    await node.del({ conf: { ipam } });

    await node.expectNothingLeft("pod");
    expect((await node.node.podIp(sandbox, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
  });

  it("K7: gets IPv4 and IPv6 from ranges, one of them the node's pod CIDR", async () => {
    await using node = await stores.node(store);
    await node.podCidrs("10.0.0.0/24");
    const ipam = hostLocal(node, { ranges: [[{ subnet: "usePodCidr" }], [{ subnet: "dead:beef::/96" }]] });
    const conf = { cniVersion: "0.3.1", ipam };
    await expectStableAddress(node, conf);

    const sandbox = await node.sandbox("again");
    expect(await node.podRoutes(sandbox)).toEqual(["default via 169.254.1.1", "169.254.1.1", `default via ${GATEWAY6}`]);
    expect(await node.node.sysctl("net/ipv6/conf/eth0/accept_dad", sandbox)).toBe("0");
    expect(await node.node.podIp(sandbox, "-j", "-6", "address", "show", "tentative")).toEqual([]);
    expect(await node.podAddresses(sandbox)).toEqual(["10.0.0.42/32", expect.stringMatching(/^dead:beef::.*\/128$/)]);
  });
});

/** ADD with `IP=…42`, DEL, and ADD again for a second pod, which stays: the same address both times. */
async function expectStableAddress(node: ApiServerNode, conf: Readonly<Record<string, unknown>>, ip = "10.0.0.42"): Promise<CniOutput> {
  await node.pod("pod");
  await node.pod("again");
  const first = await node.add({ conf, args: `;IP=${ip}` });
  expect(addressesOf(first)[0]).toBe(`${ip}/32`);
  await node.del({ conf, args: `;IP=${ip}` });
  await node.expectNothingLeft("pod");

  const again = { pod: "again", container: "c2", sandbox: await node.sandbox("again"), conf, args: `;IP=${ip}` };
  const second = await node.add(again);
  expect(addressesOf(second)[0]).toBe(`${ip}/32`);
  return second;
}

describe.each(BOTH_STORES)("A pod with host-local as the IPAM plugin, %s", (store) => {
  const node = fresh(() => stores.node(store));

  it("K2: shows its named port to readers of endpoints", async () => {
    await node.pod("pod", { ports: [{ name: "anamedport", containerPort: 555 }] });
    await node.add({ conf: { ipam: hostLocal(node, { subnet: "10.0.0.0/8" }) } });

    expect((await node.endpoint())?.ports).toEqual([{ name: "anamedport", protocol: "TCP", port: 555, hostPort: 0, hostIP: "" }]);
  });

  it("K3: replaces a host link that is in the way", async () => {
    await node.pod("pod");
    await node.node.ip("link", "add", HOST_END, "type", "veth", "peer", "name", "peer");
    const conf = { ipam: hostLocal(node, { subnet: "10.0.0.0/8" }) };

    await node.add({ conf });
    await node.del({ conf });

    await node.expectNothingLeft("pod");
  });

  it("K4: takes its MTU from the node agent's file", async () => {
    await using node = await stores.node(store, { node: { binds: { "/var/lib/calico": "calico" } } });
    await Bun.write(`${node.node.dir}/calico/mtu`, "3000");
    await node.pod("pod");
    const result = await node.add({ conf: { ipam: hostLocal(node, { subnet: "10.0.0.0/8" }) } });

    expect(result.interfaces[1]).toMatchObject({ mtu: 3000 });
    expect(await node.node.podIp(await node.sandbox(), "-j", "link", "show", "eth0")).toMatchObject([{ mtu: 3000 }]);
  });

  it("K5: takes its MTU from the configuration", async () => {
    const ipam = hostLocal(node, { subnet: "10.0.0.0/8" });
    for (const mtu of [3000, 4000]) {
      await node.pod(`pod${mtu}`);
      const sandbox = await node.sandbox(`pod${mtu}`);
      await node.add({ pod: `pod${mtu}`, container: `c${mtu}`, sandbox, conf: { ipam, mtu } });
      expect(await node.node.podIp(sandbox, "-j", "link", "show", "eth0")).toMatchObject([{ mtu }]);
    }
  });

  it.each([
    ["K6, one pod CIDR", ["10.0.0.0/24"], "10.0.0.42"],
    ["K10, two pod CIDRs", ["10.10.0.0/24", "dead:beef::/96"], "10.10.0.42"],
  ])("%s: gets the address it asks for in the inline subnet", async (_, cidrs, ip) => {
    await node.podCidrs(...cidrs);
    await expectStableAddress(node, { ipam: hostLocal(node, { subnet: "usePodCidr" }) }, ip);

    const sandbox = await node.sandbox("again");
    expect(await node.podAddresses(sandbox)).toEqual([`${ip}/32`]);
    expect(await node.podRoutes(sandbox)).toEqual(["default via 169.254.1.1", "169.254.1.1"]);
  });

  it.each([
    ["K11, two pod CIDRs and one keyword", ["10.10.0.0/24", "dead:beef::/96"], "dead:beef::/96", "10.10.0.42"],
    ["K14, two pod CIDRs and two keywords", ["10.10.0.0/24", "dead:beef::/96"], "usePodCidrIPv6", "10.10.0.42"],
  ])("%s: gets an address of each family", async (_, cidrs, subnet6, ip) => {
    await node.podCidrs(...cidrs);
    const ipam = hostLocal(node, { ranges: [[{ subnet: "usePodCidr" }], [{ subnet: subnet6 }]] });
    await expectStableAddress(node, { cniVersion: "0.3.1", ipam }, ip);

    const sandbox = await node.sandbox("again");
    expect(await node.podAddresses(sandbox)).toEqual([`${ip}/32`, expect.stringMatching(/^dead:beef::.*\/128$/)]);
    expect(await node.podRoutes(sandbox)).toEqual(["default via 169.254.1.1", "169.254.1.1", `default via ${GATEWAY6}`]);
  });

  it.each([
    ["K8, one pod CIDR", ["10.0.0.0/24"], "10.0.0.42", false],
    ["K9, one pod CIDR and the default routes", ["10.0.0.0/24"], "10.0.0.42", true],
    ["K12, two pod CIDRs", ["10.10.0.0/24", "dead:beef::/96"], "10.10.0.42", false],
    ["K13, two pod CIDRs and the default routes", ["10.10.0.0/24", "dead:beef::/96"], "10.10.0.42", true],
  ])("%s: gets the configured routes", async (_, cidrs, ip, withDefaults) => {
    await node.podCidrs(...cidrs);
    const ipam = hostLocal(node, {
      ranges: [[{ subnet: "usePodCidr" }], [{ subnet: "10.123.0.0/24" }], [{ subnet: "dead:beef::/96" }]],
      routes: [{ dst: "10.123.0.0/16", gw: "10.123.0.1" }, { dst: "10.124.0.0/16" }, { dst: "dead:beef::/96" }],
    });
    await expectStableAddress(node, { cniVersion: "0.3.1", ipam, ...(withDefaults ? { include_default_routes: true } : {}) }, ip);

    const sandbox = await node.sandbox("again");
    const addresses = await node.podAddresses(sandbox);
    expect(addresses).toHaveLength(3);
    expect(await node.podRoutes(sandbox)).toEqual([
      ...(withDefaults ? ["default via 169.254.1.1"] : []),
      "10.123.0.0/16 via 169.254.1.1",
      "10.124.0.0/16 via 169.254.1.1",
      "169.254.1.1",
      `dead:beef::/96 via ${GATEWAY6}`,
      ...(withDefaults ? [`default via ${GATEWAY6}`] : []),
    ]);
    expect((await node.hostRoutes()).sort()).toEqual(addresses.map(bare).sort());
  });

  it("is refused by name when the node has no pod CIDR", async () => {
    await node.pod("pod");
    const conf = { ipam: hostLocal(node, { subnet: "usePodCidr" }) };

    expect(await node.refusal("ADD", { conf })).toContain("no podCidr for node node1");
    expect(await node.refusal("ADD", { conf: { ...conf, kubernetes: { kubeconfig: node.kubeconfig, node_name: "other" } } })).toContain(
      'nodes "other" not found',
    );
    await node.del({ conf });
    await node.expectNothingLeft("pod");
  });
});
