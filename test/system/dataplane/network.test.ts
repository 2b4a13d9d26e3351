/** What joins nodes, judged by `ip` and `bridge`: VXLAN devices with their peers, routes of the node's own, and what stays alone. */
import type { NodeNetwork } from "../../../dataplane/dataplane.ts";
import type { Family } from "../../../lib/addresses/address.ts";
import { address, prefix } from "../../support/addresses.ts";
import { fresh } from "../../support/fixtures.ts";
import type { Node } from "../../support/node.ts";
import { apply, FAMILIES, host, networkOf, OWN_MAC, peersOf, routes, tunnelOf, wantedRoutes } from "../../support/node-network.ts";

const EMPTY: NodeNetwork = { tunnels: [], routes: [] };
async function bridgeEntries(node: Node, device: string): Promise<string[]> {
  const { stdout } = await node.run(["/usr/sbin/bridge", "-j", "fdb", "show", "dev", device]);
  const entries: { mac: string; dst: string; state: string }[] = JSON.parse(stdout);
  return entries.map(({ mac, dst, state }) => `${mac} ${dst} ${state}`).sort();
}

async function neighbours(node: Node, family: Family): Promise<string[]> {
  const found = await node.ip("-j", `-${family}`, "neigh", "show", "dev", FAMILIES[family].device, "nud", "permanent");
  return found.map(({ dst, lladdr }) => `${dst} ${lladdr}`).sort();
}

const node = fresh(() => host());

describe.each([4, 6] as const)("The network between nodes, IPv%d", (family) => {
  const { device, mtu, bits, address: own, peers, block } = FAMILIES[family];

  it("has a VXLAN device as Calico makes it, its peers, and routes of our own protocol", async () => {
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
    await apply(node, networkOf(family));
    expect(await apply(node, networkOf(family))).toEqual({ changed: [], failed: [], routes: 4, foreign: [] });

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
    await apply(node, networkOf(family));
    const moved = family === 4 ? "172.20.7.7" : "fd20:7::7";
    const [first] = peersOf(family);
    if (first === undefined) throw new Error("no peer");
    const peer = { ...first, node: address(moved), mac: "66:00:00:00:00:07" };

    expect((await apply(node, networkOf(family, tunnelOf(family, { peers: [peer] })))).failed).toEqual([]);

    expect(await bridgeEntries(node, device)).toEqual([`66:00:00:00:00:07 ${moved} permanent`]);
    expect(await neighbours(node, family)).toEqual([`${peers[0].address} 66:00:00:00:00:07`]);
  });

  it("leaves the routes of others alone, and lets a pod's own route win", async () => {
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

  it("X4: names routes of others that take its packets: of the same prefix and preferred, or of a part of it", async () => {
    const part = family === 4 ? "10.9.2.16/28" : "fd09:2::10/124";
    await node.ip("link", "add", "flannel.1", "type", "veth", "peer", "name", "other");
    await node.ip("link", "set", "flannel.1", "up");
    await node.ip(`-${family}`, "route", "add", block, "dev", "flannel.1");
    await node.ip(`-${family}`, "route", "add", "blackhole", part, "proto", "bird");
    // Ours wins over this one, and these lie outside.
    await node.ip(`-${family}`, "route", "add", FAMILIES[family].direct, "dev", "flannel.1", "metric", "4096");
    await node.ip(`-${family}`, "route", "add", family === 4 ? "10.0.0.0/8" : "fd00::/8", "dev", "flannel.1");

    const { failed, foreign } = await apply(node, networkOf(family));

    expect(failed).toEqual([]);
    expect([...foreign].sort()).toEqual(
      [
        `${block} goes to flannel.1 by a route of protocol boot, not to ${device}: remove that route`,
        `${part}, a part of ${block}, goes to nowhere by a route of protocol bird, not to ${device}: remove that route`,
      ].sort(),
    );
  });

  it("X4: names a rule that leads its packets to another table, and takes no offence at one that does not", async () => {
    await node.ip(`-${family}`, "route", "add", "default", "dev", "eth0", "table", "100", "proto", "static");
    await node.ip(`-${family}`, "rule", "add", "to", block, "lookup", "100", "priority", "1000");
    const { foreign } = await apply(node, networkOf(family));
    expect(foreign).toEqual([`a rule leads ${block} to table 100 dev eth0 (protocol static), not to ${device}: see "ip -${family} rule"`]);
  });

  it("X4: takes a pod's own route for none of others, and counts its routes as the kernel has them", async () => {
    await node.ip("link", "add", "cali1", "type", "veth", "peer", "name", "other");
    await node.ip("link", "set", "cali1", "up");
    await node.ip(`-${family}`, "route", "add", family === 4 ? "10.9.2.7/32" : "fd09:2::7/128", "dev", "cali1");
    const network = networkOf(family);
    const unreachable = { kind: "direct", destination: prefix(family === 4 ? "10.9.8.0/26" : "fd09:8::/122") } as const;
    const gateway = address(family === 4 ? "192.0.2.1" : "2001:db8::1");
    const report = await apply(node, { ...network, routes: [...network.routes, { ...unreachable, gateway }] });
    expect(report).toMatchObject({
      routes: 4,
      foreign: [],
      failed: [expect.stringMatching(/(10\.9\.8\.0\/26|fd09:8::\/122) via \S+ added: /)],
    });
  });

  it("leaves a device of another program alone, and makes the other routes all the same", async () => {
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
    const local = ["local", FAMILIES[family].local, "dstport", "4789", "dev", "eth0"];
    // The number that a link of ours has until its alias is written.
    await node.ip("link", "add", device, "group", String(0x544f5254), "type", "vxlan", "id", "4096", ...local);

    expect((await apply(node, networkOf(family))).failed).toEqual([]);

    expect((await node.ip("-j", "link", "show", device))[0]).toMatchObject({ ifalias: "tortie-node vxlan", group: "default" });
  });

  it("removes routes and device, and says what it cannot have", async () => {
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
