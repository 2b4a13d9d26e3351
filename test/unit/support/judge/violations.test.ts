/** The judge must find each wrong for itself, and nothing where all is well. */
import { grantsOfBlock } from "../../../support/judge/look.ts";
import { violations } from "../../../support/judge/violations.ts";
import { type Expected, NOTHING_ALLOWED, type Seen, type SeenLink, type SeenNamespace, type Wanted } from "../../../support/judge/world.ts";

const EMPTY: SeenNamespace = { links: [], routes: [], isForwarding: false, tables: [] };
const DEFAULT = { destination: "0.0.0.0/0", device: "eth0" };
const DEFAULT6 = { destination: "::/0", device: "eth0" };

function link(name: string, alias = "", addresses: readonly string[] = []): SeenLink {
  return { name, alias, addresses, index: 2, peer: 0, group: "default" };
}

const WEB: Wanted = { network: "net1", containerId: "web", ifname: "eth0", sandbox: "s1", addresses: ["10.0.0.1", "fd00::1"] };

const INSIDE: SeenNamespace = { ...EMPTY, links: [link("eth0", "", WEB.addresses)], routes: [DEFAULT, DEFAULT6] };

const HEALTHY: Seen = {
  host: {
    links: [link("caliweb", "tortie:net1/web/eth0")],
    routes: WEB.addresses.map((destination) => ({ destination, device: "caliweb" })),
    isForwarding: true,
    tables: ["inet tortie"],
  },
  sandboxes: new Map([
    ["s1", INSIDE],
    ["s2", EMPTY],
  ]),
  store: {
    grants: WEB.addresses.map((address) => ({ address, handle: "net1.web" })),
    handles: new Map([["net1.web", 2]]),
    endpoints: ["web eth0"],
  },
};

const EXPECTED: Expected = { wanted: [WEB], allowed: { ...NOTHING_ALLOWED, tables: new Set(["inet tortie"]) }, isForwarding: true };

/** @returns "rule: what" of each */
function verdict(seen: Partial<Seen>, expected: Partial<Expected> = {}): string[] {
  return violations({ ...HEALTHY, ...seen }, { ...EXPECTED, ...expected }).map(({ rule, what }) => `${rule}: ${what}`);
}

const withSandbox = (name: string, seen: SeenNamespace) => ({ sandboxes: new Map([...HEALTHY.sandboxes, [name, seen]]) });
const withHost = (host: Partial<SeenNamespace>) => ({ host: { ...HEALTHY.host, ...host } });
const withStore = (store: Partial<Seen["store"]>) => ({ store: { ...HEALTHY.store, ...store } });

describe("The judge", () => {
  it("finds nothing where everybody has what was granted, and nothing else is there", () => {
    expect(verdict({})).toEqual([]);
    const pod = link("caliweb", "tortie:net1/web/eth0/default/web");
    expect(verdict(withHost({ links: [pod] }))).toEqual([]);
  });

  it("finds an address that two bear, in the kernel or in the store", () => {
    const second = { ...EMPTY, links: [link("eth0", "", ["10.0.0.1"])] };
    expect(verdict(withSandbox("s2", second))).toContain("doubled: 10.0.0.1 is on s1 eth0 and s2 eth0");
    const grants = [...HEALTHY.store.grants, { address: "10.0.0.1", handle: "net1.db" }];
    expect(verdict(withStore({ grants }))).toContain("doubled: 10.0.0.1 is granted to net1.web and net1.db");
  });

  it("finds blocks that overlap, whichever is the larger one", () => {
    const blocks = ["10.0.0.0/26", "10.0.0.64/26", "fd00::/122", "10.0.0.32/29", "10.0.0.0/24"];
    expect(verdict(withStore({ blocks })).sort()).toEqual([
      "doubled: block 10.0.0.0/26 overlaps block 10.0.0.0/24",
      "doubled: block 10.0.0.0/26 overlaps block 10.0.0.32/29",
      "doubled: block 10.0.0.32/29 overlaps block 10.0.0.0/24",
      "doubled: block 10.0.0.64/26 overlaps block 10.0.0.0/24",
    ]);
  });

  it("finds an address that is borne without a grant, or with somebody else's", () => {
    expect(verdict(withStore({ grants: [], handles: new Map() }))).toContain("not-granted: s1 eth0 bears 10.0.0.1, granted to nobody");
    const grants = WEB.addresses.map((address) => ({ address, handle: "net1.db" }));
    expect(verdict(withStore({ grants }))).toContain("not-granted: s1 eth0 bears 10.0.0.1, granted to net1.db");
  });

  it.each<[string, Partial<Seen>]>([
    ["link eth0 10.0.0.9 in s2", withSandbox("s2", { ...EMPTY, links: [link("eth0", "", ["10.0.0.9"])] })],
    ["route 0.0.0.0/0 dev eth0 in s2", withSandbox("s2", { ...EMPTY, routes: [DEFAULT] })],
    ["link eth1 in s1", withSandbox("s1", { ...INSIDE, links: [...INSIDE.links, link("eth1")] })],
    [
      'link calix "tortie:net1/gone/eth0" on the host',
      withHost({ links: [...HEALTHY.host.links, link("calix", "tortie:net1/gone/eth0")] }),
    ],
    ["route 0.0.0.0/0 dev eth0 on the host", withHost({ routes: [...HEALTHY.host.routes, DEFAULT] })],
    ["net.ipv4.ip_forward 0 on the host", withHost({ isForwarding: false })],
    ["nftables ip other on the host", withHost({ tables: ["inet tortie", "ip other"] })],
  ])("finds what nobody asked for: %s", (what, seen) => {
    expect(verdict(seen)).toContain(`unasked: ${what}`);
  });

  it("lets stand what the test says it has put there itself", () => {
    const allowed = { ...NOTHING_ALLOWED, tables: EXPECTED.allowed.tables, links: new Set(["s2 net1"]), addresses: new Set(["10.9.0.1"]) };
    const other = { ...EMPTY, links: [link("net1", "", ["10.9.0.1"])] };
    expect(verdict(withSandbox("s2", other), { allowed })).toEqual([]);
    expect(verdict(withSandbox("s2", other))).not.toEqual([]);
  });

  it.each<[string, Partial<Seen>]>([
    ["link eth0", withSandbox("s1", EMPTY)],
    ["address 10.0.0.1", withSandbox("s1", { ...INSIDE, links: [link("eth0", "", ["fd00::1"])] })],
    ["route ::/0", withSandbox("s1", { ...INSIDE, routes: [DEFAULT] })],
    ["the link's host end", withHost({ links: [] })],
    ["route to fd00::1", withHost({ routes: HEALTHY.host.routes.slice(0, 1) })],
    ["grant of 10.0.0.1", withStore({ grants: HEALTHY.store.grants.slice(1) })],
    ["the endpoint in the store", withStore({ endpoints: [] })],
  ])("finds what is lost: %s", (what, seen) => {
    expect(verdict(seen)).toContain(`lost: web in s1 lacks ${what}`);
  });

  it("lets a pod do with its inside what it wants, and asks nothing of a link that nobody can make again", () => {
    expect(verdict(withSandbox("s1", { ...INSIDE, routes: [] }), { wanted: [{ ...WEB, isChangedInside: true }] })).toEqual([]);
    const without = { ...withSandbox("s1", EMPTY), ...withHost({ links: [], routes: [] }) };
    expect(verdict(without, { wanted: [{ ...WEB, mayLackLink: true }] })).toEqual([]);
  });

  it("finds that a link of somebody else is gone, as long as its place is there", () => {
    const links = new Set(["s2 eth0", " other0", "s3 eth0"]);
    const allowed = { ...EXPECTED.allowed, links };
    expect(verdict({}, { allowed })).toEqual(["lost: link of others, s2 eth0, is gone", "lost: link of others, other0, is gone"]);
    const there = {
      ...withSandbox("s2", { ...EMPTY, links: [link("eth0")] }),
      ...withHost({ links: [...HEALTHY.host.links, link("other0")] }),
    };
    expect(verdict(there, { allowed })).toEqual([]);
  });

  it("asks no host end of an attachment on another node, but finds its address on two pods", () => {
    const elsewhere = { ...WEB, isElsewhere: true };
    expect(verdict(withHost({ links: [], routes: [] }), { wanted: [elsewhere] })).toEqual([]);
    const second = withSandbox("s2", { ...EMPTY, links: [link("eth0", "", ["10.0.0.1"])] });
    expect(verdict(second, { wanted: [elsewhere] })).toContain("doubled: 10.0.0.1 is on s1 eth0 and s2 eth0");
  });

  it("finds pods that do not answer each other", () => {
    expect(verdict({ unanswered: ["s1 to 10.0.0.2"] })).toEqual(["cut-off: no answer from s1 to 10.0.0.2"]);
  });

  it("finds what is held for nobody, and handles that count wrong", () => {
    const nobody = { wanted: [] };
    expect(verdict({ host: { ...EMPTY, isForwarding: true }, sandboxes: new Map() }, nobody)).toEqual([
      "not-released: 10.0.0.1 of net1.web",
      "not-released: fd00::1 of net1.web",
      "not-released: handle net1.web",
      "not-released: endpoint of web eth0",
    ]);
    expect(verdict(withStore({ handles: new Map([["net1.web", 3]]) }))).toEqual([
      "miscounted: net1.web counts 3 addresses, its blocks hold 2",
    ]);
  });
});

describe("A raw block", () => {
  it("holds what its allocations point to, without what cools down", () => {
    const attributes = [{ handle_id: "net1.a" }, { handle_id: "net1.b", releasedAt: "2026-01-01T00:00:00Z" }, {}];
    const held = grantsOfBlock({ cidr: "10.0.0.192/26" }, { allocations: [0, 1, null, 2, 0], attributes });
    expect(held).toEqual([
      { address: "10.0.0.192", handle: "net1.a" },
      { address: "10.0.0.195", handle: "" },
      { address: "10.0.0.196", handle: "net1.a" },
    ]);
    const ordinals = Array.from({ length: 258 }, (_, ordinal) => (ordinal === 257 ? 0 : null));
    expect(grantsOfBlock({ cidr: "fd00::a:0/112" }, { allocations: ordinals, attributes })).toEqual([
      { address: "fd00::a:101", handle: "net1.a" },
    ]);
  });
});
