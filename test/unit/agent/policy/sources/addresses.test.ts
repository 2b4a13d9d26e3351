/** Whose an address is, by what is claimed and what is proven; and that nobody gets another's by patching annotations. */

import { AddressBook } from "../../../../../agent/policy/sources/addresses.ts";
import type { ClaimingPod, HeldBlock, PodFacts } from "../../../../../agent/policy/sources/claims.ts";
import { contains, formatAddress } from "../../../../../lib/addresses/address.ts";
import { Claimed } from "../../../../../lib/system/claimed.ts";
import type { PeerPod } from "../../../../../policy/model.ts";
import { address, prefix } from "../../../../support/addresses.ts";
import { fresh } from "../../../../support/fixtures.ts";
import { seededRandom } from "../../../../support/seeded-random.ts";

const labels = { app: "any" };
const claiming = (key: string, ...texts: readonly string[]): ClaimingPod => {
  const [namespace = "", name = ""] = key.split("/");
  return { namespace, name, labels, claim: new Claimed(texts.map(address)) };
};
const block = (cidr: string, holders: Readonly<Record<string, string>>): HeldBlock => ({
  cidr: prefix(cidr),
  holders: new Map(Object.entries(holders)),
});
const facts = (change: Partial<PodFacts>): PodFacts => ({
  node: "node1",
  isHostNetwork: false,
  isFinished: false,
  podIPs: [],
  ports: [],
  ...change,
});

function open() {
  const peers = new Map<string, PeerPod>();
  const told: string[] = [];
  const book = new AddressBook((key, peer) => {
    told.push(key);
    if (peer === undefined) peers.delete(key);
    else peers.set(key, peer);
  });
  return { book, peers, told };
}

const opened = fresh(open);
const book = fresh(() => opened.book);
const claim = (key: string, ...texts: readonly string[]) => book.setPod(key, claiming(key, ...texts));
const seen = () => Object.fromEntries([...opened.peers].map(([key, { addresses }]) => [key, addresses.map(formatAddress)]));

describe("An address that a block gives", () => {
  it("is the pod's that the block names, whichever of the two is heard of first", () => {
    claim("shop/web", "10.1.0.5", "fd00::5");
    expect(seen()).toEqual({});
    book.setBlock("v4", block("10.1.0.0/26", { "10.1.0.5": "shop/web", "10.1.0.6": "shop/db" }));
    expect(seen()).toEqual({ "shop/web": ["10.1.0.5"] });
    book.setBlock("v6", block("fd00::/122", { "fd00::5": "shop/web" }));
    expect(seen()).toEqual({ "shop/web": ["10.1.0.5", "fd00::5"] });
    claim("shop/db", "10.1.0.6");
    expect(seen()).toEqual({ "shop/db": ["10.1.0.6"], "shop/web": ["10.1.0.5", "fd00::5"] });
  });

  it("is nobody's before its pod says so: a pod made again under its name has not what the former one left", () => {
    book.setBlock("v4", block("10.1.0.0/26", { "10.1.0.5": "shop/web-0" }));
    claim("shop/web-0", "10.1.0.9");
    expect(seen()).toEqual({});
  });

  it("goes when the pod, its claim, the allocation or the block goes", () => {
    const whole = block("10.1.0.0/26", { "10.1.0.5": "shop/web" });
    const begin = () => {
      book.setBlock("v4", whole);
      claim("shop/web", "10.1.0.5");
      expect(seen()).toEqual({ "shop/web": ["10.1.0.5"] });
    };
    begin();
    book.setPod("shop/web", undefined);
    expect(seen()).toEqual({});
    begin();
    claim("shop/web");
    expect(seen()).toEqual({});
    begin();
    book.setBlock("v4", block("10.1.0.0/26", {}));
    expect(seen()).toEqual({});
    begin();
    book.setBlock("v4", undefined);
    expect(seen()).toEqual({});
    expect(opened.told).toHaveLength(8);
  });

  it("A3: stays with its new pod when the former one's removal is heard of last", () => {
    book.setBlock("v4", block("10.1.0.0/26", { "10.1.0.5": "shop/old" }));
    claim("shop/old", "10.1.0.5");
    book.setBlock("v4", block("10.1.0.0/26", { "10.1.0.5": "shop/new" }));
    claim("shop/new", "10.1.0.5");
    expect(seen()).toEqual({ "shop/new": ["10.1.0.5"] });
    book.setPod("shop/old", undefined);
    expect([seen(), book.conflicts(), book.refused()]).toEqual([{ "shop/new": ["10.1.0.5"] }, [], []]);
  });

  it("moves with its block to another size, and is found in the smallest of overlapping ones", () => {
    claim("shop/web", "10.1.0.5");
    book.setBlock("large", block("10.1.0.0/16", { "10.1.0.5": "shop/other" }));
    expect(seen()).toEqual({});
    book.setBlock("small", block("10.1.0.0/30", {}));
    expect(seen()).toEqual({});
    book.setBlock("small", block("10.1.0.4/30", { "10.1.0.5": "shop/web" }));
    expect(seen()).toEqual({ "shop/web": ["10.1.0.5"] });
    book.setBlock("small", undefined);
    expect(seen()).toEqual({});
    book.setBlock("large", block("10.1.0.0/16", { "10.1.0.5": "shop/web" }));
    expect(seen()).toEqual({ "shop/web": ["10.1.0.5"] });
  });

  it("is told once, and not again for what changes nothing", () => {
    book.setBlock("v4", block("10.1.0.0/26", { "10.1.0.5": "shop/web" }));
    claim("shop/web", "10.1.0.5");
    claim("shop/web", "10.1.0.5");
    book.setBlock("v4", block("10.1.0.0/26", { "10.1.0.5": "shop/web", "10.1.0.6": "shop/db" }));
    expect(opened.told).toEqual(["shop/web"]);
    book.setPod("shop/web", { ...claiming("shop/web", "10.1.0.5"), labels: { app: "other" } });
    expect(opened.told).toEqual(["shop/web", "shop/web"]);
  });
});

describe("A forged annotation", () => {
  beforeEach(() => {
    book.setBlock("v4", block("10.1.0.0/26", { "10.1.0.5": "shop/victim", "10.1.0.6": "mallory/pod" }));
    claim("shop/victim", "10.1.0.5");
    claim("mallory/pod", "10.1.0.6");
  });
  const honest = { "mallory/pod": ["10.1.0.6"], "shop/victim": ["10.1.0.5"] };

  it("gets nothing of another pod's address, takes nothing from it, and is named", () => {
    const before = opened.told.length;
    claim("mallory/pod", "10.1.0.5", "10.1.0.6");
    expect(seen()).toEqual(honest);
    expect(opened.told.slice(before)).toEqual([]);
    expect(book.conflicts()).toEqual([]);
    expect(book.refused()).toEqual([{ pod: "mallory/pod", address: "10.1.0.5", reason: "block 10.1.0.0/26 gives it to shop/victim" }]);
  });

  it.each([
    ["a free address of a block", "10.1.0.9", "block 10.1.0.0/26 gives it to no pod"],
    ["a node's address", "192.0.2.10", "no block has it, and its status is not known"],
    ["an address of the internet", "198.51.100.7", "no block has it, and its status is not known"],
  ])("gets nothing of %s", (_what, text, reason) => {
    claim("mallory/pod", text, "10.1.0.6");
    expect(seen()).toEqual(honest);
    expect(book.refused()).toEqual([{ pod: "mallory/pod", address: text, reason }]);
  });

  it.each(["127.0.0.1", "169.254.169.254", "::1", "fe80::1", "224.0.0.1", "0.0.0.0"])("is not even looked at for %s", (text) => {
    claim("mallory/pod", text, "10.1.0.6");
    book.setFacts("mallory/pod", facts({ podIPs: [address(text)] }));
    expect(seen()).toEqual(honest);
    expect([book.refused(), book.needsFacts]).toEqual([[], false]);
  });

  it("gets nothing by the status of a pod that uses its node's network, or of one that has ended", () => {
    claim("mallory/pod", "192.0.2.10");
    for (const change of [{ isHostNetwork: true }, { isFinished: true }]) {
      book.setFacts("mallory/pod", facts({ podIPs: [address("192.0.2.10")], ...change }));
      expect(seen()).toEqual({ "shop/victim": ["10.1.0.5"] });
    }
  });
});

describe("An address that no block has", () => {
  it("needs what kubelet says, and is the pod's when its status has it", () => {
    claim("shop/web", "172.20.0.5");
    expect([seen(), book.needsFacts]).toEqual([{}, true]);
    book.setFacts("shop/web", facts({ podIPs: [address("172.20.0.6")] }));
    expect(seen()).toEqual({});
    expect(book.refused()).toEqual([{ pod: "shop/web", address: "172.20.0.5", reason: "no block has it, and its status names others" }]);
    book.setFacts("shop/web", facts({ podIPs: [address("172.20.0.5")], ports: [{ name: "http", protocol: "TCP", port: 80 }] }));
    expect(seen()).toEqual({ "shop/web": ["172.20.0.5"] });
    claim("shop/web");
    expect([seen(), book.needsFacts]).toEqual([{}, false]);
  });

  it("is the pod's by its node's range while its status is empty, if nobody else claims it", () => {
    book.setRanges("node1", [prefix("10.8.1.0/24")]);
    claim("shop/new", "10.8.1.5");
    book.setFacts("shop/new", facts({}));
    expect(seen()).toEqual({ "shop/new": ["10.8.1.5"] });
    claim("mallory/pending", "10.8.1.5");
    book.setFacts("mallory/pending", facts({}));
    expect(seen()).toEqual({});
    expect(book.conflicts()).toEqual([{ address: "10.8.1.5", pods: ["mallory/pending", "shop/new"] }]);
    // Kubelet has spoken: its word wins over every claim.
    book.setFacts("shop/new", facts({ podIPs: [address("10.8.1.5")] }));
    expect(seen()).toEqual({ "shop/new": ["10.8.1.5"] });
    expect(book.conflicts()).toEqual([]);
    expect(book.refused()).toEqual([{ pod: "mallory/pending", address: "10.8.1.5", reason: "another endpoint has it" }]);
  });

  it("A11: is nobody's outside of the range of the pod's own node, and loses its proof with the range", () => {
    book.setRanges("node1", [prefix("10.8.1.0/24")]);
    book.setRanges("node2", [prefix("10.8.2.0/24")]);
    claim("shop/new", "10.8.2.5");
    book.setFacts("shop/new", facts({ node: "node1" }));
    expect(seen()).toEqual({});
    book.setFacts("shop/new", facts({ node: "node2" }));
    expect(seen()).toEqual({ "shop/new": ["10.8.2.5"] });
    book.setRanges("node2", []);
    expect(seen()).toEqual({});
  });

  it("A4: is nobody's when the status of two pods has it", () => {
    for (const key of ["a/one", "b/two"]) {
      claim(key, "172.20.0.5");
      book.setFacts(key, facts({ podIPs: [address("172.20.0.5")] }));
    }
    expect(seen()).toEqual({});
    expect(book.conflicts()).toEqual([{ address: "172.20.0.5", pods: ["a/one", "b/two"] }]);
    book.setFacts("a/one", facts({ podIPs: [address("172.20.0.9")] }));
    expect(seen()).toEqual({ "b/two": ["172.20.0.5"] });
  });
});

describe("A record", () => {
  const record = (key: string, ...texts: readonly string[]) => {
    const { namespace, name } = claiming(key);
    return { pod: { namespace, name, labels: { of: "record" } }, addresses: texts.map(address) };
  };

  it("makes its pod a peer before any server has told of it, with the record's labels until then", () => {
    book.setRecord("own cali1", record("shop/web", "10.1.0.5"));
    expect(opened.peers.get("shop/web")).toMatchObject({ labels: { of: "record" }, ports: undefined });
    claim("shop/web");
    expect([seen(), opened.peers.get("shop/web")?.labels]).toEqual([{ "shop/web": ["10.1.0.5"] }, labels]);
    book.setPod("shop/web", undefined);
    expect(opened.peers.get("shop/web")?.labels).toEqual({ of: "record" });
    book.setRecord("own cali1", undefined);
    expect(seen()).toEqual({});
  });

  it("joins the addresses of all interfaces of a pod", () => {
    book.setRecord("own cali1", record("shop/web", "10.1.0.5"));
    book.setRecord("own cali2", record("shop/web", "10.2.0.5"));
    expect(seen()).toEqual({ "shop/web": ["10.1.0.5", "10.2.0.5"] });
    book.setRecord("own cali1", undefined);
    expect(seen()).toEqual({ "shop/web": ["10.2.0.5"] });
  });

  it("A4: and a block that name different pods leave the address to nobody, until they agree", () => {
    book.setRecord("own cali1", record("shop/old", "10.1.0.5"));
    book.setBlock("v4", block("10.1.0.0/26", { "10.1.0.5": "shop/new" }));
    claim("shop/new", "10.1.0.5");
    expect(seen()).toEqual({});
    expect(book.conflicts()).toEqual([{ address: "10.1.0.5", pods: ["shop/new", "shop/old"] }]);
    book.setRecord("own cali1", undefined);
    expect(seen()).toEqual({ "shop/new": ["10.1.0.5"] });
    expect(book.conflicts()).toEqual([]);
  });

  it("of a container that is no pod keeps its address from every pod that claims it", () => {
    book.setRecord("own cali1", { pod: undefined, addresses: [address("10.8.1.5")] });
    book.setRanges("node1", [prefix("10.8.1.0/24")]);
    claim("mallory/pod", "10.8.1.5");
    book.setFacts("mallory/pod", facts({}));
    expect(seen()).toEqual({});
    expect(book.refused()).toEqual([{ pod: "mallory/pod", address: "10.8.1.5", reason: "another endpoint has it" }]);
    book.setFacts("mallory/pod", facts({ podIPs: [address("10.8.1.5")] }));
    expect(seen()).toEqual({});
    expect(book.conflicts()).toEqual([{ address: "10.8.1.5", pods: ["mallory/pod"] }]);
  });
});

describe("Any order of events", () => {
  const PODS = ["a/one", "a/two", "b/three", "b/four"];
  /** In both blocks, in one of them, in a node's range, in both, and nowhere. */
  const ADDRESSES = ["10.1.0.1", "10.1.0.2", "10.1.0.5", "10.1.1.1", "10.8.1.1", "192.0.2.1", "fd00::1", "fd00::2"];
  const BLOCKS = ["10.1.0.0/30", "10.1.0.0/24", "fd00::/126", "10.8.1.0/30"];
  const RANGES = ["10.8.1.0/24", "10.1.0.0/16", "fd00::/64"];

  /** One of each, or `undefined`, by chance. */
  function events(random: () => number) {
    const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
    const some = <T>(all: readonly T[]): T[] => all.filter(() => random() < 0.4);
    const maybe = <T>(value: T): T | undefined => (random() < 0.75 ? value : undefined);
    const kinds: readonly (() => readonly [string, (book: AddressBook) => void])[] = [
      () => {
        const [key, made] = [pick(PODS), random()];
        const pod = maybe({ ...claiming(key, ...some(ADDRESSES)), labels: { version: String(Math.floor(made * 3)) } });
        return [`pod ${key}`, (book) => book.setPod(key, pod)];
      },
      () => {
        const key = pick(PODS);
        const podIPs = random() < 0.5 ? some(ADDRESSES).map(address) : [];
        const known = facts({ podIPs, node: pick(["node1", "node2"]), isHostNetwork: random() < 0.1, isFinished: random() < 0.1 });
        const given = maybe(known);
        return [`facts ${key}`, (book) => book.setFacts(key, given)];
      },
      () => {
        const id = pick(["r1", "r2", "r3"]);
        const { namespace, name } = claiming(pick(PODS));
        const pod = random() < 0.8 ? { namespace, name, labels: { of: id } } : undefined;
        const record = maybe({ pod, addresses: some(ADDRESSES).map(address) });
        return [`record ${id}`, (book) => book.setRecord(id, record)];
      },
      () => {
        const cidr = pick(BLOCKS);
        const holders = some(ADDRESSES.filter((text) => contains(prefix(cidr), address(text)))).map((text) => [text, pick(PODS)]);
        const held = maybe(block(cidr, Object.fromEntries(holders)));
        return [`block ${cidr}`, (book) => book.setBlock(cidr, held)];
      },
      () => {
        const [node, ranges] = [pick(["node1", "node2"]), some(RANGES).map(prefix)];
        return [`ranges ${node}`, (book) => book.setRanges(node, ranges)];
      },
    ];
    return () => pick(kinds)();
  }

  const stateOf = ({ book, peers }: ReturnType<typeof open>) => ({
    peers: [...peers].sort(([one], [other]) => (one < other ? -1 : 1)),
    conflicts: book.conflicts(),
    refused: book.refused(),
    needsFacts: book.needsFacts,
  });

  it.each([1, 2, 3, 4])("of 200 comes to what the last of each kind says, told at once (seed %i)", (seed) => {
    const random = seededRandom(seed);
    const next = events(random);
    const last = new Map<string, (book: AddressBook) => void>();
    const grown = open();
    let [conflicts, refusals] = [0, 0];
    for (let count = 0; count < 200; count++) {
      const [what, apply] = next();
      apply(grown.book);
      last.set(what, apply);
      const made = open();
      for (const again of [...last.values()].sort(() => random() - 0.5)) again(made.book);
      expect([what, stateOf(grown)]).toEqual([what, stateOf(made)]);
      conflicts += grown.book.conflicts().length;
      refusals += grown.book.refused().length;
    }
    expect(conflicts * refusals).toBeGreaterThan(0);
  });
});
