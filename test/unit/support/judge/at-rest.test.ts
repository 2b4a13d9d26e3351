/** The verdict on a machine whose test is over: each wrong for itself, and nothing where all is well. */
import { violationsAtRest } from "../../../support/judge/at-rest.ts";
import type { Seen, SeenLink, SeenNamespace } from "../../../support/judge/world.ts";

const WEB = { network: "net1", containerId: "web", ifname: "eth0" };
const ALIAS = "tortie:net1/web/eth0";
const inNamespace = (...links: readonly SeenLink[]): SeenNamespace => ({ links, routes: [], isForwarding: true, tables: [] });

function link(name: string, change: Partial<SeenLink> = {}): SeenLink {
  return { name, alias: "", index: 2, peer: 0, group: "default", addresses: [], ...change };
}

const POD_END = link("eth0", { index: 2, peer: 7, addresses: ["10.0.0.1"] });
const HOST_END = link("caliweb", { index: 7, peer: 2, alias: ALIAS });
const HEALTHY: Seen = {
  host: { ...inNamespace(HOST_END, link("eth9")), routes: [{ destination: "10.0.0.1", device: "caliweb" }] },
  sandboxes: new Map([["s1", inNamespace(POD_END)]]),
  store: { grants: [{ address: "10.0.0.1", handle: "net1.web" }], handles: new Map([["net1.web", 1]]), endpoints: ["web eth0"] },
};
const EMPTY: Seen = { host: inNamespace(), sandboxes: new Map(), store: { grants: [], handles: new Map(), endpoints: [] } };

function verdict(seen: Partial<Seen>, ended: readonly (typeof WEB)[] = []): string[] {
  return violationsAtRest({ ...HEALTHY, ...seen }, ended).map(({ rule, what }) => `${rule}: ${what}`);
}

describe("The judge of a machine at rest", () => {
  it("finds nothing where kernel and store agree, or where nothing is left of what has ended", () => {
    expect(verdict({})).toEqual([]);
    expect(verdict({ host: { ...HEALTHY.host, links: [{ ...HOST_END, alias: `${ALIAS}/default/web` }] } })).toEqual([]);
    expect(verdict(EMPTY, [WEB])).toEqual([]);
  });

  it("leaves alone what a test has made itself", () => {
    const own = link("eth0", { index: 3, peer: 9, addresses: ["10.9.0.1"] });
    const host = [...HEALTHY.host.links, link("veth9", { index: 9, peer: 3, alias: "of the test" })];
    const sandboxes = new Map([...HEALTHY.sandboxes, ["s2", inNamespace(own)]]);
    expect(verdict({ host: { ...HEALTHY.host, links: host }, sandboxes })).toEqual([]);
  });

  it("finds an address that two bear", () => {
    const sandboxes = new Map([...HEALTHY.sandboxes, ["s2", inNamespace(link("eth0", { addresses: ["10.0.0.1"] }))]]);
    expect(verdict({ sandboxes })).toEqual(["doubled: 10.0.0.1 is on s1 eth0 and s2 eth0"]);
  });

  it.each([
    ["nobody", []],
    ["net1.db", [{ address: "10.0.0.1", handle: "net1.db" }]],
  ])("finds an address that is borne and granted to %s", (whose, grants) => {
    const handles = new Map(grants.map(({ handle }) => [handle, 1]));
    expect(verdict({ store: { ...HEALTHY.store, grants, handles } })).toEqual([
      `not-granted: s1 eth0 of net1.web bears 10.0.0.1, granted to ${whose}`,
    ]);
  });

  it("finds a link of ours without record, and one that was left in a group", () => {
    expect(verdict({ store: { ...HEALTHY.store, endpoints: [] } })).toEqual([
      `unasked: link caliweb "${ALIAS}" on the host, without record`,
    ]);
    const links = [...HEALTHY.host.links, link("cali1", { index: 8, group: "1414484564" })];
    expect(verdict({ host: { ...HEALTHY.host, links } })).toEqual(["unasked: link cali1 of group 1414484564 on the host"]);
  });

  it("finds a route to what its pod neither bears nor has", () => {
    const routes = [...HEALTHY.host.routes, { destination: "10.0.0.9", device: "caliweb" }];
    expect(verdict({ host: { ...HEALTHY.host, routes } })).toEqual(["unasked: route 10.0.0.9 dev caliweb on the host"]);
  });

  it("finds everything that an ended attachment has left", () => {
    expect(verdict({}, [WEB])).toEqual([
      "not-released: 10.0.0.1 of net1.web",
      "not-released: endpoint of web eth0",
      "not-released: link of net1.web eth0",
    ]);
  });

  it("finds a handle that counts wrongly", () => {
    expect(verdict({ store: { ...HEALTHY.store, handles: new Map([["net1.web", 2]]) } })).toEqual([
      "miscounted: net1.web counts 2 addresses, its blocks hold 1",
    ]);
  });
});
