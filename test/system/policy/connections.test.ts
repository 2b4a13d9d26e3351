/** Connections that run while a policy changes, and what conntrack takes for one. */
import { shared } from "../../support/fixtures.ts";
import { ip, PROTOCOLS, sctpInit, tcp, udp } from "../../support/packets.ts";
import { arrives, classes, endpoints, FAMILIES, type Family, type Place, PolicyNode, reach } from "../../support/policy-node.ts";

const A = "aaaaaaaaaaaa";

const world = shared(() => PolicyNode.create(3));

beforeAll(async () => {
  const [a, b] = world.pods;
  for (const { prober } of [a, b]) {
    await prober.ask("serve", { protocol: "udp", port: 53 });
    await prober.ask("capture", { device: "eth0" });
  }
});
beforeEach(() => world.ask("remove"));

let streams = 0;

describe.each(FAMILIES)("IPv%i", (family: Family) => {
  it("N10: lets the answer to an allowed UDP request in, and nothing else of the same peer", async () => {
    const [a, b] = world.pods;
    await world.replace({ endpoints: endpoints([a, { ingress: {}, egress: { [A]: ["udp 53"] } }], [b, {}]), addresses: classes([b, A]) });

    expect(await reach(a, b, "udp", 53, family)).toBe("ok");
    const ends = { from: b.address[family], to: a.address[family] };
    const stranger = ip(ends, PROTOCOLS.udp, udp(ends, 5353, 40_000, Buffer.from("unrelated")));
    expect(await arrives(b, a, stranger, ends.to)).toBe(false);
  });

  it("refuses a TCP packet that begins a connection without SYN, in both directions of an endpoint that is enforced in one", async () => {
    const [a, b, c] = world.pods;
    const addresses = classes([a, A], [b, A], [c, A]);
    await world.replace({ endpoints: endpoints([a, { egress: { [A]: "all" } }], [b, {}], [c, { ingress: { [A]: "all" } }]), addresses });
    const send = (from: Place, to: Place, port: number, ...flags: ("syn" | "ack" | "fin")[]) => {
      const ends = { from: from.address[family], to: to.address[family] };
      return arrives(from, to, ip(ends, PROTOCOLS.tcp, tcp(ends, 1000 + ++streams, port, ...flags)), ends.to);
    };

    expect([await send(b, a, 4000, "ack"), await send(a, b, 4000, "ack"), await send(a, b, 4000, "fin", "ack")]).toEqual([
      false,
      false,
      false,
    ]);
    expect([await send(c, b, 4000, "ack"), await send(b, a, 4000, "syn")]).toEqual([false, true]);
    expect(await world.dropped()).toEqual({ "ingress-tcp-without-syn": 1, "egress-tcp-without-syn": 2, "egress-invalid": 1 });
  });

  it("counts what begins a connection and is judged, whether it may or not, and nothing that belongs to one", async () => {
    const [a, b] = world.pods;
    await world.replace({ endpoints: endpoints([b, { ingress: { [A]: ["udp 53"] } }], [a, {}]), addresses: classes([a, A]) });
    expect(await world.judged()).toEqual([
      { direction: "ingress", packets: 0 },
      { direction: "egress", packets: 0 },
    ]);
    expect([await reach(a, b, "udp", 53, family), await reach(a, b, "udp", 53, family)]).toEqual(["ok", "ok"]);
    const stranger = { from: a.address[family], to: b.address[family] };
    expect(await arrives(a, b, ip(stranger, PROTOCOLS.udp, udp(stranger, 5354, 5355, Buffer.from("closed"))), stranger.to)).toBe(false);
    expect(await world.judged()).toEqual([
      { direction: "ingress", packets: 3 },
      { direction: "egress", packets: 0 },
    ]);
    expect(await world.dropped()).toEqual({ "ingress-denied": 1 });
  });

  it("counts no neighbour discovery, which begins no connection", async () => {
    const [a, b] = world.pods;
    await world.replace({ endpoints: endpoints([a, { egress: {} }], [b, {}]) });
    await world.node.podIp(a.pod, "neighbour", "flush", "dev", "eth0");
    expect(await reach(a, b, "udp", 53, family)).toBe("timeout");
    expect(await world.judged()).toEqual([
      { direction: "ingress", packets: 0 },
      { direction: "egress", packets: 1 },
    ]);
  });

  it("drops what conntrack takes for invalid, and counts it apart", async () => {
    const [a, b] = world.pods;
    await world.replace({ endpoints: endpoints([b, { ingress: { [A]: "all" } }], [a, {}]), addresses: classes([a, A]) });
    const ends = { from: a.address[family], to: b.address[family] };

    expect(await arrives(a, b, ip(ends, PROTOCOLS.tcp, tcp(ends, 1000 + ++streams, 80, "syn", "fin")), ends.to)).toBe(false);
    expect(await arrives(a, b, ip(ends, PROTOCOLS.sctp, sctpInit(1000 + ++streams, 80)), ends.to)).toBe(true);
    const withWrongChecksum = ip(ends, PROTOCOLS.sctp, sctpInit(1000 + ++streams, 80, true));
    expect(await arrives(a, b, withWrongChecksum, ends.to)).toBe(false);
    expect(await world.dropped()).toEqual({ "ingress-invalid": 2 });
  });
});

it("lists and ends connections before and behind translation, of both families, and finds none a second time", async () => {
  const [a, b, c] = world.pods;
  await world.replace({ endpoints: endpoints([a, {}], [b, {}], [c, {}]) });
  await world.nft(
    `table ip services { chain p { type nat hook prerouting priority dstnat; ip daddr 10.96.0.9 udp dport 53 dnat to ${b.address[4]}; }; }`,
  );
  expect(await a.prober.ask("udp", { to: "10.96.0.9", port: 53 })).toBe("ok");
  expect(await reach(c, b, "udp", 53, 6)).toBe("ok");
  const behind = await world.ask<Record<string, unknown>[]>("flows", { addresses: [b.address[4]] });
  expect(behind).toHaveLength((await world.connections(b.address[4])).length);
  expect(behind.length).toBeGreaterThan(0);
  await world.nft("delete table ip services");

  const addresses = [b.address[4], b.address[6]];
  const found = await world.ask<unknown[]>("flows", { addresses });
  expect(await world.ask("deleteFlows", { addresses })).toBe(found.length);
  expect(await world.ask("flows", { addresses })).toEqual([]);
  expect(await world.connections(b.address[4])).toEqual([]);
});
