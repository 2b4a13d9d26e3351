/** Policies from a directory of files: whole and half ones, bombs, pipes, hostile names, and what stays in force meanwhile. */

import { mkdirSync, renameSync, rmSync, symlinkSync, truncateSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PolicyDirectory } from "../../../../../agent/policy/sources/policy-directory.ts";
import { parsePolicyFile } from "../../../../../agent/policy/sources/policy-files.ts";
import { JoinedSources } from "../../../../../agent/policy/sources/sources.ts";
import { type Clock, SYSTEM_CLOCK } from "../../../../../lib/system/waiting.ts";
import { address } from "../../../../support/addresses.ts";
import { ending, fresh, TemporaryDirectory } from "../../../../support/fixtures.ts";
import { until } from "../../../../support/kubernetes/until.ts";
import { ToldSink } from "../../../../support/told-sink.ts";

const policy = (name: string, namespace = "shop") => `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: ${name}, namespace: ${namespace}}
spec:
  podSelector: {}
  policyTypes: [Ingress]
`;
const namespace = (name: string, labels: string) => `
apiVersion: v1
kind: Namespace
metadata: {name: ${name}, labels: ${labels}}
`;

const root = fresh(() => new TemporaryDirectory());

const write = (name: string, text: string | Uint8Array) => writeFileSync(join(root.path, name), text);

/** Time passes when a test says so. */
const clock = { time: 0, now: () => clock.time };

/** So short that tests need not wait. */
const HASTY = { settledMs: 20, suspectMs: 60 };

function open(directory = root.path, ...how: [] | [clock: Pick<Clock, "now">]) {
  const sink = new ToldSink();
  const part = how.length === 0 ? new PolicyDirectory(directory, SYSTEM_CLOCK, HASTY) : new PolicyDirectory(directory, ...how);
  const sources = ending(new JoinedSources([part]));
  sources.start(sink, () => {});
  const policies = () => [...sink.policies.keys()].sort();
  return { sink, sources, policies };
}

/** A directory that is read whole, on the clock of the test. */
async function read() {
  const opened = open(root.path, clock);
  clock.time += 250;
  await until("all files", () => opened.sources.isComplete);
  return opened;
}

describe("A directory of policies", () => {
  it("gives policies and labels of namespaces, several documents a file, lists, and JSON", async () => {
    write("a.yaml", `${policy("one")}---${policy("two", "db")}---\n---${namespace("shop", "{team: a}")}`);
    write(
      "b.yml",
      `apiVersion: v1\nkind: List\nitems:\n- {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: three}}\n`,
    );
    write("c.json", `${JSON.stringify({ apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata: { name: "four" } })}\n`);
    for (const ignored of [".hidden.yaml", "d.yaml~", "e.txt", ".f.yaml.swp"]) write(ignored, policy("ignored"));
    const { sink, sources, policies } = open(root.path, clock);
    expect([sources.gap, sources.isComplete]).toEqual([`${root.path}/a.yaml is being read`, false]);
    clock.time += 250;
    await until("all files", () => sources.isComplete);
    expect(policies()).toEqual(["db/two", "default/four", "default/three", "shop/one"]);
    expect(sink.policies.get("shop/one")?.spec).toEqual({ podSelector: {}, policyTypes: ["Ingress"] });
    expect([...sink.namespaces].sort()).toEqual([
      ["db", { "kubernetes.io/metadata.name": "db" }],
      ["default", { "kubernetes.io/metadata.name": "default" }],
      ["shop", { team: "a", "kubernetes.io/metadata.name": "shop" }],
    ]);
    expect([sources.problems(), sources.unread()]).toEqual([[], []]);
  });

  it("tells of files that come, change, move over others and go", async () => {
    const { sink, sources, policies } = open();
    await until("the first look", () => sources.isComplete);
    write("a.yaml", policy("one"));
    await until("the new file", () => policies().join() === "shop/one");
    const version = sink.policies.get("shop/one")?.resourceVersion;
    write(".tmp", policy("one").replace("Ingress", "Egress"));
    renameSync(join(root.path, ".tmp"), join(root.path, "a.yaml"));
    await until("the change", () => JSON.stringify(sink.policies.get("shop/one")?.spec).includes("Egress"));
    expect(sink.policies.get("shop/one")?.resourceVersion).not.toBe(version);
    unlinkSync(join(root.path, "a.yaml"));
    await until("the removal", () => policies().length === 0);
    expect(sink.namespaces.size).toBe(0);
  });

  it("takes the first of two files with one policy, names the other, and takes that when the first goes", async () => {
    write("a.yaml", policy("one"));
    write("b.yaml", policy("one").replace("Ingress", "Egress"));
    const { sink, sources } = open();
    await until("both", () => sources.isComplete);
    expect(JSON.stringify(sink.policies.get("shop/one")?.spec)).toContain("Ingress");
    expect(sources.problems()).toEqual([`${root.path}/b.yaml has NetworkPolicy shop/one, which an earlier file or document has already`]);
    unlinkSync(join(root.path, "a.yaml"));
    await until("the other", () => JSON.stringify(sink.policies.get("shop/one")?.spec).includes("Egress"));
    expect(sources.problems()).toEqual([]);
  });

  it("counts objects of other kinds, which nobody reads", async () => {
    write("a.yaml", `${policy("one")}---\napiVersion: projectcalico.org/v3\nkind: NetworkPolicy\nmetadata: {name: x}\n---\nkind: Pod\n`);
    const { sources, policies } = open();
    await until("the file", () => sources.isComplete);
    expect(policies()).toEqual(["shop/one"]);
    expect(sources.unread()).toEqual([
      { kind: "NetworkPolicy.projectcalico.org", atLeast: 1 },
      { kind: "Pod", atLeast: 1 },
    ]);
  });

  it("that is not there holds no policies; one that goes away leaves all as it was, loudly", async () => {
    const directory = join(root.path, "later");
    const { sources, policies } = open(directory);
    await until("the look", () => sources.isComplete);
    mkdirSync(directory);
    writeFileSync(join(directory, "a.yaml"), policy("one"));
    const second = open(directory);
    await until("the file", () => second.policies().length === 1);
    rmSync(directory, { recursive: true });
    await until("the gap", () => second.sources.gap?.includes("no such file") === true);
    await Bun.sleep(5 * HASTY.suspectMs);
    expect(second.policies()).toEqual(["shop/one"]);
    expect(policies()).toEqual([]);
  });

  it("makes the namespaces of own pods, which no file need describe", async () => {
    const { sink, sources } = open();
    const pod = { namespace: "shop", name: "web", labels: { app: "web" }, ports: [] };
    sources.setOwn("cali1", { addresses: [address("10.1.0.4")], pod });
    await until("the look", () => sources.isComplete);
    expect([...sink.namespaces]).toEqual([["shop", { "kubernetes.io/metadata.name": "shop" }]]);
    expect(sink.addresses).toEqual({ "shop/web": ["10.1.0.4"] });
    sources.setOwn("cali1", undefined);
    expect([sink.namespaces.size, sink.peers.size]).toEqual([0, 0]);
  });
});

describe("A file that is being written", () => {
  let looks = 0;
  /** Waits for a look that began after the call: what is no regular file is named as soon as one has seen it, and all else in that look. */
  const look = async (sources: JoinedSources) => {
    const marker = `look${++looks}.yaml`;
    mkdirSync(join(root.path, marker));
    await until("a look", () => sources.problems().some((problem) => problem.includes(marker)));
  };

  it("keeps what it said while it grows piece by piece, emptied first", async () => {
    const whole = `${policy("one")}---${policy("two")}`;
    write("a.yaml", whole);
    const { sink, sources, policies } = await read();
    const tellings = sink.tellings;
    const changed = whole.replace("Ingress", "Egress");
    truncateSync(join(root.path, "a.yaml"), 0);
    for (let end = 0; end < changed.length; end += 10) {
      write("a.yaml", changed.slice(0, end));
      await Bun.sleep(5);
      clock.time += 100;
      expect([policies(), sink.tellings]).toEqual([["shop/one", "shop/two"], tellings]);
    }
    write("a.yaml", changed);
    await look(sources);
    expect(sink.tellings).toBe(tellings);
    clock.time += 250;
    await until("the whole file", () => JSON.stringify(sink.policies.get("shop/one")?.spec).includes("Egress"));
    expect(policies()).toEqual(["shop/one", "shop/two"]);
  });

  it.each([
    ["says less than before", policy("one")],
    ["ends within a line", `${policy("one")}---${policy("two")}# the end`],
    ["is empty", ""],
  ])("is waited for longer when it %s, and then believed", async (_what, content) => {
    write("a.yaml", `${policy("one")}---${policy("two")}`);
    const { sink, sources } = await read();
    const tellings = sink.tellings;
    write("a.yaml", content);
    await look(sources);
    clock.time += 1_990;
    await look(sources);
    expect(sink.tellings).toBe(tellings);
    clock.time += 10;
    await until("the new content", () => sink.tellings > tellings);
  });

  it("and is away for a moment, as editors do it, keeps what it said", async () => {
    write("a.yaml", policy("one"));
    const { sink, sources, policies } = await read();
    const tellings = sink.tellings;
    renameSync(join(root.path, "a.yaml"), join(root.path, "a.yaml~"));
    await look(sources);
    clock.time += 240;
    await look(sources);
    write("a.yaml", policy("one"));
    await look(sources);
    clock.time += 1_000;
    await look(sources);
    expect([policies(), sink.tellings]).toEqual([["shop/one"], tellings]);
    unlinkSync(join(root.path, "a.yaml"));
    await look(sources);
    clock.time += 250;
    await until("the removal", () => policies().length === 0);
  });
});

describe("A file that cannot be read", () => {
  const bomb = ["a: &a [x,x,x,x,x,x,x,x,x]"];
  for (const [index, name] of [..."bcdefghij"].entries())
    bomb.push(`${name}: &${name} [${Array(9).fill(`*${"abcdefghi"[index]}`).join()}]`);
  /** Aliases of aliases within what a parser allows. */
  const smallBomb = `a: &a [${Array(99).fill("x").join()}]\nb: &b [${Array(99).fill("*a").join()}]\nkind: [${Array(60).fill("*b").join()}]\n`;
  const cases: readonly (readonly [string, string | Uint8Array, RegExp])[] = [
    ["is no YAML", "kind: [NetworkPolicy\n", /./],
    ["is binary", new Uint8Array([0, 255, 1, 254]), /./],
    ["is a bomb of aliases", bomb.join("\n"), /aliasing/],
    ["is a smaller bomb", smallBomb, /aliasing|unfolds/],
    ["holds itself", "kind: NetworkPolicy\nspec: &a [*a]\n", /nested|unfolds|alias/i],
    ["is nested without end", "[".repeat(500_000), /./],
    ["is nested too deep", `kind: ${"[".repeat(100)}${"]".repeat(100)}\n`, /nested more than 64 levels/],
    ["is too large", `# ${"x".repeat(1024 * 1024)}\n`, /1048576 at most/],
    ["has a document that is no object", "--- hello\n", /no object/],
    ["has a document without a kind", "metadata: {name: x}\n", /no kind/],
    ["has a policy with an impossible name", policy("Not/A/Name"), /no name of an object/],
    ["has a policy in an impossible namespace", policy("x", "a.b"), /no name of a namespace/],
    ["has labels that are no texts", namespace("shop", "{a: true}"), /need quotes/],
  ];

  it.each(cases)("because it %s, keeps what it said before, and the others go on", async (_what, content, problem) => {
    write("a.yaml", policy("one"));
    const { sink, sources, policies } = open();
    await until("the file", () => sources.isComplete);
    write("a.yaml", content);
    write("b.yaml", policy("two"));
    await until("the other", () => policies().includes("shop/two"));
    await until("the problem", () => sources.problems().length === 1);
    expect(sources.problems()[0]).toMatch(problem);
    expect(sources.problems()[0]).toMatch(/a\.yaml cannot be read: .*; what it said before still counts$/);
    expect(policies()).toEqual(["shop/one", "shop/two"]);
    expect([sources.gap, sources.isComplete]).toEqual([undefined, true]);
    write("a.yaml", policy("mended"));
    await until("the mended file", () => policies().join() === "shop/mended,shop/two");
    expect([sources.problems(), sink.policies.size]).toEqual([[], 2]);
  });

  it("from the start is a gap until it can be, because nobody knows what it closes", async () => {
    write("a.yaml", "kind: [NetworkPolicy\n");
    write("b.yaml", policy("two"));
    const { sources, policies } = open();
    await until("the other", () => policies().join() === "shop/two");
    expect(sources.gap).toMatch(/a\.yaml cannot be read: .*; what it closes is not known$/);
    expect(sources.isComplete).toBe(false);
    write("a.yaml", policy("one"));
    await until("the mended file", () => sources.isComplete);
    expect(policies()).toEqual(["shop/one", "shop/two"]);
  });

  it("is no regular one: a pipe that nobody writes to, a directory, a device, a link to nowhere", async () => {
    Bun.spawnSync(["mkfifo", join(root.path, "pipe.yaml")]);
    mkdirSync(join(root.path, "directory.yaml"));
    symlinkSync("/dev/zero", join(root.path, "zero.yaml"));
    symlinkSync("/nowhere", join(root.path, "link.yaml"));
    write("b.yaml", policy("two"));
    const { sources, policies } = open();
    await until("the other", () => policies().join() === "shop/two");
    expect(sources.problems().map((problem) => problem.slice(root.path.length + 1).replace(/;.*/, ""))).toEqual([
      "directory.yaml cannot be read: it is no regular file",
      expect.stringMatching(/^link\.yaml cannot be read: .*no such file/),
      "pipe.yaml cannot be read: it is no regular file",
      "zero.yaml cannot be read: it is no regular file",
    ]);
  });

  it("has a name that is shown without its line ends and escapes", async () => {
    const name = "a\n\u001b[31m2030-01-01 all is well\u202e.yaml";
    write(name, "kind: [\n");
    const { sources } = open();
    await until("the problem", () => sources.problems().length === 1);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what must not be there
    expect(sources.problems()[0]).not.toMatch(/[\u0000-\u001f\u202e]/);
    expect(sources.problems()[0]).toContain("all is well");
  });

  it("takes no longer to read than any other of its size, however strange it is", () => {
    const shortest = (text: string) => {
      const bytes = new TextEncoder().encode(text);
      const times = Array.from({ length: 3 }, () => {
        const before = process.cpuUsage();
        try {
          parsePolicyFile(bytes);
        } catch {
          // Neither of them is a policy.
        }
        const { user, system } = process.cpuUsage(before);
        return user + system;
      });
      return Math.min(...times);
    };
    const plain = shortest("- {ipBlock: {cidr: 10.0.0.0/8}}\n".repeat(18_000));
    // A parser that compares each key of a map with all others takes 20 s for this one, 50 times as long as for the other.
    const manyKeys = shortest(Array.from({ length: 60_000 }, (_, index) => `k${index}: v`).join("\n"));
    expect(manyKeys).toBeLessThan(10 * plain);
  });
});
