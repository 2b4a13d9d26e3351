/** The ranges of a node on a real API server, as the agent's own account: where they come from, and what is written back (A§1). */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ANNOTATING, NodeCidr } from "../../../agent/addresses/ranges/node-cidr.ts";
import { nodeObjects } from "../../../agent/addresses/ranges/node-object.ts";
import { type NodeCidrFlags, nodeCidrOptions } from "../../../agent/addresses/ranges/options.ts";
import { hostScopeFiles } from "../../../ipam-plugin/host-scope/files.ts";
import { formatAddress, formatPrefix, parseAddress } from "../../../lib/addresses/address.ts";
import type { ApiConnection } from "../../../lib/kubernetes/client/connection.ts";
import { Informers } from "../../../lib/kubernetes/watch/informers.ts";
import { Tasks } from "../../../lib/resident/tasks.ts";
import { SYSTEM_CLOCK } from "../../../lib/system/waiting.ts";
import { Agent } from "../../support/agent.ts";
import { localConf } from "../../support/conf.ts";
import { ending, fresh, shared, TemporaryDirectory } from "../../support/fixtures.ts";
import { connectNode } from "../../support/kubernetes/connect-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { Node } from "../../support/node.ts";
import { RANGE_FLAGS } from "../../support/range-flags.ts";
import { openConnection } from "./open-connection.ts";

const BOOT_ID = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
const RANGE = "network.tortie.dev/ipv4-pod-cidr";
const SOURCE = "network.tortie.dev/pod-cidr-source";

/** The part of a node's agent that these tests are about. */
class RangesOfNode implements AsyncDisposable {
  readonly log: string[] = [];
  readonly nodeCidr: NodeCidr;
  readonly controllers = new Tasks();
  readonly #informers: Informers;

  constructor(name: string, connection: ApiConnection, run: string, flags: Partial<NodeCidrFlags>) {
    const informers = new Informers(connection);
    this.#informers = informers;
    mkdirSync(join(run, "state"), { recursive: true });
    this.nodeCidr = new NodeCidr({
      options: nodeCidrOptions({ ...RANGE_FLAGS, ...flags }),
      node: name,
      bootId: BOOT_ID,
      files: hostScopeFiles(run),
      strategy: "contiguous",
      cooldownMs: 0,
      isHostScopeNode: true,
      annotates: true,
      cluster: () => nodeObjects(connection, informers, name),
      readHost: () => ({
        addresses: [{ address: parseAddress("192.0.2.7") ?? { family: 4, value: 0n }, link: "eth0", isUp: true, scope: 0 }],
        routes: [],
      }),
      controllers: this.controllers,
      clock: SYSTEM_CLOCK,
      log: { info: (message) => this.log.push(message), error: (message) => this.log.push(message) },
    });
    this.nodeCidr.start();
  }

  get waitsFor(): string | undefined {
    return this.nodeCidr.waiting?.cause;
  }

  get ranges(): readonly string[] {
    const { ipv4, ipv6 } = this.nodeCidr.record ?? {};
    return [ipv4, ipv6].flatMap((one) => (one === undefined ? [] : [`${formatPrefix(one.cidr)} ${one.source}`]));
  }

  get state(): "has" | "refused" | "waits" {
    const { waiting, record } = this.nodeCidr;
    if (waiting === undefined) return "has";
    return waiting.what === "range-overlap" && record === undefined ? "refused" : "waits";
  }

  /** How often the annotations were written. */
  get written(): number {
    return this.controllers.statuses().find(({ name }) => name === ANNOTATING)?.status["success-count"] ?? 0;
  }

  async known(): Promise<void> {
    await until("the ranges", () => this.nodeCidr.waiting === undefined);
  }

  async grant(name: string): Promise<string[]> {
    return (await this.nodeCidr.hostScope.grant({ owner: { kind: "name", name } })).map(({ address }) => formatAddress(address));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#informers[Symbol.asyncDispose]();
    await this.controllers[Symbol.asyncDispose]();
  }
}

const cluster = shared(startCluster);
beforeEach(() => cluster.reset());
const proxy = fresh(() => cluster.proxy());
const connection = fresh(() => openConnection(proxy, "agent"));
const run = fresh(() => new TemporaryDirectory());

function start(name: string, flags: Partial<NodeCidrFlags> = {}, directory = run.path): RangesOfNode {
  return ending(new RangesOfNode(name, connection, directory, flags));
}

async function change(name: string, patch: unknown): Promise<void> {
  const { status, text } = await cluster.api("PATCH", `/api/v1/nodes/${name}`, patch);
  if (status !== 200) throw new Error(text);
}

async function annotations(name: string): Promise<Readonly<Record<string, string>>> {
  const node = await cluster.get("v1", "nodes", name);
  const { metadata } = node as { readonly metadata: { readonly annotations?: Readonly<Record<string, string>> } };
  return metadata.annotations ?? {};
}

async function annotated(name: string, wanted: Readonly<Record<string, string>>): Promise<void> {
  await until(`annotations of ${name}`, async () => {
    const found = await annotations(name);
    return Object.entries(wanted).every(([key, value]) => found[key] === value);
  });
}

describe("the ranges of a node on Kubernetes", () => {
  it("A-C01: come from the spec, and are annotated by one request to nodes/status", async () => {
    await cluster.createNode("node-a", {}, { podCIDR: "10.1.0.0/24", podCIDRs: ["10.1.0.0/24", "fd44:1::/64"] });
    const ranges = start("node-a");
    await ranges.known();
    expect(ranges.ranges).toEqual(["10.1.0.0/24 spec", "fd44:1::/64 spec"]);
    await annotated("node-a", {
      [RANGE]: "10.1.0.0/24",
      "network.tortie.dev/ipv6-pod-cidr": "fd44:1::/64",
      "network.tortie.dev/ipv4-router-ip": "10.1.0.1",
      "network.tortie.dev/ipv4-health-ip": "10.1.0.2",
      [SOURCE]: "ipv4=spec,ipv6=spec",
    });
    // It ends when the watch has shown them; a next start has nothing to write.
    await until("the end of the writing", () => ranges.written >= 1);
    await ranges[Symbol.asyncDispose]();
    const again = start("node-a");
    await again.known();
    const patches = proxy.requests.filter(({ method }) => method === "PATCH");
    expect(patches.map(({ path }) => path)).toEqual(["/api/v1/nodes/node-a/status"]);
  });

  it("A-C04: come from the spec where the annotation says something else, which is rewritten", async () => {
    await cluster.createNode("node-a", {}, { podCIDR: "10.1.0.0/24", podCIDRs: ["10.1.0.0/24"] });
    await change("node-a", { metadata: { annotations: { [RANGE]: "10.9.0.0/24", "example.com/other": "kept" } } });
    const ranges = start("node-a");
    await ranges.known();
    expect(ranges.ranges).toEqual(["10.1.0.0/24 spec"]);
    await annotated("node-a", { [RANGE]: "10.1.0.0/24", "example.com/other": "kept" });
  });

  it("A-C05: come from the flag before everything else", async () => {
    await cluster.createNode("node-a", {}, { podCIDR: "10.1.0.0/24", podCIDRs: ["10.1.0.0/24"] });
    const ranges = start("node-a", { "ipv4-range": "10.7.0.0/24" });
    await ranges.known();
    expect(ranges.ranges).toEqual(["10.7.0.0/24 flag"]);
    await annotated("node-a", { [RANGE]: "10.7.0.0/24", [SOURCE]: "ipv4=flag" });
  });

  it("A-C06: are waited for when the node object must bring them, and are known as soon as it does", async () => {
    const ranges = start("node-a", { "require-ipv4-pod-cidr": true });
    await until("the wait for the object", () => ranges.waitsFor === "node node-a does not exist");
    await cluster.createNode("node-a");
    await until("the wait for the range", () => ranges.waitsFor === "required IPv4 pod CIDR not present in node resource");
    await expect(ranges.grant("pod")).rejects.toMatchObject({ word: "node-cidr-missing", code: 11 });
    await change("node-a", { spec: { podCIDR: "10.1.0.0/24", podCIDRs: ["10.1.0.0/24"] } });
    await ranges.known();
    expect(await ranges.grant("pod")).toEqual(["10.1.0.3"]);
  });

  it("A-C07, A-C08: wait for an API server that is away; those of node.json stand in, and no automatic ones", async () => {
    await cluster.createNode("node-a", {}, { podCIDR: "10.1.0.0/24", podCIDRs: ["10.1.0.0/24"] });
    const first = start("node-a");
    await first.known();
    for (const name of ["a", "b", "c", "d", "e"]) await first.grant(name);
    await first[Symbol.asyncDispose]();
    proxy.refuse();
    proxy.breakConnections();

    const without = start("node-b", { "ipv4-range": "auto-host" }, join(run.path, "fresh"));
    const restarted = start("node-a", { "ipv4-range": "auto-host" });
    for (const ranges of [without, restarted]) {
      await until("a failed try", () => ranges.waitsFor !== undefined && !ranges.waitsFor.includes("not been read yet"));
    }
    expect(without.ranges).toEqual([]);
    await expect(without.grant("pod")).rejects.toMatchObject({ word: "node-cidr-missing" });
    expect(await restarted.grant("f")).toEqual(["10.1.0.8"]);
    expect(await restarted.nodeCidr.hostScope.releaseAll(({ owner }) => owner.kind === "name" && owner.name === "a")).toHaveLength(1);

    proxy.accept();
    await restarted.known();
    expect(restarted.ranges).toEqual(["10.1.0.0/24 spec"]);
    for (const name of ["b", "c", "d", "e"]) expect(await restarted.nodeCidr.hostScope.heldBy({ kind: "name", name })).toHaveLength(1);
  });

  it("A-C09: of their own making are refused to the second of two nodes whose addresses end alike", async () => {
    await cluster.createNode("node-a");
    await cluster.createNode("node-b");
    const first = start("node-a", { "ipv4-range": "auto-host" });
    await first.known();
    await annotated("node-a", { [RANGE]: "10.7.0.0/16", [SOURCE]: "ipv4=automatic" });
    const second = start("node-b", { "ipv4-range": "auto-host" }, join(run.path, "second"));
    await until("the refusal", () => second.nodeCidr.waiting?.what === "range-overlap");
    expect(second.waitsFor).toContain("overlaps with 10.7.0.0/16 of node node-a");
    expect(second.ranges).toEqual([]);
  });

  it("G10: of their own making are one node's when two begin together, and the other's as soon as that is gone", async () => {
    await cluster.createNode("node-a");
    await cluster.createNode("node-b");
    // Each agent has asked for the nodes before the other one has written anything.
    proxy.on({ method: "PATCH", times: 2 }, { kind: "delay", ms: 1_000 });
    const flags = { "ipv4-range": "auto-host", "enable-ipv6": false };
    const both = [start("node-a", flags), start("node-b", flags, join(run.path, "second"))];
    const [first, second] = both;
    await until(
      "a range for one and a refusal for the other",
      () =>
        both
          .map(({ state }) => state)
          .sort()
          .join() === "has,refused",
    );
    expect([first?.state, second?.state]).toEqual(["has", "refused"]);
    expect(await first?.grant("pod")).toEqual(["10.7.0.3"]);
    await expect(second?.grant("pod")).rejects.toMatchObject({ word: "node-cidr-missing" });
    await annotated("node-a", { [RANGE]: "10.7.0.0/16", [SOURCE]: "ipv4=automatic" });
    expect(await annotations("node-b")).toEqual({});

    if (first !== undefined) await first[Symbol.asyncDispose]();
    await cluster.remove("v1", "nodes", "node-a");
    await change("node-b", { metadata: { labels: { looked: "again" } } });
    await until("the range for the other", () => second?.state === "has");
    await annotated("node-b", { [RANGE]: "10.7.0.0/16", [SOURCE]: "ipv4=automatic" });
  });

  it("G10: that two nodes have already stay with the older one", async () => {
    const held = { metadata: { annotations: { [RANGE]: "10.7.0.0/16", [SOURCE]: "ipv4=automatic" } } };
    for (const name of ["node-a", "node-b"]) {
      await cluster.createNode(name);
      await change(name, held);
    }
    const flags = { "ipv4-range": "auto-host", "enable-ipv6": false };
    const second = start("node-b", flags, join(run.path, "second"));
    await until("the refusal", () => second.state === "refused");
    const first = start("node-a", flags);
    await until("the range", () => first.state === "has");
    expect(await annotations("node-b")).toEqual({});
  });

  it("A-C10: change with the node object; pods keep what they have", async () => {
    await cluster.createNode("node-a", {}, { podCIDR: "10.1.0.0/24", podCIDRs: ["10.1.0.0/24"] });
    const ranges = start("node-a");
    await ranges.known();
    for (const name of ["a", "b", "c"]) await ranges.grant(name);
    // A node's pod CIDR never changes: the object is made again.
    await cluster.remove("v1", "nodes", "node-a");
    await cluster.createNode("node-a", {}, { podCIDR: "10.2.0.0/24", podCIDRs: ["10.2.0.0/24"] });
    await until("the new range", () => ranges.ranges[0] === "10.2.0.0/24 spec" && ranges.waitsFor === undefined);
    expect(await ranges.grant("d")).toEqual(["10.2.0.3"]);
    for (const name of ["a", "b", "c"]) expect(await ranges.nodeCidr.hostScope.heldBy({ kind: "name", name })).toHaveLength(1);
    await annotated("node-a", { [RANGE]: "10.2.0.0/24" });
  });

  it("A-C11: are annotated again when somebody takes that away; a refusal costs a warning and nothing else", async () => {
    await cluster.createNode("node-a", {}, { podCIDR: "10.1.0.0/24", podCIDRs: ["10.1.0.0/24"] });
    const ranges = start("node-a");
    await annotated("node-a", { [RANGE]: "10.1.0.0/24" });
    await change("node-a", { metadata: { annotations: { [RANGE]: null } } });
    await annotated("node-a", { [RANGE]: "10.1.0.0/24" });

    proxy.on({ method: "PATCH", path: "/status", times: 2 }, { kind: "answer", status: 403, message: "nodes/status is forbidden" });
    await change("node-a", { metadata: { annotations: { [RANGE]: "10.66.0.0/24" } } });
    const writing = () => ranges.controllers.statuses().find(({ name }) => name === ANNOTATING)?.status;
    await until("the refusal", () => (writing()?.["failure-count"] ?? 0) > 0);
    expect(ranges.waitsFor).toBeUndefined();
    expect(await ranges.grant("pod")).toEqual(["10.1.0.3"]);
    await annotated("node-a", { [RANGE]: "10.1.0.0/24" });
  });
});

describe("a whole agent on Kubernetes", () => {
  it("A-C01, A-C06: is not ready before its node has a range, and gives addresses of it when it has", async () => {
    await cluster.createNode("node1");
    await using node = await Node.create();
    await connectNode(node, cluster);
    const flags = ["--ipam", "host-scope", "--ipam-strategy", "contiguous", "--enable-ipv6", "false"];
    await using agent = await Agent.start(node, { args: [...flags, "--kubeconfig", await cluster.kubeconfigFor("agent")], until: "local" });
    const health = async () => JSON.stringify((await agent.request("GET", "/healthz")).json);
    await agent.until("the wait", async () => (await health()).includes("node node1 has no pod CIDR"));
    expect(await health()).toContain('"ready":false');
    const conf = localConf(node, { ipam: { type: "tortie-host-scope" }, cniVersion: "1.1.0", ...agent.netconf });
    const pod = await node.addPod();
    expect(await node.cni("ADD", { pod, conf })).toMatchObject({
      exit: 1,
      json: { code: 11, details: expect.stringContaining("node-cidr-missing") },
    });
    await change("node1", { spec: { podCIDR: "10.1.0.0/24", podCIDRs: ["10.1.0.0/24"] } });
    await agent.until("readiness", async () => (await health()).includes('"ready":true'));
    expect(await node.cni("ADD", { pod, conf })).toMatchObject({ exit: 0, json: { ips: [{ address: "10.1.0.3/32" }] } });
    await annotated("node1", { [RANGE]: "10.1.0.0/24", [SOURCE]: "ipv4=spec" });
    expect(await node.cni("DEL", { pod, conf })).toMatchObject({ exit: 0 });
  });
});
