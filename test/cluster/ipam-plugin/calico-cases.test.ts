/**
 * The cases of Calico's suite for its IPAM executable (I§8.1) against a real API server, in both groups. Objects that others make are
 * written, and looked at, by plain requests.
 */
import { contains, parseAddress, parsePrefix } from "../../../lib/addresses/address.ts";
import { LEGACY, V3 } from "../../support/kubernetes/cluster.ts";
import { type Answer, NODE, POOL4, POOL6, World } from "./world.ts";

const V4 = { assign_ipv4: "true" };
const V6 = { assign_ipv4: "false", assign_ipv6: "true" };
const BOTH = { assign_ipv4: "true", assign_ipv6: "true" };
const IN_POOL4 = expect.stringMatching(/^192\.168\.\d+\.\d+\/26$/);
const IN_POOL6 = expect.stringMatching(/^fd80:24e2:f998:72d6:.*\/122$/);

let world: World;
beforeAll(async () => {
  world = await World.create();
});
afterAll(() => world[Symbol.asyncDispose]());

/** There are routes, and every address lies in the destination of one. */
function expectRoutes({ addresses, routes }: Answer): void {
  expect(routes.length).toBeGreaterThan(0);
  for (const text of addresses) {
    const address = parseAddress(text.replace(/\/.*/, ""));
    const isCovered = routes.some((route) => {
      const prefix = parsePrefix(route);
      return address !== undefined && prefix !== undefined && contains(prefix, address);
    });
    expect({ text, isCovered }).toEqual({ text, isCovered: true });
  }
}

async function expectNothingHeld(): Promise<void> {
  expect(await world.handles()).toEqual([]);
  expect((await world.blocks()).flatMap(({ attributes }) => attributes)).toEqual([]);
}

describe.each([LEGACY, V3] as const)("calico-ipam on Kubernetes, group %s", (group) => {
  beforeEach(() => world.reset(group));

  it.each<[string, object, readonly unknown[]]>([
    ["I1: gives an IPv4 address in a /26 without any configuration", {}, [IN_POOL4]],
    ["I2: gives an IPv4 address in a /26 when it is asked for IPv4", V4, [IN_POOL4]],
    ["I3: gives an IPv6 address in a /122 when it is asked for IPv6 only", V6, [IN_POOL6]],
    ["I4: gives one of each when it is asked for both", BOTH, [IN_POOL4, IN_POOL6]],
  ])("%s", async (_title, ipam, addresses) => {
    const answer = await world.add({ ipam: { ...ipam } });
    expect(answer).toMatchObject({ exit: 0, addresses });
    expectRoutes(answer);
    expect(await world.heldBy("net1.cid1")).toEqual(
      answer.addresses.map((address) => ({ address: address.replace(/\/\d+$/, ""), active: { node: NODE }, alternate: {} })),
    );
    expect(await world.del({ ipam: { ...ipam } })).toEqual({ exit: 0, addresses: [], routes: [], msg: "" });
    await expectNothingHeld();
  });

  it.each([
    ["I5: gives no address of either family when there is no IPv4 pool", "p4"],
    ["I6: gives no address of either family when there is no IPv6 pool", "p6"],
  ])("%s", async (_title, pool) => {
    await world.cluster.remove(group, "ippools", pool);
    for (let time = 0; time < 2; time++) {
      const answer = await world.add({ ipam: BOTH });
      expect(answer).toMatchObject({ exit: 1, addresses: [] });
      expect(answer.msg).not.toBe("");
    }
    expect(await world.del({ ipam: BOTH })).toMatchObject({ exit: 0 });
    await expectNothingHeld();
  });

  it("I7: takes the one pool that is listed", async () => {
    await world.createPool("other", { cidr: "10.1.0.0/24" });
    expect(await world.add({ ipam: { ipv4_pools: [POOL4] } })).toMatchObject({
      exit: 0,
      addresses: [expect.stringMatching(/^192\.168\./)],
    });
  });

  it("I8: takes one of two pools that are listed", async () => {
    await world.createPool("other", { cidr: "192.169.1.0/24" });
    const { addresses } = await world.add({ ipam: { ipv4_pools: [POOL4, "192.169.1.0/24"] } });
    expect(addresses).toEqual([expect.stringMatching(/^192\.16[89]\./)]);
  });

  it("I9: takes another pool once the first is disabled, for the same container too", async () => {
    expect((await world.add()).addresses).toEqual([expect.stringMatching(/^192\.168\./)]);
    await world.change("ippools", "p4", { disabled: true });
    await world.createPool("other", { cidr: "192.169.1.0/24" });
    expect((await world.add()).addresses).toEqual([expect.stringMatching(/^192\.169\.1\./)]);
    await world.del();
    await expectNothingHeld();
  });

  it.each([
    ["I10: refuses a list with an unknown pool at its end", [POOL4, "192.169.1.0/24"]],
    ["I11: refuses a list with an unknown pool at its beginning", ["192.169.1.0/24", POOL4]],
  ])("%s", async (_title, pools) => {
    const { exit, msg } = await world.add({ ipam: { ipv4_pools: pools } });
    expect(exit).toBe(1);
    expect(msg).toContain("192.169.1.0/24) does not exist");
  });

  it("I12: gives the very address that is asked for, as /32", async () => {
    const answer = await world.add({ args: "IP=192.168.123.123" });
    expect(answer).toEqual({ exit: 0, addresses: ["192.168.123.123/32"], routes: ["192.168.123.123/32"], msg: "" });
    expect((await world.block("192-168-123-64-26"))?.affinity).toBe(`host:${NODE}`);
  });

  it("I13: gives the same address again after its DEL", async () => {
    for (let time = 0; time < 2; time++) {
      expect((await world.add({ args: "IP=192.168.123.123" })).addresses).toEqual(["192.168.123.123/32"]);
      expect(await world.del({ args: "IP=192.168.123.123" })).toMatchObject({ exit: 0 });
    }
  });

  it("I14: refuses an address that is taken, by the same container too", async () => {
    expect(await world.add({ args: "IP=192.168.123.123" })).toMatchObject({ exit: 0 });
    const second = await world.add({ args: "IP=192.168.123.123" });
    expect(second).toMatchObject({ exit: 1, addresses: [] });
    expect(second.msg).toContain("Address already assigned in block");
    expect(await world.heldBy("net1.cid1")).toHaveLength(1);
  });

  it("I15: refuses an address of a pool that is not for workloads", async () => {
    await world.createPool("tunnels", { cidr: "10.123.0.0/16", allowedUses: ["Tunnel"] });
    const answer = await world.add({ args: "IP=10.123.0.5" });
    expect(answer).toMatchObject({ exit: 1, addresses: [] });
    expect(answer.msg).toContain("not allowed for use");
  });

  it("I16: has nothing against the DEL of a container that was never added", async () => {
    expect(await world.del({ args: "IP=192.168.123.123" })).toEqual({ exit: 0, addresses: [], routes: [], msg: "" });
  });

  it.each(["cid1", "net1.cid1"])("I17: releases what stands under the handle %s", async (handle) => {
    const cidr = "192.168.123.64/26";
    await world.put("IPAMHandle", { name: handle }, { handleID: handle, block: { [cidr]: 1 }, deleted: false });
    await world.put(
      "IPAMBlock",
      { name: "192-168-123-64-26" },
      {
        cidr,
        affinity: "host:somebody",
        allocations: Array.from({ length: 64 }, (_, ordinal) => (ordinal === 59 ? 0 : null)),
        unallocated: Array.from({ length: 64 }, (_, ordinal) => ordinal).filter((ordinal) => ordinal !== 59),
        attributes: [{ handle_id: handle }],
        sequenceNumber: 1787405600123456789n,
        sequenceNumberForAllocation: { "59": 1787405600123456788n },
        strictAffinity: false,
        deleted: false,
      },
    );
    expect(await world.heldBy(handle)).toEqual([{ address: "192.168.123.123", active: {}, alternate: {} }]);
    expect(await world.del()).toEqual({ exit: 0, addresses: [], routes: [], msg: "" });
    await expectNothingHeld();
    expect((await world.block("192-168-123-64-26"))?.sequenceNumber).toBe(1787405600123456790n);
  });

  it("I18: gives the affinities of its node their labels, once", async () => {
    const unlabelled = async (cidr: string): Promise<string> => {
      const name = `${NODE}-${cidr.replaceAll(/[./]/g, "-")}`;
      const deleted = group === LEGACY ? "false" : false;
      await world.put("BlockAffinity", { name }, { cidr, node: NODE, state: "confirmed", deleted });
      return name;
    };
    const first = await unlabelled("10.11.0.0/26");
    expect(world.hasMarker()).toBe(false);
    expect(await world.add({ args: "IP=192.168.123.123" })).toMatchObject({ exit: 0 });
    expect(world.hasMarker()).toBe(true);
    expect((await world.get("blockaffinities", first))?.metadata.labels).toEqual({
      "projectcalico.org/affinity-type": "host",
      "projectcalico.org/hostname-hash": "PY3TQE2E3XMTETLM2MJO3UITKPFB27YUJ4T4E5XGPEJON3SM4QAA",
      "projectcalico.org/ip-version": "4",
    });
    const second = await unlabelled("10.11.0.64/26");
    expect(await world.add({ args: "IP=192.168.123.124", container: "cid2" })).toMatchObject({ exit: 0 });
    expect((await world.get("blockaffinities", second))?.metadata.labels).toBeUndefined();
    for (const container of ["cid1", "cid2"]) expect(await world.del({ container })).toMatchObject({ exit: 0 });
  });
});

describe("the pools of Calico's suite", () => {
  it("are found in the group of the configuration, not in the other one", async () => {
    await world.reset(LEGACY);
    const { exit, msg } = await world.add({ conf: { calico_api_group: V3 } });
    expect(exit).toBe(1);
    expect(msg).toContain("cannot find a qualified ippool");
    expect([POOL4, POOL6]).toEqual((await world.list("ippools")).map(({ spec }) => spec?.cidr));
  });
});
