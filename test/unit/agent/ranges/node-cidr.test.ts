/** The decisions of A§1 over time: the node object comes, changes and goes, on a clock that stands still and real files. */
import { existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { NodeCidr, type NodeCidrParts } from "../../../../agent/addresses/ranges/node-cidr.ts";
import type { NodeFacts, NodeObjects } from "../../../../agent/addresses/ranges/node-object.ts";
import { type NodeCidrFlags, nodeCidrOptions } from "../../../../agent/addresses/ranges/options.ts";
import type { HostFacts } from "../../../../agent/addresses/ranges/own-addresses.ts";
import { hostScopeFiles } from "../../../../ipam-plugin/host-scope/files.ts";
import { formatAddress } from "../../../../lib/addresses/address.ts";
import { Tasks } from "../../../../lib/resident/tasks.ts";
import { address, prefix } from "../../../support/addresses.ts";
import { FakeClock, settled } from "../../../support/fake-clock.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";
import { RANGE_FLAGS } from "../../../support/range-flags.ts";

const BOOT_ID = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
const ANNOTATION = "network.tortie.dev/ipv4-pod-cidr";
const SOURCE = "network.tortie.dev/pod-cidr-source";
/** Whose own range is 10.7.0.0/16. */
const HOST: HostFacts = { addresses: [{ address: address("192.0.2.7"), link: "eth0", isUp: true, scope: 0 }], routes: [] };

/** An API server's nodes, as far as this node's agent is concerned. */
class FakeCluster implements NodeObjects {
  nodes: NodeFacts[] = [];
  isReachable = true;
  mayPatch = true;
  patches = 0;
  readonly #listeners: (() => void)[] = [];

  put(facts: Partial<NodeFacts>): void {
    const known = { name: "node1", createdAt: "2026-11-20T10:00:00Z", podCIDRs: [], podCIDR: "", annotations: {}, addresses: [], ...facts };
    this.nodes = [...this.nodes.filter(({ name }) => name !== known.name), known];
    this.tell();
  }

  tell(): void {
    for (const listener of this.#listeners) listener();
  }

  own = () => (this.isReachable ? this.nodes.find(({ name }) => name === "node1") : undefined);
  problem = () => (this.isReachable ? "node node1 does not exist" : "connection refused");
  onChange = (listener: () => void) => void this.#listeners.push(listener);
  list = async () => this.nodes;

  async annotate(annotations: Readonly<Record<string, string | null>>): Promise<void> {
    this.patches += 1;
    if (!this.mayPatch) throw new Error("nodes/status is forbidden");
    const node = this.own();
    if (node === undefined) throw new Error("not found");
    const merged = Object.entries({ ...node.annotations, ...annotations }).flatMap(([key, value]) =>
      value === null ? [] : [[key, value]],
    );
    this.put({ ...node, annotations: Object.fromEntries(merged) });
  }
}

const run = fresh(() => new TemporaryDirectory());

class World implements AsyncDisposable {
  readonly cluster = new FakeCluster();
  readonly clock = new FakeClock();
  readonly log: string[] = [];
  readonly files = hostScopeFiles(run.path);
  host: HostFacts = { addresses: [], routes: [] };
  #controllers = new Tasks({ clock: this.clock });

  constructor() {
    mkdirSync(join(run.path, "state"));
  }

  get controllers(): Tasks {
    return this.#controllers;
  }

  /** Starts an agent's part; one that ran before ends. */
  async start(flags: Partial<NodeCidrFlags> = {}, change: Partial<NodeCidrParts> = {}): Promise<NodeCidr> {
    await this[Symbol.asyncDispose]();
    this.#controllers = new Tasks({ clock: this.clock });
    const started = new NodeCidr({
      options: nodeCidrOptions({ ...RANGE_FLAGS, ...flags }),
      node: "node1",
      bootId: BOOT_ID,
      files: this.files,
      strategy: "contiguous",
      cooldownMs: 0,
      isHostScopeNode: true,
      annotates: true,
      cluster: () => this.cluster,
      readHost: () => this.host,
      controllers: this.#controllers,
      clock: this.clock,
      log: { info: (message) => this.log.push(message), error: (message) => this.log.push(message) },
      ...change,
    });
    started.start();
    await settled();
    return started;
  }

  async grant(nodeCidr: NodeCidr, name: string): Promise<string[]> {
    return (await nodeCidr.hostScope.grant({ owner: { kind: "name", name } })).map(({ address }) => formatAddress(address));
  }

  annotations(): Readonly<Record<string, string>> {
    return this.cluster.own()?.annotations ?? {};
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ending = this.#controllers[Symbol.asyncDispose]();
    await this.clock.advance(0);
    await ending;
  }
}

const world = fresh(() => new World());

describe("the ranges of a node", () => {
  it("A-C01: come from the spec, are annotated once and written to node.json, with the node's own addresses", async () => {
    world.cluster.put({ podCIDRs: ["10.1.0.0/24", "fd44::/64"] });
    const nodeCidr = await world.start();
    await nodeCidr.untilKnown();
    await settled();
    expect(world.annotations()).toEqual({
      [ANNOTATION]: "10.1.0.0/24",
      "network.tortie.dev/ipv6-pod-cidr": "fd44::/64",
      "network.tortie.dev/ipv4-router-ip": "10.1.0.1",
      "network.tortie.dev/ipv4-health-ip": "10.1.0.2",
      "network.tortie.dev/ipv6-router-ip": "fd44::1",
      "network.tortie.dev/ipv6-health-ip": "fd44::2",
      "network.tortie.dev/pod-cidr-source": "ipv4=spec,ipv6=spec",
    });
    await world.clock.advance(120_000);
    expect(world.cluster.patches).toBe(1);
    expect(JSON.parse(readFileSync(world.files.nodeRecord, "utf8"))).toMatchObject({
      node: "node1",
      "boot-id": BOOT_ID,
      ipv4: { cidr: "10.1.0.0/24", source: "spec", router: "10.1.0.1", health: "10.1.0.2" },
    });
    expect(nodeCidr.waiting).toBeUndefined();
    expect(await world.grant(nodeCidr, "pod")).toEqual(["fd44::3", "10.1.0.3"]);
  });

  it("A-C06, A-C08: are waited for, with the cause every half minute, and known when the object brings them", async () => {
    const nodeCidr = await world.start({ "require-ipv4-pod-cidr": true });
    expect(nodeCidr.waiting).toMatchObject({ what: "node-object", cause: "node node1 does not exist" });
    world.cluster.put({});
    await world.clock.advance(100_000);
    expect(nodeCidr.waiting).toMatchObject({ what: "node-cidr-missing", cause: "required IPv4 pod CIDR not present in node resource" });
    expect(world.log.filter((line) => line.includes("required IPv4 pod CIDR"))).toHaveLength(4);
    await expect(world.grant(nodeCidr, "pod")).rejects.toMatchObject({ word: "node-cidr-missing", code: 11 });
    world.cluster.put({ podCIDR: "10.1.0.0/24" });
    await settled();
    expect(nodeCidr.waiting).toBeUndefined();
    expect(await world.grant(nodeCidr, "pod")).toEqual(["10.1.0.3"]);
  });

  it("are waited for with the cause of this moment, and for as long as something else is missing with that", async () => {
    world.cluster.isReachable = false;
    const nodeCidr = await world.start({ "require-ipv4-pod-cidr": true });
    expect([nodeCidr.waiting?.cause, nodeCidr.hasRecord]).toEqual(["connection refused", false]);
    world.cluster.isReachable = true;
    expect(nodeCidr.waiting?.cause).toBe("node node1 does not exist");
    world.cluster.put({});
    await settled();
    world.cluster.isReachable = false;
    expect(nodeCidr.waiting).toMatchObject({ what: "node-cidr-missing", cause: "required IPv4 pod CIDR not present in node resource" });
  });

  it("are looked for once, and said and written when they change, not at every look", async () => {
    world.cluster.put({ podCIDR: "10.1.0.0/29" });
    let begun = 0;
    const nodeCidr = await world.start(
      {},
      {
        cluster: () => {
          begun++;
          return world.cluster;
        },
      },
    );
    nodeCidr.start();
    await settled();
    const written = statSync(world.files.nodeRecord).ino;
    await world.clock.advance(90_000);
    expect([begun, nodeCidr.hasRecord, statSync(world.files.nodeRecord).ino]).toEqual([1, true, written]);
    expect(world.log).toEqual(["ranges of this node: 10.1.0.0/29 (spec)"]);

    world.host = { addresses: [], routes: [{ destination: prefix("10.1.0.4/30"), link: "eth1", leadsElsewhere: true }] };
    await world.clock.advance(30_000);
    expect(readFileSync(world.files.nodeRecord, "utf8")).toContain("10.1.0.4/30");
    world.cluster.put({ podCIDR: "10.2.0.0/29" });
    await settled();
    expect(world.log).toContain("ranges of this node: 10.2.0.0/29 (spec)");
  });

  it("G10: of its own making are compared with those of other nodes at every look, and not taken while that fails", async () => {
    world.cluster.put({});
    world.host = HOST;
    let lists = 0;
    let isFailing = true;
    world.cluster.list = async () => {
      lists++;
      if (isFailing) throw new Error("500");
      return world.cluster.nodes;
    };
    const nodeCidr = await world.start({ "ipv4-range": "auto-host" });
    expect(nodeCidr.record).toBeUndefined();
    expect(nodeCidr.waiting).toMatchObject({ what: "node-list", cause: "500" });
    isFailing = false;
    await world.clock.advance(10_000);
    expect(nodeCidr.record?.ipv4?.cidr).toEqual(prefix("10.7.0.0/16"));
    expect(await world.grant(nodeCidr, "pod")).toContain("10.7.0.3");
    await settled();
    const { patches } = world.cluster;
    lists = 0;
    await world.clock.advance(300_000);
    expect([lists, world.cluster.patches]).toEqual([10, patches]);

    isFailing = true;
    world.host = { ...world.host, routes: [{ destination: prefix("10.7.4.0/30"), link: "eth1", leadsElsewhere: true }] };
    await world.clock.advance(30_000);
    expect(nodeCidr.waiting).toBeUndefined();
    expect(readFileSync(world.files.nodeRecord, "utf8")).toContain("10.7.4.0/30");
  });

  it("of its own making come from the address that the flags name, of their own family", async () => {
    const nodeCidr = await world.start(
      { "ipv4-range": "auto-host", "ipv4-node": "192.0.2.9", "ipv6-node": "2001:db8::8" },
      { cluster: undefined },
    );
    expect(nodeCidr.record?.ipv4).toMatchObject({ cidr: prefix("10.9.0.0/16"), source: "automatic" });
  });

  it("are given up after --node-wait where --node-wait-fatal says so, and not before", async () => {
    const end = jest.fn();
    await world.start({}, { giveUp: { afterMs: 600_000, end } });
    await world.clock.advance(590_000);
    expect(end).not.toHaveBeenCalled();
    await world.clock.advance(30_000);
    expect(end).toHaveBeenCalledWith(expect.stringContaining("Unable to derive PodCIDR from Kubernetes node resource, giving up"));
  });

  it("A-C07: are those of node.json while the API server is away, and no automatic ones", async () => {
    world.cluster.put({ podCIDR: "10.1.0.0/24" });
    await world.grant(await world.start(), "pod");
    world.cluster.isReachable = false;
    const restarted = await world.start({ "ipv4-range": "auto-host" });
    await world.clock.advance(300_000);
    expect(restarted.waiting).toMatchObject({ what: "node-object", cause: "connection refused" });
    expect(await world.grant(restarted, "second")).toEqual(["10.1.0.4"]);
    world.cluster.isReachable = true;
    world.cluster.tell();
    await settled();
    expect(restarted.waiting).toBeUndefined();
    expect(restarted.record?.ipv4).toMatchObject({ cidr: prefix("10.1.0.0/24"), source: "spec" });
  });

  it("A-C09: of its own making are refused while another node has them, and taken when it has not any more", async () => {
    world.cluster.put({ name: "node2", annotations: { [ANNOTATION]: "10.7.0.0/16" } });
    world.cluster.put({});
    world.host = HOST;
    const nodeCidr = await world.start({ "ipv4-range": "auto-host" });
    expect(nodeCidr.waiting).toMatchObject({ what: "range-overlap", cause: expect.stringContaining("node2") });
    expect(nodeCidr.record).toBeUndefined();
    world.cluster.put({ name: "node2" });
    await settled();
    expect(nodeCidr.record?.ipv4).toMatchObject({ cidr: prefix("10.7.0.0/16"), source: "automatic" });
  });

  it("G10: of its own making give no more addresses when an older node turns out to have them, neither here nor to plugins", async () => {
    world.cluster.put({});
    world.host = HOST;
    const nodeCidr = await world.start({ "ipv4-range": "auto-host", "enable-ipv6": false });
    await settled();
    expect(await world.grant(nodeCidr, "pod")).toEqual(["10.7.0.3"]);
    expect(world.annotations()).toMatchObject({ [ANNOTATION]: "10.7.0.0/16", [SOURCE]: "ipv4=automatic" });

    const annotations = { [ANNOTATION]: "10.7.0.0/16", [SOURCE]: "ipv4=automatic" };
    world.cluster.put({ name: "node2", createdAt: "2026-11-19T10:00:00Z", annotations });
    await world.clock.advance(30_000);
    expect(nodeCidr.waiting).toMatchObject({ what: "range-overlap", cause: expect.stringContaining("node2") });
    await expect(world.grant(nodeCidr, "late")).rejects.toMatchObject({ word: "node-cidr-missing" });
    expect(existsSync(world.files.nodeRecord)).toBe(false);
    expect(world.annotations()).toEqual({});
    expect(await nodeCidr.hostScope.heldBy({ kind: "name", name: "pod" })).toHaveLength(1);

    world.cluster.put({ name: "node2", createdAt: "2026-11-19T10:00:00Z" });
    await world.clock.advance(30_000);
    expect(await world.grant(nodeCidr, "late")).toEqual(["10.7.0.4"]);
  });

  it("G10: of its own making are not taken where no other node could see that", async () => {
    world.cluster.put({});
    world.host = HOST;
    const nodeCidr = await world.start({ "ipv4-range": "auto-host" }, { annotates: false });
    expect(nodeCidr.waiting).toMatchObject({ what: "node-cidr-missing", cause: expect.stringContaining("--annotate-k8s-node") });
    expect([nodeCidr.record, world.cluster.patches]).toEqual([undefined, 0]);
  });

  it("G19: are not those that node.json of this boot has of another name of the node, and plugins do not use them either", async () => {
    world.cluster.put({ podCIDR: "10.1.0.0/24" });
    expect(await world.grant(await world.start(), "pod")).toEqual(["10.1.0.3"]);
    world.cluster.isReachable = false;
    const renamed = await world.start({}, { node: "node9" });
    expect(renamed.record).toBeUndefined();
    expect(renamed.hasRecord).toBe(true);
    await expect(world.grant(renamed, "late")).rejects.toMatchObject({ word: "node-cidr-missing" });
    expect(existsSync(world.files.nodeRecord)).toBe(false);
    expect(world.log).toContainEqual(expect.stringContaining("is of node node1, and this is node node9"));
  });

  it("A-C10: change while pods keep what they have; the router's address follows the range", async () => {
    world.cluster.put({ podCIDR: "10.1.0.0/24" });
    const first = await world.start();
    for (const name of ["a", "b", "c"]) await world.grant(first, name);
    world.cluster.put({ podCIDR: "10.2.0.0/24" });
    const second = await world.start();
    expect(await world.grant(second, "d")).toEqual(["10.2.0.3"]);
    for (const name of ["a", "b", "c"]) expect(await second.hostScope.heldBy({ kind: "name", name })).toHaveLength(1);
    expect(world.annotations()).toMatchObject({ [ANNOTATION]: "10.2.0.0/24", "network.tortie.dev/ipv4-router-ip": "10.2.0.1" });
    expect(await second.hostScope.releaseAll(({ owner }) => owner.kind === "name" && owner.name === "a")).toHaveLength(1);
  });

  it("keep the router's address over a restart, and over a reboot by the annotation", async () => {
    const annotations = { "network.tortie.dev/ipv4-router-ip": "10.1.0.77", "network.tortie.dev/ipv4-health-ip": "10.9.0.1" };
    world.cluster.put({ podCIDR: "10.1.0.0/24", annotations });
    expect((await world.start()).record?.ipv4).toMatchObject({ router: address("10.1.0.77"), health: address("10.1.0.1") });
    expect((await world.start()).record?.ipv4).toMatchObject({ router: address("10.1.0.77"), health: address("10.1.0.1") });
  });

  it("are used although there is no room for the node's own addresses", async () => {
    world.cluster.put({ podCIDR: "10.1.0.0/31" });
    const nodeCidr = await world.start();
    expect(nodeCidr.waiting).toBeUndefined();
    expect(world.log).toContain("Unable to allocate router IP for family IPv4: the range is full");
  });

  it("A-C11: are annotated again when somebody changes that; a role without the right costs a warning", async () => {
    world.cluster.put({ podCIDR: "10.1.0.0/24" });
    const nodeCidr = await world.start();
    await settled();
    const { [ANNOTATION]: _, ...others } = world.annotations();
    world.cluster.put({ podCIDR: "10.1.0.0/24", annotations: others });
    await settled();
    expect(world.annotations()[ANNOTATION]).toBe("10.1.0.0/24");

    world.cluster.mayPatch = false;
    world.cluster.put({ podCIDR: "10.1.0.0/24", annotations: others });
    await settled();
    const [, status] = world.controllers.statuses();
    expect(status?.status["last-failure-msg"]).toContain("forbidden");
    expect(await world.grant(nodeCidr, "pod")).toEqual(["10.1.0.3"]);
    world.cluster.mayPatch = true;
    await world.clock.advance(60_000);
    expect(world.annotations()[ANNOTATION]).toBe("10.1.0.0/24");
  });

  it("are not annotated, and have no router's address, where host scope is not the node's mode", async () => {
    world.cluster.put({ podCIDR: "10.1.0.0/24" });
    const nodeCidr = await world.start({}, { isHostScopeNode: false });
    expect(world.annotations()).toEqual({});
    expect(await world.grant(nodeCidr, "pod")).toEqual(["10.1.0.1"]);
  });

  it("A-I04: exclude a route that came later, and forget it when it is gone", async () => {
    world.cluster.put({ podCIDR: "10.1.0.0/29" });
    const nodeCidr = await world.start({}, { isHostScopeNode: false });
    world.host = { addresses: [], routes: [{ destination: prefix("10.1.0.0/30"), link: "eth1", leadsElsewhere: true }] };
    await world.clock.advance(30_000);
    expect(await world.grant(nodeCidr, "pod")).toEqual(["10.1.0.4"]);
    world.host = { addresses: [], routes: [] };
    await world.clock.advance(30_000);
    expect(await world.grant(nodeCidr, "second")).toEqual(["10.1.0.1"]);
  });
});
