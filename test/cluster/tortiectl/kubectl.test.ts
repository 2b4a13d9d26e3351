/**
 * `kubectl tortie` and the page of `tortiectl ui --kubeconfig` about a cluster of three nodes with real agents: what objects say, as the
 * administrator and as somebody who may little.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import type { About, Answer, LiveName, PodDocument, PoolsDocument, RoutesDocument } from "../../../ui/contract.ts";
import { HAS_CHROMIUM, NodeBrowser, type Place, UiProcess } from "../../support/browser.ts";
import { ending, shared, TemporaryDirectory } from "../../support/fixtures.ts";
import { type EndedProgram, runProgram } from "../../support/kubernetes/process.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR } from "../../support/node.ts";
import { NAMESPACE, ThreeNodes, type WorldPod } from "../../support/three-nodes.ts";

const cluster = shared(startCluster);
const folder = shared(async () => new TemporaryDirectory());
const world = shared(() => ThreeNodes.create(cluster));
let pods: readonly WorldPod[];
let admin: string;

beforeAll(async () => {
  admin = await cluster.kubeconfigFor("admin");
  await world.pool("pool4", "10.71.0.0/24", { vxlanMode: "CrossSubnet" });
  await world.pool("pool6", "fd71::/112", { vxlanMode: "CrossSubnet" });
  // The third writes no objects.
  await Promise.all(world.machines.map((machine, at) => machine.startAgent({ args: at < 2 ? ["--endpoint-objects"] : [] })));
  pods = await Promise.all(world.machines.map((machine, at) => world.addPod(machine, `pod${at + 1}`)));
  await until("two objects", async () => (await cluster.list("tortie.dev/v1alpha1", "tortieendpoints", NAMESPACE)).length === 2);
});

function kubectlTortie(args: readonly string[], kubeconfig = admin): Promise<EndedProgram> {
  return runProgram(join(BIN_DIR, "kubectl-tortie"), args, { HOME: folder.path, KUBECONFIG: kubeconfig });
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

it("kubectl get tortieendpoints prints where each pod is, how it is and which addresses it has", async () => {
  const headers = { Accept: "application/json;as=Table;v=v1;g=meta.k8s.io" };
  const path = `/apis/tortie.dev/v1alpha1/namespaces/${NAMESPACE}/tortieendpoints`;
  const { text } = await cluster.apiAs(await cluster.tokenFor("admin"), "GET", path, undefined, { headers });
  const { columnDefinitions, rows }: Table = JSON.parse(text);
  const shown = columnDefinitions.flatMap(({ name, priority }, at) => (priority === 0 ? [{ name, at }] : []));
  expect(shown.map(({ name }) => name)).toEqual(["Name", "Node", "State", "IPv4", "IPv6", "Age", "Problem"]);
  expect(columnDefinitions.filter(({ priority }) => priority === 1).map(({ name }) => name)).toEqual(["Endpoint", "Identity", "Container"]);
  expect(rows.map(({ cells }) => shown.map(({ at }) => cells[at]))).toEqual(
    pods
      .slice(0, 2)
      .map(({ name, machine, ipv4, ipv6 }) => [name, machine.name, "ready", ipv4, ipv6, expect.stringMatching(/^\d+[sm]/), null]),
  );
});

interface Table {
  readonly columnDefinitions: readonly { readonly name: string; readonly priority: number }[];
  readonly rows: readonly { readonly cells: readonly unknown[] }[];
}

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
      stderr: expect.stringMatching(/cannot list resource "pods"[\s\S]*\(datastore-forbidden\)/),
    });
  });
});

/** Reads a stream of server-sent events. @returns the first event of that name that is wanted */
async function eventOf<T>(url: string, name: LiveName | "about", isWanted: (data: T) => boolean, heard: () => void = () => undefined) {
  const response = await fetch(`${url}events`, { signal: AbortSignal.timeout(60_000) });
  let text = "";
  for await (const part of (response.body ?? never()).pipeThrough(new TextDecoderStream())) {
    text += part;
    heard();
    const whole = text.split("\n\n");
    text = whole.pop() ?? "";
    for (const event of whole) {
      const [, kind, data = ""] = /^event: (\w+)\ndata: (.*)$/.exec(event) ?? [];
      if (kind !== name) continue;
      const said: T = JSON.parse(data);
      if (isWanted(said)) return said;
    }
  }
  throw new Error(`the stream ended before ${name}`);
}

function never(): never {
  throw new Error("there is no stream");
}

describe("tortiectl ui --kubeconfig", () => {
  const here = (): Place => ({ dir: folder.path, commandLine: (argv) => ["/usr/bin/env", `HOME=${folder.path}`, ...argv] });
  const start = async (kubeconfig = admin) => ending(await UiProcess.start(here(), ["--kubeconfig", kubeconfig]));
  const asked = async <T>({ url }: UiProcess, question: string): Promise<Answer<T>> =>
    JSON.parse(await (await fetch(`${url}ask/${question}`)).text());

  it("answers each view as the command says that it names", async () => {
    const ui = await start();
    expect(await eventOf<About>(ui.url, "about", () => true)).toMatchObject({ scope: "cluster" });
    const [first] = pods;
    for (const question of ["pools", "pods", `address?ip=${first?.ipv4}`, `explain?kind=ip&name=${first?.ipv4}`, "doctor"]) {
      const { command, status, answer } = await asked(ui, question);
      expect(command).toMatch(/^kubectl tortie .*--json$/);
      const run = await kubectlTortie(command.split(" ").slice(2), "/nowhere");
      expect({ question, status, answer: timeless(answer) }).toEqual({
        question,
        status: run.exit,
        answer: timeless(JSON.parse(run.stdout)),
      });
    }
    const { answer } = await asked<readonly PodDocument[]>(ui, "pods");
    expect(answer).toHaveLength(pods.length);
    // What only a node knows is no question of a cluster.
    expect((await fetch(`${ui.url}ask/routes`)).status).toBe(404);
    expect((await fetch(new URL("/ask/pods", ui.url))).status).toBe(401);
    expect(await ui.stop()).toBe(0);
  });

  it("says to an account without rights what it may not see", async () => {
    const ui = await start(await cluster.kubeconfigFor("stranger"));
    for (const question of ["pools", "pods"]) {
      expect(await asked(ui, question)).toMatchObject({ status: 1, answer: { error: { word: "datastore-forbidden" } } });
    }
  });

  it("tells of a pod that is added, and of one that is removed, and shows them in a browser", async () => {
    const ui = await start();
    await using browser = HAS_CHROMIUM ? await NodeBrowser.start(here()) : undefined;
    const page = await browser?.open(`${ui.url}#/endpoints`);
    const row = page?.getByRole("row", { name: `${NAMESPACE}/late` });
    await page?.getByRole("row", { name: `${NAMESPACE}/pod1` }).waitFor();
    expect(await row?.count()).toBe(page === undefined ? undefined : 0);
    const has = (name: string) => (said: Answer<readonly PodDocument[]>) =>
      "error" in said.answer ? false : said.answer.some(({ pod, addresses }) => pod === name && addresses.length > 0);
    const used = ({ answer }: Answer<PoolsDocument>) =>
      "error" in answer ? [] : answer.pools.map(({ used, borrowed }) => Number(used) + Number(borrowed));
    const [machine] = world.machines;
    if (machine === undefined) throw new Error("no machine");
    const before = used(await asked(ui, "pools"));

    const late = await world.addPod(machine, "late");
    await eventOf(ui.url, "pods", has("late"));
    const more = before.map((one) => one + 1);
    await eventOf<Answer<PoolsDocument>>(ui.url, "pools", (said) => used(said).join() === more.join());
    await row?.waitFor();
    expect(await row?.textContent()).toEqual(page === undefined ? undefined : expect.stringContaining(late.ipv4));

    await world.removePod(late);
    await eventOf<Answer<readonly PodDocument[]>>(ui.url, "pods", (said) => !has("late")(said));
    await row?.waitFor({ state: "detached" });
    // A cluster has no such view.
    await page?.goto(`${ui.url}#/routes`);
    await page
      ?.getByRole("application", { name: /^Addresses of / })
      .first()
      .waitFor();
    expect((await browser?.settle()) ?? []).toEqual([]);
  });
});

it("tortiectl ui on a node shows the others with their direct and VXLAN routes, as tortiectl routes show says", async () => {
  const [machine] = world.machines;
  if (machine === undefined) throw new Error("no machine");
  const said = async (): Promise<RoutesDocument> =>
    JSON.parse((await machine.host.run([join(BIN_DIR, "tortiectl"), "routes", "show", "--json"])).stdout);
  const wayTo = ({ routes }: RoutesDocument, kind: string) => routes.filter((one) => one.kind === kind);
  await until("routes to both others, in both families", async () => {
    const answer = await said();
    return wayTo(answer, "direct").length === 2 && wayTo(answer, "vxlan").filter(({ peer }) => peer?.startsWith("172.20.2.")).length > 0;
  });
  const file = join(folder.path, "node.conf");
  writeFileSync(
    file,
    JSON.stringify({ cniVersion: "1.0.0", name: "n", type: "tortie", datastore_type: "kubernetes", kubernetes: { kubeconfig: admin } }),
  );
  const ui = ending(await UiProcess.start(machine.host, ["--socket", machine.agent.socket, "--conf", file]));
  const { exit, stdout } = await machine.host.run(["/usr/bin/curl", "-sS", `${ui.url}ask/routes`]);
  const { answer }: Answer<RoutesDocument> = JSON.parse(stdout);
  expect({ exit, answer }).toEqual({ exit: 0, answer: await said() });
  if (!HAS_CHROMIUM) return;
  await using browser = await NodeBrowser.start(machine.host);
  const page = await browser.open(`${ui.url}#/routes`);
  await page.getByText("2 nodes: 1 reached directly, 1 through VXLAN.").waitFor();
  const rows = await Promise.all((await page.locator("table.routes tbody tr").all()).map((row) => row.locator("th, td").allInnerTexts()));
  const ways = rows.map(([node, way, address]) => `${node} ${way} ${address}`);
  expect(ways).toEqual(expect.arrayContaining(["node2 direct 172.20.1.2", "node3 VXLAN 172.20.2.3"]));
  expect(await browser.settle()).toEqual([]);
});

/** Leaves out when a report was made, and what counts from then. */
function timeless(answer: unknown): unknown {
  const text = JSON.stringify(answer, (key, value) => (key === "time" ? undefined : value));
  return JSON.parse(text.replaceAll(/\b\d+(\.\d+)? (ms|s)\b/g, "TIME"));
}
