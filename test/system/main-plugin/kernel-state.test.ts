/** What an ADD leaves in the kernel, field by field (C§4.2-4.4), as iproute2 and /proc show it on both sides. */
import { prefixesOf } from "../../support/cni-result.ts";
import { dualIpam, localConf, podArgs } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { type JsonRecord, Node, type Pod } from "../../support/node.ts";

/** SHA-1 of "default.podA" gives this name (C§4.1). */
const HOST_END = "cali7f94ce7c295";
const HOST_LINK_LOCAL = "fe80::ecee:eeff:feee:eeee";

async function added(node: Node, pod: Pod, families: "4" | "6" | "46", change: Record<string, unknown> = {}): Promise<JsonRecord> {
  const run = await node.cni("ADD", { pod, conf: localConf(node, { ipam: dualIpam(families), ...change }), args: podArgs("podA") });
  expect(run.stderr).not.toMatch(/panic|failed/i);
  expect({ exit: run.exit, stdout: run.stdout }).toMatchObject({ exit: 0 });
  return run.json as JsonRecord;
}

const bare = (address: string) => address.replace(/\/.*/, "");

const node = fresh(Node.create);
const pod = fresh(() => node.addPod());

describe("The host end of an attachment", () => {
  it("is a veth named after the pod, with Calico's MAC, an alias that tells its owner, and both ends up", async () => {
    await added(node, pod, "4");

    const [link] = await node.ip("-j", "-d", "link", "show", HOST_END);
    expect(link).toMatchObject({
      address: "ee:ee:ee:ee:ee:ee",
      mtu: 1500,
      operstate: "UP",
      num_tx_queues: 1,
      num_rx_queues: 1,
      ifalias: "tortie:net1/cid1/eth0/default/podA",
      linkinfo: { info_kind: "veth" },
    });
    // iproute2 leaves a queue length of 0 out.
    expect(link).not.toHaveProperty("txqlen");
    const [peer] = await node.podIp(pod, "-j", "-d", "link", "show", "eth0");
    expect(peer).toMatchObject({ mtu: 1500, operstate: "UP", txqlen: 1000, linkinfo: { info_kind: "veth" } });
    expect(peer?.address).not.toBe("ee:ee:ee:ee:ee:ee");
  });

  it("has one link-scope host route to the IPv4 address and the sysctls of proxy ARP", async () => {
    const [address = ""] = prefixesOf(await added(node, pod, "4"));

    expect(await node.ip("-j", "-d", "-4", "route", "show", "table", "main")).toEqual([
      { type: "unicast", dst: bare(address), dev: HOST_END, protocol: "boot", scope: "link", flags: [] },
    ]);
    expect(await hostSysctls(node, "ipv4")).toEqual({ route_localnet: "1", proxy_arp: "1", forwarding: "1" });
    expect(await node.sysctl(`net/ipv4/neigh/${HOST_END}/proxy_delay`)).toBe("0");
    expect(await node.sysctl(`net/ipv6/conf/${HOST_END}/accept_ra`)).toBe("0");
  });

  it("has one host route and the sysctls of proxy NDP for an IPv6-only pod", async () => {
    const [address = ""] = prefixesOf(await added(node, pod, "6"));

    expect(await node.ip("-j", "-4", "route", "show", "table", "main")).toEqual([]);
    const routes = await node.ip("-j", "-d", "-6", "route", "show", "table", "main");
    expect(routes.filter(({ protocol }) => protocol !== "kernel")).toEqual([
      { type: "unicast", dst: bare(address), dev: HOST_END, protocol: "boot", scope: "global", metric: 1024, flags: [], pref: "medium" },
    ]);
    const ipv6 = `net/ipv6/conf/${HOST_END}`;
    for (const [name, value] of Object.entries({ accept_dad: "0", disable_ipv6: "0", proxy_ndp: "1", forwarding: "1", accept_ra: "0" })) {
      expect([name, await node.sysctl(`${ipv6}/${name}`)]).toEqual([name, value]);
    }
    expect((await node.ip("-j", "-6", "address", "show", "dev", HOST_END)).flatMap((link) => link.addr_info as JsonRecord[])).toMatchObject(
      [{ local: HOST_LINK_LOCAL, prefixlen: 64, scope: "link" }],
    );
  });
});

describe("The pod end of an attachment", () => {
  it("has its IPv4 address as /32 and reaches everything through 169.254.1.1", async () => {
    const [address = ""] = prefixesOf(await added(node, pod, "4"));

    expect(address).toMatch(/\/32$/);
    expect(await podAddresses(node, pod)).toMatchObject([{ family: "inet", local: bare(address), prefixlen: 32, scope: "global" }]);
    expect(await node.podIp(pod, "-j", "-d", "-4", "route", "show", "table", "main")).toEqual([
      { type: "unicast", dst: "default", gateway: "169.254.1.1", dev: "eth0", protocol: "boot", scope: "global", flags: [] },
      { type: "unicast", dst: "169.254.1.1", dev: "eth0", protocol: "boot", scope: "link", flags: [] },
    ]);
    expect(await node.podIp(pod, "-j", "neigh", "show", "nud", "permanent")).toMatchObject([
      { dst: "169.254.1.1", dev: "eth0", lladdr: "ee:ee:ee:ee:ee:ee" },
    ]);
    expect(await node.sysctl("net/ipv4/ip_forward", pod)).toBe("0");
  });

  it("has its IPv6 address as /128, never tentative, and reaches everything through the host's link-local address", async () => {
    const [address = ""] = prefixesOf(await added(node, pod, "6"));

    expect(address).toMatch(/\/128$/);
    const global = (await podAddresses(node, pod)).filter(({ scope }) => scope === "global");
    expect(global).toMatchObject([{ family: "inet6", local: bare(address), prefixlen: 128 }]);
    expect(await node.podIp(pod, "-j", "-6", "address", "show", "tentative")).toEqual([]);
    const routes = await node.podIp(pod, "-j", "-6", "route", "show", "table", "main");
    expect(routes).toContainEqual(
      expect.objectContaining({ dst: "default", gateway: HOST_LINK_LOCAL, dev: "eth0", metric: 1024, pref: "medium" }),
    );
    expect(routes).toContainEqual(expect.objectContaining({ dst: bare(address), dev: "eth0", protocol: "kernel", metric: 256 }));
    expect(await node.sysctl("net/ipv6/conf/eth0/accept_dad", pod)).toBe("0");
    expect(await node.sysctl("net/ipv6/conf/all/forwarding", pod)).toBe("0");
  });

  it("has both families, IPv4 first, and each its host route", async () => {
    const [four = "", six = ""] = prefixesOf(await added(node, pod, "46"));

    expect([four, six]).toEqual([expect.stringMatching(/^10\.244\..*\/32$/), expect.stringMatching(/^fd44:.*\/128$/)]);
    const host = [
      ...(await node.ip("-j", "-4", "route", "show", "dev", HOST_END)),
      ...(await node.ip("-j", "-6", "route", "show", "dev", HOST_END, "protocol", "boot")),
    ];
    expect(host.map(({ dst }) => dst)).toEqual([bare(four), bare(six)]);
  });

  it("forwards when the configuration allows it, has the MTU and the queues asked for, and tells the MTU in the result", async () => {
    const result = await added(node, pod, "46", { container_settings: { allow_ip_forwarding: true }, mtu: 1400, num_queues: 4 });

    expect(await node.sysctl("net/ipv4/ip_forward", pod)).toBe("1");
    expect(await node.sysctl("net/ipv6/conf/all/forwarding", pod)).toBe("1");
    for (const [link] of [await node.ip("-j", "-d", "link", "show", HOST_END), await node.podIp(pod, "-j", "-d", "link", "show", "eth0")]) {
      expect(link).toMatchObject({ mtu: 1400, num_tx_queues: 4, num_rx_queues: 4 });
    }
    expect(result.interfaces).toMatchObject([{ name: HOST_END }, { name: "eth0", mtu: 1400, sandbox: pod.netnsPath }]);
  });

  it.each([
    ["the runtime's mac capability", { runtimeConfig: { mac: "CA-FE-CA-FE-CA-FE" } }, ""],
    ["CNI_ARGS", {}, ";MAC=ca:fe:ca:fe:ca:fe"],
  ])("gets the MAC that %s asks for", async (_, change, args) => {
    const run = await node.cni("ADD", { pod, conf: localConf(node, change), args: podArgs("podA") + args });

    expect(run.json).toMatchObject({ interfaces: [{}, { mac: "ca:fe:ca:fe:ca:fe" }] });
    expect(await node.podIp(pod, "-j", "link", "show", "eth0")).toMatchObject([{ address: "ca:fe:ca:fe:ca:fe" }]);
  });

  it.each([
    ["the runtime's ips capability", { runtimeConfig: { ips: ["10.244.9.9/16"] } }, ""],
    ["CNI_ARGS", {}, ";IP=10.244.9.9"],
  ])("gets the address that %s asks for", async (_, change, args) => {
    const run = await node.cni("ADD", { pod, conf: localConf(node, change), args: podArgs("podA") + args });

    expect(run.json).toMatchObject({ ips: [{ address: "10.244.9.9/32" }] });
    expect(await podAddresses(node, pod)).toMatchObject([{ local: "10.244.9.9" }]);
  });
});

describe("DEL", () => {
  it("leaves no link, route or address, and repeating it succeeds silently", async () => {
    await added(node, pod, "46");
    for (let i = 0; i < 3; i++) {
      const run = await node.cni("DEL", { pod, conf: localConf(node, { ipam: dualIpam("46") }), args: podArgs("podA") });
      expect(run).toMatchObject({ exit: 0, stdout: "" });
    }
    await node.expectClean();
    expect(await node.podIp(pod, "-j", "link", "show")).toHaveLength(1);
  });

  it("removes the host end even when the sandbox is not named any more", async () => {
    await added(node, pod, "4");
    const run = await node.cni("DEL", { netns: "", conf: localConf(node), args: podArgs("podA") });

    expect(run).toMatchObject({ exit: 0, stdout: "" });
    await node.expectClean();
  });

  it("of an old sandbox leaves the link, the address and the record of the pod's new sandbox alone", async () => {
    const [first, second] = [await node.addPod(), await node.addPod()];
    const conf = localConf(node);
    await node.cni("ADD", { pod: first, containerId: "old", conf, args: podArgs("podA") });
    const kept = await node.cni("ADD", { pod: second, containerId: "new", conf, args: podArgs("podA") });
    const [address = ""] = prefixesOf(kept.json);

    expect(await node.cni("DEL", { pod: first, containerId: "old", conf, args: podArgs("podA") })).toMatchObject({ exit: 0 });

    expect(await node.ip("-j", "route", "show", bare(address))).toMatchObject([{ dst: bare(address), dev: HOST_END }]);
    expect((await podAddresses(node, second)).map(({ local }) => local)).toContain(bare(address));
    const check = localConf(node, { prevResult: kept.json });
    expect(await node.cni("CHECK", { pod: second, containerId: "new", conf: check, args: podArgs("podA") })).toMatchObject({
      exit: 0,
      stdout: "",
    });
  });
});

async function podAddresses(node: Node, pod: Pod): Promise<JsonRecord[]> {
  return (await node.podIp(pod, "-j", "address", "show", "dev", "eth0"))
    .flatMap((link) => link.addr_info as JsonRecord[])
    .filter(({ scope }) => scope === "global");
}

async function hostSysctls(node: Node, family: "ipv4"): Promise<Record<string, string | undefined>> {
  const names = ["route_localnet", "proxy_arp", "forwarding"];
  const values = await Promise.all(names.map((name) => node.sysctl(`net/${family}/conf/${HOST_END}/${name}`)));
  return Object.fromEntries(names.map((name, i) => [name, values[i]]));
}
