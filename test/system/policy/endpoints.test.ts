/** Whom the table judges: endpoints that a policy closes, open ones, and host ends that nobody has said anything about. */
import { shared } from "../../support/fixtures.ts";
import { classes, endpoints, FAMILIES, HOST, PolicyNode, reach } from "../../support/policy-node.ts";

const A = "aaaaaaaaaaaa";

const world = shared(() => PolicyNode.create(3));
const places = () => {
  const [a, b, c] = world.pods;
  return { a, b, c, host: world.host, outside: world.outside };
};

beforeAll(async () => {
  const all = Object.values(places());
  for (const { prober } of all)
    await Promise.all([prober.ask("serve", { protocol: "tcp", port: 80 }), prober.ask("serve", { protocol: "udp", port: 53 })]);
});
afterEach(() => world.ask("remove"));

describe.each(FAMILIES)("IPv%i", (family) => {
  it("is open without a table", async () => {
    const { a, b, host, outside } = places();
    expect(
      await Promise.all([reach(a, b, "tcp", 80, family), reach(outside, a, "udp", 53, family), reach(a, host, "tcp", 80, family)]),
    ).toEqual(["ok", "ok", "ok"]);
  });

  it("N1: drops both ways what nobody has said anything about, lets its host reach it, and counts it apart", async () => {
    const { a, b, host, outside } = places();
    await world.replace({ endpoints: endpoints([b, {}]) });

    expect(
      await Promise.all([
        reach(b, a, "tcp", 80, family),
        reach(a, b, "tcp", 80, family),
        reach(outside, a, "udp", 53, family),
        reach(a, outside, "udp", 53, family),
        reach(a, host, "tcp", 80, family),
        reach(host, a, "tcp", 80, family),
        reach(host, a, "udp", 53, family),
        reach(outside, b, "tcp", 80, family),
        reach(b, host, "udp", 53, family),
      ]),
    ).toEqual(["timeout", "timeout", "timeout", "timeout", "timeout", "ok", "ok", "ok", "ok"]);
    const dropped = await world.dropped();
    expect(Object.keys(dropped).sort()).toEqual(["egress-endpoint-unknown", "ingress-endpoint-unknown"]);
    expect(dropped["ingress-endpoint-unknown"]).toBeGreaterThanOrEqual(2);
  });

  it("N2: never judges what the host sends, so probes pass under default-deny", async () => {
    const { a, host, outside } = places();
    await world.replace({ endpoints: endpoints([a, { ingress: {}, egress: {} }]) });

    const probes = [reach(host, a, "tcp", 80, family), reach(host, a, "udp", 53, family), reach(outside, a, "tcp", 80, family)];
    expect(await Promise.all(probes)).toEqual(["ok", "ok", "timeout"]);
    expect(Object.keys(await world.dropped())).toEqual(["ingress-denied"]);
  });

  it("N9: judges what a pod sends to its own host", async () => {
    const { a, b, host } = places();
    await world.replace({
      endpoints: endpoints([a, { egress: {} }], [b, { egress: { [A]: ["tcp 80"] } }]),
      addresses: { [HOST[family]]: A },
    });

    expect(
      await Promise.all([reach(a, host, "tcp", 80, family), reach(b, host, "tcp", 80, family), reach(b, host, "udp", 53, family)]),
    ).toEqual(["timeout", "ok", "timeout"]);
  });

  it("judges by both ends, each in its own direction", async () => {
    const { a, b, c } = places();
    const open = { [A]: "all" } as const;
    const addresses = classes([a, A], [b, A], [c, A]);
    const three = (policyOfA: object, policyOfB: object) =>
      world.replace({ endpoints: endpoints([a, policyOfA], [b, policyOfB], [c, {}]), addresses });
    const asked = () => Promise.all([reach(a, b, "tcp", 80, family), reach(b, a, "tcp", 80, family), reach(c, b, "tcp", 80, family)]);

    await three({ egress: open }, { ingress: open });
    expect(await asked()).toEqual(["ok", "ok", "ok"]);
    await three({ egress: {} }, { ingress: open });
    expect(await asked()).toEqual(["timeout", "ok", "ok"]);
    await three({ egress: open }, { ingress: {} });
    expect(await asked()).toEqual(["timeout", "ok", "timeout"]);
    await three({ ingress: {} }, { egress: {} });
    expect(await asked()).toEqual(["ok", "timeout", "ok"]);
  });

  it("N3: takes a node's address for any other, and a known address before a block that has it", async () => {
    const { a, b, c, outside } = places();
    const blocks = { [family === 4 ? "10.60.0.0/24" : "fd00:60::/64"]: A };
    await world.replace({
      endpoints: endpoints([a, { ingress: { [A]: ["tcp 80"] } }], [b, {}], [c, {}]),
      addresses: { [b.address[family]]: "bbbbbbbbbbbb" },
      blocks,
    });

    const asked = [reach(b, a, "tcp", 80, family), reach(c, a, "tcp", 80, family), reach(outside, a, "tcp", 80, family)];
    expect(await Promise.all(asked)).toEqual(["timeout", "ok", "timeout"]);
  });

  it("opens to addresses that nobody has named, where a rule has no peers", async () => {
    const { a, b, outside } = places();
    await world.replace({ endpoints: endpoints([a, { ingress: { "000000000000": ["tcp 80"] } }], [b, {}]), addresses: classes([b, A]) });

    const asked = [reach(outside, a, "tcp", 80, family), reach(outside, a, "udp", 53, family), reach(b, a, "tcp", 80, family)];
    expect(await Promise.all(asked)).toEqual(["ok", "timeout", "timeout"]);
  });
});

it("closes every host end of ours the moment its link is there, and opens it with the endpoint's element", async () => {
  const { a } = places();
  await world.replace({ endpoints: endpoints([a, {}]) });
  const fresh = await world.attach();
  await fresh.prober.ask("serve", { protocol: "tcp", port: 80 });
  expect(await Promise.all([reach(a, fresh, "tcp", 80), reach(fresh, a, "tcp", 80), reach(world.host, fresh, "tcp", 80)])).toEqual([
    "timeout",
    "timeout",
    "ok",
  ]);

  await world.apply({ endpoints: endpoints([fresh, {}]) });
  expect(await Promise.all([reach(a, fresh, "tcp", 80), reach(fresh, a, "tcp", 80, 6)])).toEqual(["ok", "ok"]);

  await world.apply({ endpoints: { [fresh.hostInterface]: null } });
  expect(await reach(a, fresh, "tcp", 80)).toBe("timeout");
});

it("removes the table on request, once and again, and everything is open", async () => {
  const { a, b } = places();
  await world.replace({ endpoints: endpoints([a, { ingress: {} }]) });
  expect(await reach(b, a, "tcp", 80)).toBe("timeout");
  for (let times = 0; times < 2; times++) await world.ask("remove");
  expect(await world.nft("list", "tables")).not.toContain("tortie-policy");
  expect(await reach(b, a, "tcp", 80)).toBe("ok");
});
