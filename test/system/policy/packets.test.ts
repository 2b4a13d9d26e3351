/** What belongs to a connection or to a link without being a connection: errors, fragments, neighbour discovery, forged packets. */
import { shared } from "../../support/fixtures.ts";
import type { JsonRecord } from "../../support/node.ts";
import { icmp4, icmp6, ip, octets, PROTOCOLS, tcp, udp } from "../../support/packets.ts";
import {
  arrives,
  classes,
  Dialogue,
  endpoints,
  FAMILIES,
  type Family,
  HOST,
  type Place,
  PolicyNode,
  type PolicyPod,
  reach,
} from "../../support/policy-node.ts";
import { words } from "../../support/words.ts";

const A = "aaaaaaaaaaaa";
const GATEWAY = "fe80::ecee:eeff:feee:eeee";
const MULTICAST_ROUTERS = "ff02::2";

const world = shared(() => PolicyNode.create(2));
const places = () => {
  const [a, b] = world.pods;
  return { a, b, host: world.host, outside: world.outside };
};

beforeAll(async () => {
  const { a, b, host } = places();
  for (const { prober } of [a, b, host]) {
    await prober.ask("serve", { protocol: "udp", port: 53 });
    await prober.ask("serve", { protocol: "udp", port: 54 });
    await prober.ask("serve", { protocol: "tcp", port: 80 });
  }
  for (const { prober } of [a, b]) await prober.ask("capture", { device: "eth0" });
  // Behind the policy's priority of -10: what it has let pass.
  await world.nft(
    `table inet judge {
       counter solicitations { }
       counter redirects { }
       chain input { type filter hook input priority 0;
         iifname "cali*" icmpv6 type nd-router-solicit counter name solicitations
         iifname "cali*" icmpv6 type nd-redirect counter name redirects
       }
     }`,
  );
});
beforeEach(() => world.ask("remove"));

async function passed(counter: string): Promise<number> {
  const { nftables } = JSON.parse(await world.nft("-j", "list", "counter", "inet", "judge", counter));
  return nftables.at(-1).counter.packets;
}

/** An error about a packet that is too large for the way, with the beginning of that packet. */
function tooBig(family: Family, ends: { readonly from: string; readonly to: string }, about: Buffer): Buffer {
  const start = about.subarray(0, family === 4 ? 28 : 48);
  if (family === 4) return ip(ends, PROTOCOLS.icmp, icmp4(3, 4, Buffer.concat([Buffer.from([0, 0, 4, 200]), start])));
  return ip(ends, PROTOCOLS.icmpv6, icmp6(ends, 2, 0, Buffer.concat([Buffer.from([0, 0, 5, 0]), start])));
}

describe.each(FAMILIES)("IPv%i", (family) => {
  it("N11: lets the sender learn that its packets are too large for the way", async () => {
    const { a, outside } = places();
    await using far = await behindNarrowLink(outside, family);
    await world.replace({ endpoints: endpoints([a, { ingress: {}, egress: { [A]: ["tcp 80"] } }]), addresses: { [far.address]: A } });
    await a.prober.ask("taken");

    expect(await a.prober.ask("tcp", { to: far.address, port: 80, size: 20_000, within: 5 })).toBe("ok");
    const errors = (await a.prober.ask<string[]>("taken")).filter((packet) =>
      family === 4
        ? packet.slice(18, 20) === "01" && packet.slice(40, 44) === "0304"
        : packet.slice(12, 14) === "3a" && packet.slice(80, 82) === "02",
    );
    expect(errors.length).toBeGreaterThan(0);
  });

  it("N12: drops an error about no connection, and lets one about a connection pass", async () => {
    const { a, b, outside } = places();
    await world.replace({ endpoints: endpoints([a, { ingress: {}, egress: { [A]: ["udp 53"] } }], [b, {}]), addresses: classes([b, A]) });
    const own = { from: a.address[family], to: b.address[family] };
    const forged = { from: outside.address[family], to: a.address[family] };
    const about = (sourcePort: number) => ip(own, PROTOCOLS.udp, udp(own, sourcePort, 53, Buffer.from("something")));

    expect(await arrives(outside, a, tooBig(family, forged, about(3333)), forged.to)).toBe(false);
    expect(await world.dropped()).toEqual({ "ingress-invalid": 1 });

    expect(await a.prober.ask("udp", { to: own.to, port: 53, source: 3333 })).toBe("ok");
    expect(await arrives(outside, a, tooBig(family, forged, about(3333)), forged.to)).toBe(true);
  });

  it("N13: judges a datagram by its whole, whatever pieces it comes in", async () => {
    const { a, b } = places();
    await world.replace({ endpoints: endpoints([b, { ingress: { [A]: ["udp 53"] } }], [a, {}]), addresses: classes([a, A]) });
    await b.prober.ask("taken");

    expect(await a.prober.ask("udp", { to: b.address[family], port: 54, size: 4000 })).toBe("timeout");
    const source = Buffer.from(octets(a.address[family])).toString("hex");
    const arrived = async () => (await b.prober.ask<string[]>("taken")).filter((packet) => packet.includes(source));
    expect(await arrived()).toEqual([]);
    expect(await a.prober.ask("udp", { to: b.address[family], port: 53, size: 4000 })).toBe("ok");
    expect((await arrived()).length).toBeGreaterThan(1);
  });
});

/** A machine behind the one outside, at the end of a link that takes 1280 bytes only, while it asks for segments of 1460. */
async function behindNarrowLink(outside: Place, family: Family) {
  const { node } = world;
  const pod = await node.addPod(`far${family}`);
  const [near, far, length] = family === 4 ? ["192.0.2.1", "192.0.2.2", 24] : ["2001:db8::1", "2001:db8::2", 64];
  const device = `far${family}`;
  if (outside.pod === undefined) throw new Error("the machine outside has a namespace");
  await node.podIp(outside.pod, "link", "add", device, ...words`mtu 1280 type veth peer name eth0 mtu 1280 netns`, pod.name);
  await node.podIp(outside.pod, "address", "add", `${near}/${length}`, "dev", device, ...(family === 6 ? ["nodad"] : []));
  await node.podIp(outside.pod, "link", "set", device, "up");
  await node.podIp(pod, "address", "add", `${far}/${length}`, "dev", "eth0", ...(family === 6 ? ["nodad"] : []));
  await node.podIp(pod, "link", "set", "eth0", "up");
  await node.podIp(pod, `-${family}`, "route", "add", "default", "via", near, "advmss", "1440");
  await node.run(
    ["/bin/sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding"],
    {},
    outside.pod,
  );
  await node.podIp(outside.pod, "route", "replace", "default", "via", HOST[4]);
  await node.podIp(outside.pod, "-6", "route", "replace", "default", "via", HOST[6]);
  const prober = new Dialogue(node.commandLine(["/usr/bin/python3", "test/support/programs/prober.py"], {}, pod));
  await prober.ask("serve", { protocol: "tcp", port: 80 });
  return { address: far, [Symbol.asyncDispose]: () => prober[Symbol.asyncDispose]() };
}

describe("N16: an endpoint that may neither send nor receive", () => {
  const close = () => world.replace({ endpoints: endpoints([places().a, { ingress: {}, egress: {} }]) });

  it("finds its neighbour, and is found", async () => {
    const { a, host } = places();
    await close();
    await world.node.podIp(a.pod, "-6", "neigh", "flush", "dev", "eth0");
    await world.node.ip("-6", "neigh", "flush", "dev", a.hostInterface);

    expect(await reach(a, host, "tcp", 80, 6)).toBe("timeout");
    const neighbours = await world.node.podIp(a.pod, "-j", "-6", "neigh", "show", "dev", "eth0");
    expect(neighbours).toContainEqual(expect.objectContaining({ dst: GATEWAY, lladdr: "ee:ee:ee:ee:ee:ee" }));

    await world.node.podIp(a.pod, "-6", "neigh", "flush", "dev", "eth0");
    await world.node.ip("-6", "neigh", "flush", "dev", a.hostInterface);
    expect(await reach(host, a, "tcp", 80, 6)).toBe("ok");
  });

  it("is told that an address is taken", async () => {
    const { a } = places();
    await close();
    await world.node.run(
      ["/bin/sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/eth0/accept_dad; echo 0 > /proc/sys/net/ipv6/conf/all/accept_dad"],
      {},
      a.pod,
    );
    await world.node.podIp(a.pod, "address", "add", `${GATEWAY}/64`, "dev", "eth0");
    for (;;) {
      const info = (await addressesOf(a)).find(({ local }) => local === GATEWAY);
      if (info !== undefined && info.tentative !== true) throw new Error(`nobody has answered: ${JSON.stringify(info)}`);
      if (info?.dadfailed === true) break;
      await Bun.sleep(50);
    }
    await world.node.podIp(a.pod, "address", "del", `${GATEWAY}/64`, "dev", "eth0");
  });

  it("may ask for routers, but not from afar, and must not redirect", async () => {
    const { a } = places();
    await close();
    // The pod's own kernel asks for routers too, for some seconds after its link is up.
    await world.node.run(["/bin/sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/eth0/router_solicitations"], {}, a.pod);
    const local = await linkLocalOf(a);
    const before = await passed("solicitations");
    const solicit = (hops: number) => {
      const ends = { from: local, to: MULTICAST_ROUTERS };
      return frameTo(a, "3333:00000002", ip(ends, PROTOCOLS.icmpv6, icmp6(ends, 133, 0, Buffer.alloc(4)), { hops }));
    };
    await solicit(255);
    await solicit(254);
    expect(await passed("solicitations")).toBe(before + 1);

    const ends = { from: local, to: GATEWAY };
    const body = Buffer.concat([Buffer.alloc(4), octets(GATEWAY), octets(places().b.address[6])]);
    const redirects = await passed("redirects");
    await frameTo(a, "eeee:eeeeeeee", ip(ends, PROTOCOLS.icmpv6, icmp6(ends, 137, 0, body), { hops: 255 }));
    expect(await passed("redirects")).toBe(redirects);
    const dropped = await world.dropped();
    expect((dropped["egress-denied"] ?? 0) + (dropped["egress-invalid"] ?? 0)).toBeGreaterThanOrEqual(2);
  });

  it("must not redirect either where it may send everything", async () => {
    const { a } = places();
    await world.replace({ endpoints: endpoints([a, { egress: { "000000000000": "all", [A]: "all" } }]) });
    const ends = { from: await linkLocalOf(a), to: GATEWAY };
    const body = Buffer.concat([Buffer.alloc(4), octets(GATEWAY), octets(places().b.address[6])]);
    const redirects = await passed("redirects");
    await frameTo(a, "eeee:eeeeeeee", ip(ends, PROTOCOLS.icmpv6, icmp6(ends, 137, 0, body), { hops: 255 }));
    expect(await passed("redirects")).toBe(redirects);
    expect(Object.keys(await world.dropped())).toHaveLength(1);
  });
});

/** Addresses of a pod's interface; `ip` lists empty objects where it leaves some out. */
async function addressesOf({ pod }: PolicyPod): Promise<JsonRecord[]> {
  const links = await world.node.podIp(pod, "-j", "-6", "address", "show", "dev", "eth0");
  return links.flatMap(({ addr_info }) => (Array.isArray(addr_info) ? addr_info : []));
}

async function linkLocalOf(pod: PolicyPod): Promise<string> {
  const found = (await addressesOf(pod)).find(({ scope }) => scope === "link");
  return String(found?.local);
}

/** Sends a packet of IPv6 to this MAC on the pod's link. */
async function frameTo(from: Place, mac: string, packet: Buffer): Promise<void> {
  const header = `${mac.replace(":", "")}02000000000186dd`;
  await from.prober.ask("frame", { device: "eth0", packet: header + packet.toString("hex") });
  await Bun.sleep(50);
}

it("N21: drops an IPv6 packet from outside that claims the node's own address", async () => {
  const { a, outside } = places();
  await world.replace({ endpoints: endpoints([a, { ingress: {} }]) });
  const ends = { from: HOST[6], to: a.address[6] };
  const packet = ip(ends, PROTOCOLS.tcp, tcp(ends, 4321, 80, "syn"));

  expect(await arrives(outside, a, packet, ends.to)).toBe(false);
  expect(await world.dropped()).toEqual({ "ingress-denied": 1 });
  await world.ask("remove");
  expect(await arrives(outside, a, packet, ends.to)).toBe(true);
});
