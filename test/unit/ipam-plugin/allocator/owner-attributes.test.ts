import type { OwnerPreconditions, OwnerUpdates } from "../../../../ipam-plugin/allocator/types.ts";
import { address } from "../../../support/addresses.ts";
import { Cluster } from "../../../support/cluster.ts";
import { fresh } from "../../../support/fixtures.ts";

const IP = address("10.0.0.9");
const SOURCE = { node: "node-a", pod: "source", namespace: "shop" };
const TARGET = { node: "node-b", pod: "target", namespace: "shop" };

/** One address of the handle "vm", held by the source pod. */
const cluster = fresh(async () => {
  const cluster = await Cluster.create();
  await cluster.assignIp("node-a", "vm", "10.0.0.9", { attributes: SOURCE });
  return cluster;
});

async function owners() {
  const held = await cluster.allocator.attributesOf(IP);
  return { active: held?.activeOwner, alternate: held?.alternateOwner };
}

describe("the owners of an address", () => {
  it.each<[string, OwnerUpdates, { active: object; alternate: object }]>([
    ["are set, the alternate one", { alternate: TARGET }, { active: SOURCE, alternate: TARGET }],
    ["are set, the active one", { active: TARGET }, { active: TARGET, alternate: {} }],
    ["are set, both", { active: TARGET, alternate: SOURCE }, { active: TARGET, alternate: SOURCE }],
    ["are cleared, the active one", { active: null }, { active: {}, alternate: {} }],
    ["are cleared, one, and set, the other", { active: null, alternate: TARGET }, { active: {}, alternate: TARGET }],
    ["are cleared, both", { active: null, alternate: null }, { active: {}, alternate: {} }],
    ["stay as they are without an update", {}, { active: SOURCE, alternate: {} }],
  ])("%s", async (_title, updates, expected) => {
    await cluster.allocator.setOwnerAttributes(IP, "vm", updates);
    expect(await owners()).toEqual(expected);
  });

  it.each<[string, OwnerPreconditions, boolean]>([
    ["the active owner is the one expected", { active: SOURCE }, true],
    ["the active owner has the pairs expected", { active: { pod: "source", namespace: "shop" } }, true],
    ["the active owner is another", { active: { pod: "other", namespace: "shop" } }, false],
    ["the active owner has one pair of two", { active: { pod: "source", namespace: "other" } }, false],
    ["there is an active owner, and should be none", { active: {} }, false],
    ["there is no alternate owner, and should be none", { alternate: {} }, true],
    ["there is no alternate owner, and should be one", { alternate: TARGET }, false],
    ["both are as expected", { active: SOURCE, alternate: {} }, true],
    ["one is as expected, and the other not", { active: SOURCE, alternate: TARGET }, false],
  ])("are changed, or not, when %s", async (_title, preconditions, isMet) => {
    const change = cluster.allocator.setOwnerAttributes(IP, "vm", { active: TARGET }, preconditions);
    if (isMet) await change;
    else await expect(change).rejects.toMatchObject({ word: "owner-conflict", message: expect.stringContaining("update conflict") });
    expect((await owners()).active).toEqual(isMet ? TARGET : SOURCE);
  });

  it("change hands in a migration: target beside source, source gone, target takes over", async () => {
    const set = (updates: OwnerUpdates, preconditions: OwnerPreconditions = {}) =>
      cluster.allocator.setOwnerAttributes(IP, "vm", updates, preconditions);
    await set({ alternate: TARGET });
    await set({ active: null }, { active: { pod: "source" } });
    expect(await owners()).toEqual({ active: {}, alternate: TARGET });
    await set({ active: TARGET, alternate: null }, { active: {}, alternate: { pod: "target" } });
    expect(await owners()).toEqual({ active: TARGET, alternate: {} });
    expect(await cluster.handles()).toEqual({ vm: { "10.0.0.0/26": 1 } });
  });

  it("of one address change, those of another with the same attributes do not", async () => {
    const cluster = await Cluster.create();
    const { ipv4 } = await cluster.autoAssign("node-a", "vm", { count4: 2 });
    const [first, second] = ipv4?.addresses ?? [];
    if (first === undefined || second === undefined) throw new Error("two addresses are needed");
    await cluster.allocator.setOwnerAttributes(first.prefix.address, "vm", { active: null });
    expect((await cluster.allocator.attributesOf(second.prefix.address))?.activeOwner).toEqual({ node: "node-a" });
    expect((await cluster.allocator.attributesOf(first.prefix.address))?.activeOwner).toEqual({});
  });

  it("are those of the allocation, whose number stays", async () => {
    const before = await cluster.allocator.attributesOf(IP);
    await cluster.allocator.setOwnerAttributes(IP, "vm", { active: TARGET });
    expect((await cluster.allocator.attributesOf(IP))?.sequenceNumber).toBe(before?.sequenceNumber);
  });

  it.each([
    ["another handle", "other", "10.0.0.9", "address-not-assigned", "10.0.0.9 is not assigned to handle other"],
    ["a free address", "vm", "10.0.0.10", "address-not-assigned", "does not exist"],
    ["an address without block", "vm", "10.0.0.200", "address-not-assigned", "does not exist"],
    ["an address without pool", "vm", "192.168.0.1", "address-outside-pools", "not in a configured pool"],
  ])("of %s are refused", async (_title, handle, text, word, message) => {
    await expect(cluster.allocator.setOwnerAttributes(address(text), handle, { active: null })).rejects.toMatchObject({
      word,
      message: expect.stringContaining(message),
    });
  });

  it("are checked again when another writer was faster", async () => {
    cluster.before("update block", async () => {
      cluster.fateOf = undefined;
      await cluster.allocator.setOwnerAttributes(IP, "vm", { active: TARGET });
    });
    await expect(cluster.allocator.setOwnerAttributes(IP, "vm", { active: null }, { active: { pod: "source" } })).rejects.toMatchObject({
      word: "owner-conflict",
    });
    expect((await owners()).active).toEqual(TARGET);
  });

  it("without a change cost no write", async () => {
    cluster.calls.length = 0;
    await cluster.allocator.setOwnerAttributes(IP, "vm", {}, { active: SOURCE });
    expect(cluster.calls.filter((call) => /^(create|update|delete)/.test(call))).toEqual([]);
  });
});

describe("the attributes of an address", () => {
  it("are there while it is allocated, with its handle", async () => {
    expect(await cluster.allocator.attributesOf(IP)).toMatchObject({ handle: "vm", block: "10.0.0.0/26", activeOwner: SOURCE });
  });

  it.each([
    ["is free", "10.0.0.10"],
    ["has no block", "10.0.0.200"],
  ])("are missing when it %s", async (_title, text) => {
    expect(await cluster.allocator.attributesOf(address(text))).toBeUndefined();
  });

  it("are missing while it cools down", async () => {
    await cluster.configure({ ipCooldownSeconds: 60 });
    await cluster.allocator.releaseByHandle("vm");
    expect(await cluster.allocator.attributesOf(IP)).toBeUndefined();
  });

  it("cannot be asked for outside all pools and blocks", async () => {
    await expect(cluster.allocator.attributesOf(address("192.168.0.1"))).rejects.toMatchObject({ word: "address-outside-pools" });
  });
});
