/** `kubectl tortie` about a cluster of three nodes with real agents: what objects say, as the administrator and as somebody who may little. */
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { shared, TemporaryDirectory } from "../../support/fixtures.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR } from "../../support/node.ts";
import { NAMESPACE, ThreeNodes, type WorldPod } from "../../support/three-nodes.ts";

const cluster = shared(startCluster);
const folder = shared(async () => new TemporaryDirectory());
let world: ThreeNodes;
let pods: readonly WorldPod[];
let admin: string;

afterAll(() => world?.[Symbol.asyncDispose]());
beforeAll(async () => {
  world = await ThreeNodes.create(cluster);
  admin = await cluster.kubeconfigFor("admin");
  await world.pool("pool4", "10.71.0.0/24");
  await world.pool("pool6", "fd71::/112");
  // The third writes no objects.
  await Promise.all(world.machines.map((machine, at) => machine.startAgent({ args: at < 2 ? ["--endpoint-objects"] : [] })));
  pods = await Promise.all(world.machines.map((machine, at) => world.addPod(machine, `pod${at + 1}`)));
  await until("two objects", async () => (await cluster.list("tortie.dev/v1alpha1", "tortieendpoints", NAMESPACE)).length === 2);
});

interface Run {
  readonly exit: number;
  readonly stdout: string;
  readonly stderr: string;
}

function kubectlTortie(args: readonly string[], kubeconfig = admin): Promise<Run> {
  const env = { HOME: folder.path, KUBECONFIG: kubeconfig };
  return new Promise((done) => {
    execFile(join(BIN_DIR, "kubectl-tortie"), args, { env, timeout: 60_000 }, (error, stdout, stderr) => {
      done({ exit: typeof error?.code === "number" ? error.code : error === null ? 0 : -1, stdout, stderr });
    });
  });
}

async function json(...args: readonly string[]) {
  const { exit, stdout, stderr } = await kubectlTortie([...args, "-o", "json"]);
  if (exit !== 0) throw new Error(stdout + stderr);
  return JSON.parse(stdout);
}

describe("kubectl tortie endpoints", () => {
  it("shows the pods of every node, with the agent's word where it writes one", async () => {
    const found = await json("endpoints", "-A");
    expect(found).toEqual(
      pods.map(({ name, machine, container, ipv4, ipv6 }, at) =>
        expect.objectContaining({
          ...{ namespace: NAMESPACE, pod: name, node: machine.name },
          ...(at < 2 ? { state: "ready", containerId: container, addresses: [ipv4, ipv6], endpoint: expect.any(Number) } : {}),
        }),
      ),
    );
    expect(found[2]).not.toHaveProperty("endpoint");
  });

  it("shows the namespace that is meant: an option's, the context's", async () => {
    const [first = ""] = pods.map(({ name }) => name);
    expect((await kubectlTortie(["endpoints", "-n", NAMESPACE, "-o", "wide"])).stdout).toMatch(
      new RegExp(`^POD +NODE +STATE +ADDRESSES +AGE +ENDPOINT +IDENTITY +CONTAINER +PROBLEM\\n${first} +node1 +ready `),
    );
    expect(await kubectlTortie(["endpoints"])).toMatchObject({ exit: 0, stdout: expect.not.stringContaining("pod1") });
    const file = join(folder.path, "with-namespace");
    const { contexts, ...others } = parse(readFileSync(admin, "utf8"));
    const named = contexts.map((one: { readonly context: object }) => ({ ...one, context: { ...one.context, namespace: NAMESPACE } }));
    writeFileSync(file, stringify({ ...others, contexts: named }));
    expect((await kubectlTortie(["endpoints"], file)).stdout).toContain(`${first} `);
    expect((await kubectlTortie(["endpoints", "--context", "nobody"])).stderr).toContain("(kubeconfig-invalid)");
  });
});

it("kubectl tortie ip says who has an address of any node, and blocks shows every node's", async () => {
  for (const { ipv4, ipv6, name, machine } of pods) {
    for (const address of [ipv4, ipv6]) {
      expect(await json("ip", address)).toMatchObject({ address, standing: "used", node: machine.name, pod: `${NAMESPACE}/${name}` });
    }
  }
  const blocks: readonly { readonly owner: string; readonly used: number; readonly capacity: number }[] = await json("blocks");
  for (const { name } of world.machines) {
    expect(blocks.filter(({ owner }) => owner === `host:${name}`).map(({ capacity }) => capacity)).toEqual([64, 64]);
  }
  const own = await kubectlTortie(["blocks", "--node", "node2"]);
  expect(own.stdout.split("\n").filter((line) => line.includes("node2"))).toHaveLength(2);
  expect(own.stdout).not.toContain("node1");
});

describe("what asks the nodes", () => {
  it("says of each node without a pod of the agent that nobody answers there", async () => {
    const { exit, stdout } = await kubectlTortie(["doctor", "--json"]);
    const { results }: { results: { check: string; status: string; object: string; word?: string }[] } = JSON.parse(stdout);
    expect(exit).toBe(1);
    expect(results.filter(({ check }) => check === "node-answers")).toEqual(
      world.machines.map(({ name }) => expect.objectContaining({ status: "failed", object: `node ${name}`, word: "agent-unreachable" })),
    );
  });

  it("finds the node of a pod, an address, a host interface and a container", async () => {
    const [first] = pods;
    if (first === undefined) throw new Error("no pod");
    const [link = {}] = await first.machine.host.ip("-j", "route", "get", first.ipv4);
    for (const subject of [
      ["pod", "pod1", "-n", NAMESPACE],
      ["ip", first.ipv4],
      ["interface", String(link.dev)],
      ["container", first.container],
    ]) {
      expect((await kubectlTortie(["explain", ...subject])).stderr).toContain("node node1 has no pod of tortie-node");
    }
    expect((await kubectlTortie(["explain", "pod", "nobody"])).stderr).toContain("the cluster has no pod of tortie-node");
  });

  it("says in a word what an account may not", async () => {
    const stranger = await cluster.kubeconfigFor("stranger");
    expect(await kubectlTortie(["endpoints", "-A"], stranger)).toMatchObject({
      ...{ exit: 1, stdout: "" },
      stderr: expect.stringMatching(/cannot list resource "pods"[\s\S]*\(datastore-unauthorized\)/),
    });
  });
});
