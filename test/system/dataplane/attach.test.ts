import { NO_NODE_STATE } from "../../../dataplane/dataplane.ts";
import { apply, expressionOf, probe } from "../../support/dataplane-probe.ts";
import { desiredFor, HOST_INTERFACE } from "../../support/desired-state.ts";
import { fresh } from "../../support/fixtures.ts";
import { kernelView } from "../../support/kernel-view.ts";
import type { Pod } from "../../support/node.ts";
import { Node } from "../../support/node.ts";

const BOTH = ["10.60.0.0/32", "fd60::/128"];
/** Of kernel-made pod link-locals only the prefix is known. */
const POD_LINK_LOCAL = expect.stringMatching(/^fe80::.*\/64$/);

async function views(node: Node, pod: Pod) {
  return { host: await kernelView(node, HOST_INTERFACE), pod: await kernelView(node, "eth0", pod) };
}

const LINK = {
  mtu: 1500,
  num_tx_queues: 1,
  num_rx_queues: 1,
  operstate: "UP",
  flags: ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
  group: "default",
  kind: "veth",
};
const HOST_LINK = { ...LINK, ifname: HOST_INTERFACE, address: "ee:ee:ee:ee:ee:ee", txqlen: 0, ifalias: "tortie:net1/cid1/eth0" };
const POD_LINK = { ...LINK, ifname: "eth0", address: expect.stringMatching(/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/), txqlen: 1000 };
const HOST_LINK_LOCAL = { dev: HOST_INTERFACE, address: "fe80::ecee:eeff:feee:eeee/64", flags: [], scope: "link" };
const unicast = { type: "unicast", flags: [] };
const kernel6 = (dst: string, dev: string) => ({ ...unicast, dst, dev, protocol: "kernel", scope: "global", metric: 256, pref: "medium" });
const POD_ROUTES4 = [
  { ...unicast, dst: "default", gateway: "169.254.1.1", dev: "eth0", protocol: "boot", scope: "global" },
  { ...unicast, dst: "169.254.1.1", dev: "eth0", protocol: "boot", scope: "link" },
];
const POD_ADDRESS4 = { dev: "eth0", address: "10.60.0.0/32", flags: [], scope: "global", label: "eth0" };
const POD_ADDRESS6 = { dev: "eth0", address: "fd60::/128", flags: [], scope: "global" };
const POD_ROUTES6 = [
  kernel6("fd60::", "eth0"),
  kernel6("fe80::/64", "eth0"),
  {
    ...unicast,
    dst: "default",
    gateway: "fe80::ecee:eeff:feee:eeee",
    dev: "eth0",
    protocol: "boot",
    scope: "global",
    metric: 1024,
    pref: "medium",
  },
];
const HOST_ROUTE4 = { ...unicast, dst: "10.60.0.0", dev: HOST_INTERFACE, protocol: "boot", scope: "link" };
const HOST_ROUTE6 = { ...unicast, dst: "fd60::", dev: HOST_INTERFACE, protocol: "boot", scope: "global", metric: 1024, pref: "medium" };

const node = fresh(Node.create);
const pod = fresh(() => node.addPod());

describe("attaching a pod", () => {
  it("makes an IPv4 pod as Calico makes it, field by field (recording version-1.0.0)", async () => {
    const applied = await apply(node, desiredFor(pod));

    expect(applied.error).toBeUndefined();
    expect(applied.value).toEqual({
      podMac: (await node.podIp(pod, "-j", "link", "show", "eth0"))[0]?.address,
      hostIndex: (await node.ip("-j", "link", "show", HOST_INTERFACE))[0]?.ifindex,
      kind: "veth",
      warnings: [],
    });
    expect(await views(node, pod)).toEqual({
      host: { link: HOST_LINK, addresses: [HOST_LINK_LOCAL], routes4: [HOST_ROUTE4], routes6: [kernel6("fe80::/64", HOST_INTERFACE)] },
      pod: {
        link: POD_LINK,
        addresses: [POD_ADDRESS4, { dev: "eth0", address: POD_LINK_LOCAL, flags: [], scope: "link" }],
        routes4: POD_ROUTES4,
        routes6: [kernel6("fe80::/64", "eth0")],
      },
    });
    const expected = { route_localnet: "1", proxy_arp: "1", forwarding: "1", rp_filter: "0" };
    for (const [name, value] of Object.entries(expected)) {
      expect([name, await node.sysctl(`net/ipv4/conf/${HOST_INTERFACE}/${name}`)]).toEqual([name, value]);
    }
    expect(await node.sysctl(`net/ipv4/neigh/${HOST_INTERFACE}/proxy_delay`)).toBe("0");
    expect(await node.sysctl(`net/ipv6/conf/${HOST_INTERFACE}/accept_ra`)).toBe("0");
    expect(await node.sysctl(`net/ipv6/conf/${HOST_INTERFACE}/accept_dad`)).toBe("1");
    expect(await node.sysctl("net/ipv4/ip_forward", pod)).toBe("0");
  });

  it("makes a dual stack pod as Calico makes it, field by field (recording dual-1.0.0)", async () => {
    expect((await apply(node, desiredFor(pod, { addresses: BOTH }))).error).toBeUndefined();

    expect(await views(node, pod)).toEqual({
      host: {
        link: HOST_LINK,
        addresses: [HOST_LINK_LOCAL],
        routes4: [HOST_ROUTE4],
        routes6: [HOST_ROUTE6, kernel6("fe80::/64", HOST_INTERFACE)],
      },
      pod: {
        link: POD_LINK,
        addresses: [POD_ADDRESS4, POD_ADDRESS6, { dev: "eth0", address: POD_LINK_LOCAL, flags: [], scope: "link" }],
        routes4: POD_ROUTES4,
        routes6: POD_ROUTES6,
      },
    });
    for (const [name, value] of Object.entries({ accept_dad: "0", disable_ipv6: "0", proxy_ndp: "1", forwarding: "1", accept_ra: "0" })) {
      expect([name, await node.sysctl(`net/ipv6/conf/${HOST_INTERFACE}/${name}`)]).toEqual([name, value]);
    }
    expect(await node.sysctl("net/ipv6/conf/eth0/accept_dad", pod)).toBe("0");
    expect(await node.sysctl("net/ipv6/conf/all/forwarding", pod)).toBe("0");
  });

  it("makes an IPv6 pod without anything of IPv4 (recording v6only)", async () => {
    expect((await apply(node, desiredFor(pod, { addresses: ["fd60::/128"] }))).error).toBeUndefined();

    const { host, pod: inside } = await views(node, pod);
    expect(host).toMatchObject({ addresses: [HOST_LINK_LOCAL], routes4: [], routes6: [HOST_ROUTE6, kernel6("fe80::/64", HOST_INTERFACE)] });
    expect(inside).toMatchObject({ routes4: [], routes6: POD_ROUTES6, addresses: [POD_ADDRESS6, { address: POD_LINK_LOCAL }] });
    expect(await node.sysctl(`net/ipv4/conf/${HOST_INTERFACE}/proxy_arp`)).toBe("0");
  });

  it.each([
    ["none", "1"],
    ["stable privacy", "2"],
    ["random", "3"],
  ])("gives the host end its one link-local address on a host whose address generation is %s", async (_name, mode) => {
    const secret = mode === "2" ? " && echo 2001:db8::1 > /proc/sys/net/ipv6/conf/default/stable_secret" : "";
    const before = `echo ${mode} > /proc/sys/net/ipv6/conf/default/addr_gen_mode${secret}`;

    expect((await apply(node, desiredFor(pod, { addresses: BOTH }), { before })).error).toBeUndefined();

    expect(await views(node, pod)).toMatchObject({
      host: { addresses: [HOST_LINK_LOCAL], routes6: [HOST_ROUTE6, kernel6("fe80::/64", HOST_INTERFACE)] },
      pod: { routes6: POD_ROUTES6 },
    });
  });

  it("gets the host end's link-local address back after the link was down", async () => {
    await apply(node, desiredFor(pod, { addresses: BOTH }), { before: "echo 1 > /proc/sys/net/ipv6/conf/default/addr_gen_mode" });

    await node.ip("link", "set", HOST_INTERFACE, "down");
    await node.ip("link", "set", HOST_INTERFACE, "up");

    expect((await kernelView(node, HOST_INTERFACE)).addresses).toEqual([HOST_LINK_LOCAL]);
  });

  it("has usable IPv6 addresses at once, also where duplicate address detection is forced on", async () => {
    const force = "echo 1 > /proc/sys/net/ipv6/conf/all/accept_dad";
    await node.run(["/bin/sh", "-c", force], {}, pod);

    expect((await apply(node, desiredFor(pod, { addresses: BOTH }), { before: force })).error).toBeUndefined();

    const inside = await node.podIp(pod, "-j", "-6", "addr", "show", "dev", "eth0", "scope", "global");
    expect(JSON.stringify(inside)).toContain('"local":"fd60::"');
    expect(JSON.stringify(inside)).not.toContain("tentative");
    const outside = await node.ip("-j", "-6", "addr", "show", "dev", HOST_INTERFACE);
    expect(JSON.stringify(outside)).toContain('"local":"fe80::ecee:eeff:feee:eeee"');
    expect(JSON.stringify(outside)).not.toContain("tentative");
  });

  it("A14: goes by the container's own setting of duplicate detection, not by the host's", async () => {
    await node.run([
      "/bin/sh",
      "-c",
      "echo 0 > /proc/sys/net/ipv6/conf/all/accept_dad; echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad",
    ]);
    await node.run(["/bin/sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/accept_dad"], {}, pod);

    await apply(node, desiredFor(pod, { addresses: ["fd60::/128"] }));

    const [{ addr_info: addresses = [] } = {}] = await node.podIp(pod, "-j", "-6", "address", "show", "dev", "eth0", "to", "fd60::/128");
    expect(addresses).toContainEqual(expect.objectContaining({ local: "fd60::", nodad: true }));
  });

  it("repairs IPv6 that is disabled by default on the host and in the pod", async () => {
    const disable = "for i in all default lo; do echo 1 > /proc/sys/net/ipv6/conf/$i/disable_ipv6; done";
    await node.run(["/bin/sh", "-c", disable], {}, pod);
    const before = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";

    expect((await apply(node, desiredFor(pod, { addresses: BOTH }), { before })).error).toBeUndefined();

    expect(await views(node, pod)).toMatchObject({ host: { addresses: [HOST_LINK_LOCAL] }, pod: { routes6: POD_ROUTES6 } });
  });

  it("sets MTU and queues on both ends, and a MAC that was asked for", async () => {
    const applied = await apply(node, desiredFor(pod, { mtu: 1400, queues: 4, mac: "ca:fe:ca:fe:ca:fe" }));

    expect(applied.value?.podMac).toBe("ca:fe:ca:fe:ca:fe");
    expect(await views(node, pod)).toMatchObject({
      host: { link: { mtu: 1400, num_tx_queues: 4, num_rx_queues: 4 } },
      pod: { link: { mtu: 1400, num_tx_queues: 4, num_rx_queues: 4, address: "ca:fe:ca:fe:ca:fe" } },
    });
  });

  it("makes a veth where the kernel has no netkit, without a word (recording device-netkit)", async () => {
    const applied = await apply(node, desiredFor(pod, { kind: "netkit", addresses: BOTH }));

    const kind = (await kernelView(node, HOST_INTERFACE)).link?.kind;
    expect(applied.value).toMatchObject({ kind, warnings: [] });
    expect(["veth", "netkit"]).toContain(kind);
  });

  it("connects the pod: ARP and neighbour discovery are answered by the host, and pings of both families come back", async () => {
    expect((await apply(node, desiredFor(pod, { addresses: BOTH }))).error).toBeUndefined();
    // The host answers for 169.254.1.1 only while it has some route to it through another interface (net/ipv4/arp.c, arp_process).
    await node.ip("link", "add", "uplink", "type", "veth", "peer", "name", "elsewhere");
    await node.ip("link", "set", "uplink", "up");
    await node.ip("route", "add", "default", "dev", "uplink");
    await node.ip("addr", "add", "192.0.2.1/32", "dev", "lo");
    await node.ip("addr", "add", "2001:db8::1/128", "dev", "lo");

    expect(await node.run(["/usr/bin/ping", "-c1", "-W2", "192.0.2.1"], {}, pod)).toMatchObject({ exit: 0 });
    expect(await node.run(["/usr/bin/ping", "-c1", "-W2", "2001:db8::1"], {}, pod)).toMatchObject({ exit: 0 });
    const neighbours = await node.podIp(pod, "-j", "neigh", "show", "169.254.1.1");
    expect(neighbours).toMatchObject([{ dst: "169.254.1.1", lladdr: "ee:ee:ee:ee:ee:ee" }]);
  });
});

describe("applying a node's state", () => {
  it("sets the node's own settings, and does not need to write one that is right already", async () => {
    const state = { ...NO_NODE_STATE, forwardedFamilies: [4 as const] };

    expect(await probe(node, `dataplane.applyNode(${expressionOf(state)})`, { before: "echo 0 > /proc/sys/net/ipv4/ip_forward" })).toEqual(
      {},
    );
    expect(await node.sysctl("net/ipv4/ip_forward")).toBe("1");

    const frozen =
      "mount --bind /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/ip_forward && mount -o remount,ro,bind /proc/sys/net/ipv4/ip_forward";
    expect(await probe(node, `dataplane.applyNode(${expressionOf(state)})`, { before: frozen })).toEqual({});
  });
});
