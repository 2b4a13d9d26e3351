/**
 * The cases of Calico's suite for its IPAM executable (I§8.1) against a real API server, in both groups. Objects that others make are
 * written, and looked at, by plain requests.
 */
import { NODE, POOL4, POOL6, testCalicoCases } from "../../support/calico-cases.ts";
import { shared } from "../../support/fixtures.ts";
import { LEGACY, V3 } from "../../support/kubernetes/test-cluster.ts";
import { nameOf, ordinals, putAffinity, putBlock, putHandle } from "./calico-objects.ts";
import { World } from "./world.ts";

const world = shared(World.create);

describe.each([LEGACY, V3] as const)("calico-ipam on Kubernetes, group %s", (group) => {
  beforeEach(() => world.reset(group));

  testCalicoCases(world);

  it.each(["cid1", "net1.cid1"])("I17: releases what stands under the handle %s", async (handle) => {
    const cidr = "192.168.123.64/26";
    await putHandle(world, handle, { [cidr]: 1 });
    await putBlock(world, cidr, {
      affinity: "host:somebody",
      ...ordinals({ 59: 0 }),
      attributes: [{ handle_id: handle }],
      sequenceNumber: 1787405600123456789n,
      sequenceNumberForAllocation: { "59": 1787405600123456788n },
    });
    expect(await world.heldBy(handle)).toEqual([{ address: "192.168.123.123", active: {}, alternate: {} }]);
    expect(await world.del()).toEqual({ exit: 0, addresses: [], routes: [], msg: "" });
    await world.expectNothingHeld();
    expect((await world.block(nameOf(cidr)))?.sequenceNumber).toBe(1787405600123456790n);
  });

  it("I18: gives the affinities of its node their labels, once", async () => {
    const unlabelled = async (cidr: string): Promise<string> => {
      await putAffinity(world, NODE, cidr, { isLabelled: false });
      return `${NODE}-${nameOf(cidr)}`;
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
