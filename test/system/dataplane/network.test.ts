/** What joins nodes, judged by `ip` and `bridge`: VXLAN devices with their peers, routes of the node's own, and what stays alone. */
import type { NetworkReport, NodeNetwork, VxlanPeer, VxlanTunnel } from "../../../dataplane/node-network.ts";
import { NO_NODE_STATE } from "../../../dataplane/node-state.ts";
import { type Address, type Family, type Prefix, parseAddress, parsePrefix } from "../../../lib/addresses/address.ts";
import { applyNode } from "../../support/dataplane-probe.ts";
import { Node } from "../../support/node.ts";

const EMPTY: NodeNetwork = { tunnels: [], routes: [] };
const OWN_MAC = "66:00:00:00:00:01";

const FAMILIES = {
  4: {
    device: "vxlan.calico",
    mtu: 1450,
    local: "172.20.1.1",
    address: "10.9.0.0",
    bits: 32,
    peers: [
      { node: "172.20.2.2", address: "10.9.2.0", mac: "66:00:00:00:00:02" },
      { node: "172.20.3.3", address: "10.9.3.0", mac: "66:00:00:00:00:03" },
    ],
    block: "10.9.2.0/26",
    neighbour: "172.20.1.9",
    direct: "10.9.1.0/26",
    own: "10.9.0.0/26",
  },
  6: {
    device: "vxlan-v6.calico",
    mtu: 1430,
    local: "fd20:1::1",
    address: "fd09::",
    bits: 128,
    peers: [
      { node: "fd20:2::2", address: "fd09:2::", mac: "66:00:00:00:00:02" },
      { node: "fd20:3::3", address: "fd09:3::", mac: "66:00:00:00:00:03" },
    ],
    block: "fd09:2::/122",
    neighbour: "fd20:1::9",
    direct: "fd09:1::/122",
    own: "fd09::/122",
  },
} as const;

async function host(): Promise<Node> {
  const node = await Node.create();
  await node.ip("link", "add", "eth0", "mtu", "1500", "type", "veth", "peer", "name", "wire");
  for (const name of ["eth0", "wire"]) await node.ip("link", "set", name, "up");
  await node.ip("address", "add", "172.20.1.1/24", "dev", "eth0");
  await node.ip("address", "add", "fd20:1::1/64", "dev", "eth0", "nodad");
  return node;
}

const address = (text: string): Address => parseAddress(text) ?? never(text);
const prefix = (text: string): Prefix => parsePrefix(text) ?? never(text);
function never(text: string): never {
  throw new Error(`${text} is no address`);
}

function peersOf(family: Family): readonly VxlanPeer[] {
  return FAMILIES[family].peers.map(({ node, address: inside, mac }) => ({ node: address(node), address: address(inside), mac }));
}

function tunnelOf(family: Family, change: Partial<VxlanTunnel> = {}): VxlanTunnel {
  const { device: name, mtu, local, address: inside } = FAMILIES[family];
  return {
    name,
    vni: 4096,
    port: 4789,
    mac: OWN_MAC,
    mtu,
    local: address(local),
    address: address(inside),
    peers: peersOf(family),
    ...change,
  };
}

function networkOf(family: Family, tunnel: VxlanTunnel = tunnelOf(family)): NodeNetwork {
  const { device, peers, block, direct, neighbour, own } = FAMILIES[family];
  return {
    tunnels: [tunnel],
    routes: [
      { kind: "tunnel", destination: prefix(`${peers[0].address}/${FAMILIES[family].bits}`), device },
      { kind: "tunnel", destination: prefix(block), gateway: address(peers[0].address), device },
      { kind: "direct", destination: prefix(direct), gateway: address(neighbour) },
      { kind: "blackhole", destination: prefix(own) },
    ],
  };
}

async function apply(node: Node, network: NodeNetwork): Promise<NetworkReport> {
  const { value, error } = await applyNode(node, { ...NO_NODE_STATE, network });
  if (value === undefined) throw new Error(error?.message);
  return value;
}

/** "10.9.2.0/26 via 10.9.2.0 dev vxlan.calico onlink": our routes, in the order of their texts. */
async function routes(node: Node, family: Family): Promise<string[]> {
  const found = await node.ip("-j", `-${family}`, "route", "show", "proto", "84");
  return found
    .map(({ type, dst, gateway, dev, flags }) =>
      type === "blackhole"
        ? `blackhole ${dst}`
        : [dst, ...(gateway === undefined ? [] : ["via", gateway]), "dev", dev, ...(flags as string[])].join(" "),
    )
    .sort();
}

async function bridgeEntries(node: Node, device: string): Promise<string[]> {
  const { stdout } = await node.run(["/usr/sbin/bridge", "-j", "fdb", "show", "dev", device]);
  const entries: { mac: string; dst: string; state: string }[] = JSON.parse(stdout);
  return entries.map(({ mac, dst, state }) => `${mac} ${dst} ${state}`).sort();
}

async function neighbours(node: Node, family: Family): Promise<string[]> {
  const found = await node.ip("-j", `-${family}`, "neigh", "show", "dev", FAMILIES[family].device, "nud", "permanent");
  return found.map(({ dst, lladdr }) => `${dst} ${lladdr}`).sort();
}

const wantedRoutes = (family: Family): string[] => {
  const { peers, block, direct, neighbour, own, device } = FAMILIES[family];
  const gateway = peers[0].address;
  const tunnelled = [`${gateway} dev ${device}`, `${block} via ${gateway} dev ${device} onlink`];
  return [...tunnelled, `${direct} via ${neighbour} dev eth0`, `blackhole ${own}`].sort();
};

describe.each([4, 6] as const)("The network between nodes, IPv%d", (family) => {
  const { device, mtu, bits, address: own, peers, block } = FAMILIES[family];

  it("has a VXLAN device as Calico makes it, its peers, and routes of our own protocol", async () => {
    await using node = await host();

    expect((await apply(node, networkOf(family))).failed).toEqual([]);

    const [link] = await node.ip("-j", "-d", "link", "show", device);
    expect(link).toMatchObject({ mtu, address: OWN_MAC, ifalias: "tortie-node vxlan", group: "default" });
    expect(link?.flags).toContain("UP");
    expect(link?.linkinfo).toMatchObject({ info_kind: "vxlan", info_data: { id: 4096, port: 4789, link: "eth0", learning: false } });
    expect(JSON.stringify(link?.linkinfo)).toContain(FAMILIES[family].local);
    const [{ addr_info = [] } = {}] = await node.ip("-j", "address", "show", "dev", device, "scope", "global");
    expect((addr_info as { local?: string }[]).filter(({ local }) => local !== undefined)).toEqual([
      expect.objectContaining({ local: own, prefixlen: bits }),
    ]);
    expect(await bridgeEntries(node, device)).toEqual(peers.map(({ mac, node: to }) => `${mac} ${to} permanent`));
    expect(await neighbours(node, family)).toEqual(peers.map(({ mac, address: inside }) => `${inside} ${mac}`));
    expect(await routes(node, family)).toEqual(wantedRoutes(family));
  });

  it("changes nothing where all is right, and repairs exactly what differs", async () => {
    await using node = await host();
    await apply(node, networkOf(family));
    expect(await apply(node, networkOf(family))).toEqual({ changed: [], failed: [] });

    await node.ip(`-${family}`, "route", "del", block, "proto", "84");
    await node.run(["/usr/sbin/bridge", "fdb", "del", peers[0].mac, "dev", device]);
    await node.ip("neigh", "del", peers[1].address, "dev", device);
    await node.ip("link", "set", device, "mtu", "1300");
    await node.ip("link", "set", device, "address", "66:00:00:00:00:77");
    const { changed, failed } = await apply(node, networkOf(family));

    expect(failed).toEqual([]);
    // The kernel forgets the neighbours of a device whose MAC is changed.
    expect(changed).toEqual([
      `MAC of ${device} set to ${OWN_MAC}`,
      `MTU of ${device} set to ${mtu}`,
      `forwarding entry ${peers[0].node} ${peers[0].mac} of ${device} added`,
      ...peers.map(({ address: inside, mac }) => `neighbour entry ${inside} ${mac} of ${device} added`),
      `route ${block} via ${peers[0].address} through the tunnel added`,
    ]);
    expect(await routes(node, family)).toEqual(wantedRoutes(family));
    expect(await bridgeEntries(node, device)).toHaveLength(2);
    expect(await neighbours(node, family)).toHaveLength(2);
    expect((await node.ip("-j", "link", "show", device))[0]).toMatchObject({ mtu, address: OWN_MAC });
  });

  it("makes the device again when it was set down, deleted, or made with other settings", async () => {
    await using node = await host();
    await apply(node, networkOf(family));
    for (const harm of [
      ["link", "set", device, "down"],
      ["link", "del", device],
    ]) {
      await node.ip(...harm);
      expect((await apply(node, networkOf(family))).failed).toEqual([]);
      expect(await routes(node, family)).toEqual(wantedRoutes(family));
    }

    await apply(node, networkOf(family, tunnelOf(family, { port: 8472 })));

    const [link] = await node.ip("-j", "-d", "link", "show", device);
    expect(link?.linkinfo).toMatchObject({ info_data: { port: 8472 } });
    expect(await routes(node, family)).toEqual(wantedRoutes(family));
  });

  it("follows a peer that has another MAC, node and address, and removes one that is gone", async () => {
    await using node = await host();
    await apply(node, networkOf(family));
    const moved = family === 4 ? "172.20.7.7" : "fd20:7::7";
    const [first] = peersOf(family);
    const peer = { ...(first ?? never("no peer")), node: address(moved), mac: "66:00:00:00:00:07" };

    expect((await apply(node, networkOf(family, tunnelOf(family, { peers: [peer] })))).failed).toEqual([]);

    expect(await bridgeEntries(node, device)).toEqual([`66:00:00:00:00:07 ${moved} permanent`]);
    expect(await neighbours(node, family)).toEqual([`${peers[0].address} 66:00:00:00:00:07`]);
  });

  it("lets a block move between tunnel, neighbour and this node, in one step each, without a moment between two routes", async () => {
    await using node = await host();
    const { neighbour } = FAMILIES[family];
    const destination = prefix(block);
    const gateway = peers[0].address;
    const tunnelled: NodeNetwork = { ...networkOf(family), routes: networkOf(family).routes.slice(0, 2) };
    await apply(node, tunnelled);
    const told = node.run(["/usr/bin/timeout", "3", "/usr/sbin/ip", `-${family}`, "-o", "monitor", "route"]);
    await Bun.sleep(500);
    const direct: NodeNetwork = { tunnels: [tunnelOf(family)], routes: [{ kind: "direct", destination, gateway: address(neighbour) }] };
    const blackhole: NodeNetwork = { tunnels: [tunnelOf(family)], routes: [{ kind: "blackhole", destination }] };
    for (const [network, wanted] of [
      [direct, `${block} via ${neighbour} dev eth0`],
      [blackhole, `blackhole ${block}`],
      [direct, `${block} via ${neighbour} dev eth0`],
      [tunnelled, `${block} via ${gateway} dev ${device} onlink`],
    ] as const) {
      const { changed, failed } = await apply(node, network);
      expect(failed).toEqual([]);
      expect(changed).toContainEqual(expect.stringMatching(`^route ${block} .*replaced by ${block} `));
      expect((await routes(node, family)).filter((route) => route.includes(block))).toEqual([wanted]);
    }
    const lines = (await told).stdout.split("\n").filter((line) => line.includes(block));
    expect(lines).toHaveLength(4);
    expect(lines.filter((line) => line.startsWith("Deleted"))).toEqual([]);
  });

  it("A15: joins a block by its new route before the tunnel that it leaves is removed", async () => {
    await using node = await host();
    const { neighbour } = FAMILIES[family];
    const destination = prefix(block);
    await apply(node, networkOf(family));
    const told = node.run(["/usr/bin/timeout", "3", "/usr/sbin/ip", `-${family}`, "-o", "monitor", "link", "route"]);
    await Bun.sleep(500);

    const { failed } = await apply(node, { tunnels: [], routes: [{ kind: "direct", destination, gateway: address(neighbour) }] });

    expect(failed).toEqual([]);
    expect(await routes(node, family)).toEqual([`${block} via ${neighbour} dev eth0`]);
    const lines = (await told).stdout.split("\n");
    const joined = lines.findIndex((line) => line.includes(`${block} via ${neighbour}`));
    const removed = lines.findIndex((line) => line.startsWith("Deleted") && line.includes(`: ${device}:`));
    expect([joined >= 0, removed >= 0]).toEqual([true, true]);
    expect(joined).toBeLessThan(removed);
  });

  it("leaves the routes of others alone, and lets a pod's own route win", async () => {
    await using node = await host();
    const foreign = [
      [family === 4 ? "10.77.0.0/16" : "fd77::/64", "proto", "80"],
      [family === 4 ? "10.78.0.0/16" : "fd78::/64", "proto", "static"],
      [block, "proto", "boot"],
    ];
    for (const [to = "", ...rest] of foreign) await node.ip(`-${family}`, "route", "add", to, "dev", "eth0", ...rest);

    expect((await apply(node, networkOf(family))).failed).toEqual([]);
    const looked = await node.ip("-j", `-${family}`, "route", "get", family === 4 ? "10.9.2.5" : "fd09:2::5");
    expect(looked[0]).toMatchObject({ dev: "eth0" });
    expect((await apply(node, EMPTY)).failed).toEqual([]);

    expect(await routes(node, family)).toEqual([]);
    const left = await node.ip("-j", `-${family}`, "route", "show");
    expect(left.map(({ dst }) => dst)).toEqual(expect.arrayContaining(foreign.map(([to]) => to)));
  });

  it("leaves a device of another program alone, and makes the other routes all the same", async () => {
    await using node = await host();
    const local = ["local", FAMILIES[family].local, "dstport", "4789", "dev", "eth0"];
    await node.ip("link", "add", device, "type", "vxlan", "id", "4096", ...local);
    const before = await node.ip("-j", "-d", "link", "show", device);

    const { failed } = await apply(node, networkOf(family));

    expect(failed).toEqual([expect.stringContaining(`there is an interface ${device} that another program made`)]);
    expect(await node.ip("-j", "-d", "link", "show", device)).toEqual(before);
    expect(await routes(node, family)).toEqual(wantedRoutes(family).filter((route) => !route.includes(device)));
    await apply(node, EMPTY);
    expect(await node.ip("-j", "-d", "link", "show", device)).toEqual(before);
  });

  it("takes over the device of a process that was killed before it had named it", async () => {
    await using node = await host();
    const local = ["local", FAMILIES[family].local, "dstport", "4789", "dev", "eth0"];
    // The number that a link of ours has until its alias is written.
    await node.ip("link", "add", device, "group", String(0x544f5254), "type", "vxlan", "id", "4096", ...local);

    expect((await apply(node, networkOf(family))).failed).toEqual([]);

    expect((await node.ip("-j", "link", "show", device))[0]).toMatchObject({ ifalias: "tortie-node vxlan", group: "default" });
  });

  it("removes routes and device, and says what it cannot have", async () => {
    await using node = await host();
    await apply(node, networkOf(family));
    await apply(node, EMPTY);
    expect(await routes(node, family)).toEqual([]);
    expect((await node.ip("-j", "link", "show")).map(({ ifname }) => ifname)).not.toContain(device);

    const elsewhere = family === 4 ? "192.0.2.1" : "2001:db8::1";
    const away = { kind: "direct", destination: prefix(block), gateway: address(elsewhere) } as const;
    const homeless = tunnelOf(family, { local: address(elsewhere) });
    const { failed } = await apply(node, { tunnels: [homeless], routes: [away, ...networkOf(family).routes.slice(2)] });

    expect(failed).toEqual([
      expect.stringContaining(`no interface of this host has ${elsewhere}`),
      expect.stringContaining(`route ${block} via ${elsewhere} added: `),
    ]);
    expect(await routes(node, family)).toHaveLength(2);
  });
});
