/** What the table of policy holds for a policy, without a kernel: which ports its sets cover, and what a change touches. */
import { PolicyContent } from "../../../../dataplane/nftables/policy/content.ts";
import { CLASS_SET_NAMES, CLASS_SETS, names } from "../../../../dataplane/nftables/policy/layout.ts";
import { transactionsOf } from "../../../../dataplane/nftables/policy/requests.ts";
import { fromNothing } from "../../../../dataplane/nftables/policy/ruleset.ts";
import { interfaceKey } from "../../../../dataplane/nftables/sets.ts";
import { Slices } from "../../../../lib/system/slices.ts";
import { changeOf, type PermissionText, type PolicyText, policyOf } from "../../../support/packet-policy-text.ts";
import { seededRandom } from "../../../support/seeded-random.ts";

const A = "aaaaaaaaaaaa";
const OPTIONS = { prefixes: ["cali"], logGroup: 7 };
const slices = new Slices();
const contentOf = (policy: PolicyText) => PolicyContent.of(OPTIONS, policyOf(policy), slices);

/** Asks the sets of a class for a port as its chain does. */
function isAllowed(content: PolicyContent, endpoint: string, protocol: number, port: number): boolean {
  return CLASS_SET_NAMES.some((set) => {
    const elements = content.sets.get(names.classSet("ingress", A, set))?.elements;
    const rest = port & CLASS_SETS[set].mask;
    const key = interfaceKey(endpoint) + (set === "all" ? "" : String.fromCharCode(protocol, 0, 0, 0, rest >> 8, rest & 255, 0, 0));
    return elements?.has(key) === true;
  });
}

function ingress(permission: PermissionText): PolicyText {
  return { endpoints: { calia: { addresses: [], ingress: { [A]: permission } } } };
}

describe("The ports that a class allows an endpoint", () => {
  const random = seededRandom(29);
  const port = () => Math.floor(random() * 65_536);
  const intervals = Array.from({ length: 8 }, () => [port(), port()].sort((a, b) => a - b));

  it.each([[0, 65_535], [1, 65_535], [0, 65_534], [80, 81], [1000, 1000], [15, 16], [4095, 8192], [65_535, 65_535], ...intervals])(
    "P6: are exactly %i to %i, and in few pieces",
    async (first = 0, last = 0) => {
      const content = await contentOf(ingress([`tcp ${first}-${last}`]));
      const wrong = Array.from({ length: 65_536 }, (_, at) => at).filter(
        (at) => isAllowed(content, "calia", 6, at) !== (at >= first && at <= last),
      );
      expect(wrong).toEqual([]);
      expect(isAllowed(content, "calia", 17, first) || isAllowed(content, "calib", 6, first)).toBe(false);
      const pieces = CLASS_SET_NAMES.map((set) => content.sets.get(names.classSet("ingress", A, set))?.elements.size ?? 0);
      expect(pieces.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(6 * 15 + 14);
    },
  );
});

describe("The prefixes that a block is cut into", () => {
  const random = seededRandom(30);
  const address = (bits: number) => BigInt(Math.floor(random() * 2 ** 32)) << BigInt(bits - 32);
  const pairs = ([4, 6] as const).flatMap((family) =>
    Array.from({ length: 20 }, (_, at) => {
      const bits = family === 4 ? 32 : 128;
      const [one, other] = [address(bits), address(bits)];
      const [first, last] = one < other ? [one, other] : [other, one];
      // Ends in the middle of a small prefix, of a large one, and of none.
      return [family, at % 3 === 0 ? first + 1n : first, at % 3 === 1 ? last - 1n : last] as const;
    }),
  );
  const edges = [
    [4, 0n, 2n ** 32n - 1n],
    [6, 0n, 2n ** 128n - 1n],
    [4, 5n, 5n],
    [4, 15n, 16n],
    [6, 1n, 2n ** 128n - 2n],
  ] as const;

  it.each([...edges, ...pairs])(
    "P6: of IPv%i are exactly %i to %i, one behind the other, each asked for by its length",
    async (...block) => {
      const [family, first, last] = block;
      const bits = family === 4 ? 32 : 128;
      const state = { endpoints: new Map(), addresses: new Map(), blocks: [{ family, first, last, class: A }] };
      const content = await PolicyContent.of(OPTIONS, state, slices);
      const pieces = Array.from({ length: bits / 4 }, (_, at) => 4 * (at + 1)).flatMap((length) => {
        const elements = content.sets.get(names.blocks("egress", family, length))?.elements ?? new Map<string, string>();
        return [...elements.keys()].map((key) => ({
          size: 2n ** BigInt(bits - length),
          from: BigInt(`0x${Buffer.from(key, "latin1").toString("hex")}`),
        }));
      });
      pieces.sort((one, other) => (one.from < other.from ? -1 : 1));
      let next = first;
      for (const { size, from } of pieces) {
        expect([from, from % size]).toEqual([next, 0n]);
        next += size;
      }
      expect(next).toBe(last + 1n);
      const asked = content.chains.get(names.policy("egress"))?.rules.length ?? 0;
      const lengths = new Set(pieces.map(({ size }) => size)).size;
      const none = (await contentOf({})).chains.get(names.policy("egress"))?.rules.length ?? 0;
      expect(asked - none).toBe(lengths);
    },
  );

  it("leave no map when they go, and come back", async () => {
    const content = await contentOf({ addresses: { "10.9.0.1": A }, blocks: { "10.0.0.0/8": A } });
    await content.apply(changeOf({ blocks: { "10.0.0.1-10.0.0.1": A } }), slices);
    const { newSets, goneSets, changedChains } = await content.take(slices);
    expect([...newSets.keys()].sort()).toEqual(["egress-blocks4-32", "ingress-blocks4-32"]);
    expect([...goneSets].sort()).toEqual(["egress-blocks4-8", "ingress-blocks4-8"]);
    expect([...changedChains.keys()].sort()).toEqual(["egress-policy", "ingress-policy"]);
  });
});

describe("A change", () => {
  it("touches nothing where it says what is there already", async () => {
    const policy = { ...ingress(["tcp 80", "udp 1-100"]), addresses: { "10.0.0.1": A }, blocks: { "10.1.0.0/16": A } };
    const content = await contentOf(policy);
    await content.apply(changeOf(policy), slices);
    const sizes = Object.values(await content.take(slices)).map((part) => ("size" in part ? part.size : part.length));
    expect(sizes.filter((size) => size > 0)).toEqual([]);
    expect(await transactionsOf(await content.take(slices), slices)).toEqual([]);
  });

  it("touches only what it is about, and what it takes back is not touched at all", async () => {
    const content = await contentOf({ ...ingress(["tcp 80"]), addresses: { "10.0.0.1": A, "10.0.0.2": A } });
    await content.apply(changeOf({ addresses: { "10.0.0.1": "bbbbbbbbbbbb" } }), slices);
    const moved = await content.take(slices);
    expect([...moved.elements.keys()].sort()).toEqual(["egress-addresses4", "ingress-addresses4"]);
    expect([...moved.newChains.keys()].sort()).toEqual(["egress-bbbbbbbbbbbb", "ingress-bbbbbbbbbbbb"]);
    expect([moved.newSets.size, moved.changedChains.size, moved.goneChains.length]).toEqual([0, 0, 0]);

    await content.apply(changeOf(ingress("all")), slices);
    await content.apply(changeOf(ingress(["tcp 80"])), slices);
    const back = await content.take(slices);
    expect([back.elements.size, back.newSets.size, back.goneSets.length]).toEqual([0, 0, 0]);
  });

  it("is one transaction, and where it is large, its switch is", async () => {
    const addresses = Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`10.1.${at >> 8}.${at & 255}`, A]));
    const content = await contentOf({ addresses });
    expect((await transactionsOf(fromNothing(content), slices)).length).toBeGreaterThan(1);
    await content.apply(
      changeOf({ addresses: Object.fromEntries(Object.keys(addresses).map((address) => [address, "bbbbbbbbbbbb"])) }),
      slices,
    );
    const parts = await transactionsOf(await content.take(slices), slices);
    const sizes = parts.map((requests) => requests.reduce((sum, { payload }) => sum + payload.length, 0));
    expect(sizes.filter((size) => size > 256 * 1024)).toHaveLength(1);
    await content.apply(changeOf({ addresses: { "10.1.0.0": A } }), slices);
    expect(await transactionsOf(await content.take(slices), slices)).toHaveLength(1);
  });

  it.each([
    ["pauses after each piece of work where time flies", 1000, true],
    ["never pauses where it ends within its slice", 0, false],
  ])("%s, and comes to the same", async (_, millisecondsALook, hasPauses) => {
    const policy = { ...ingress(["tcp 80", "udp 1-100"]), addresses: { "10.0.0.1": A }, blocks: { "10.1.0.0/16": A } };
    let now = 0;
    const timed = new Slices(() => {
      now += millisecondsALook;
      return now;
    });
    let turns = 0;
    const others = setInterval(() => turns++, 0);
    const content = await PolicyContent.of(OPTIONS, policyOf(policy), timed);
    const transactions = await transactionsOf(fromNothing(content), timed);
    clearInterval(others);
    expect(turns > 0).toBe(hasPauses);
    expect(transactions).toEqual(await transactionsOf(fromNothing(await contentOf(policy)), slices));
  });

  it("refuses an address that is none", async () => {
    const content = await contentOf({});
    const change = { endpoints: new Map(), addresses: new Map([["web", A]]), blocks: undefined };
    await expect(content.apply(change, slices)).rejects.toThrow('"web" is no address');
  });
});
