/** When nothing may be changed, or nobody answers: rows K37 to K40 of C§11.2, the ready flag, `-t`, STATUS, and a server that fails. */
import { join } from "node:path";
import { fresh, shared } from "../../support/fixtures.ts";
import type { ApiServerNode, ApiServerNodeOptions } from "../../support/kubernetes/api-server-node.ts";
import { connectNode } from "../../support/kubernetes/connect-node.ts";
import { BOTH_STORES, ETCD, PodStores, type Store } from "../../support/kubernetes/pod-stores.ts";
import { LEGACY } from "../../support/kubernetes/test-cluster.ts";
import { BIN_DIR, type RunResult } from "../../support/node.ts";

const stores = shared(PodStores.start);

/** What the ADD of the pod "second" and the DEL of the first one ask before they know whether the cluster is ready. */
const TOGETHER = [
  "get clusterinformations/default",
  "get namespaces/test/pods/second",
  "get namespaces/test",
  "get ipamhandles/net1.c1",
  "get ipamhandles/test.pod",
];

function pooled(options: Omit<ApiServerNodeOptions, "group" | "etcd"> = {}, store: Store = LEGACY): Promise<ApiServerNode> {
  return stores.node(store, { ...options, pools: ["10.60.0.0/26"], pods: ["pod"] });
}

function probe(node: ApiServerNode, change: Readonly<Record<string, unknown>> = {}): Promise<RunResult> {
  return node.node.run([join(BIN_DIR, "calico"), "-t"], { env: { CNI_COMMAND: "VERSION" }, stdin: JSON.stringify(node.conf(change)) });
}

describe.each(BOTH_STORES)("Readiness gates, %s", (store) => {
  it("K37: that are no list fail ADD and DEL", async () => {
    await using node = await pooled({}, store);
    for (const command of ["ADD", "DEL"])
      expect(await node.refusal(command, { conf: { readiness_gates: "http://x" } })).toContain("readiness_gates");
  });

  it("K38: that are open let the ADD pass at once", async () => {
    const asked: string[] = [];
    using gate = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch(request) {
        asked.push(new URL(request.url).pathname);
        return new Response("ok");
      },
    });
    await using node = await pooled({}, store);
    await connectNode(node.node, { port: Number(gate.port), dir: stores.cluster.dir });
    const started = performance.now();

    await node.add({ conf: { readiness_gates: [`http://127.0.0.1:${gate.port}/one`, `http://127.0.0.1:${gate.port}/two`] } });

    expect(asked).toEqual(["/one", "/two"]);
    // Calico waits 5 s before it asks a gate for the first time.
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});

describe("STATUS", () => {
  const conf = { cniVersion: "1.1.0" };

  const node = fresh(() => pooled());

  it("is silent on a cluster that serves", async () => {
    expect(await node.call("STATUS", { conf })).toMatchObject({ exit: 0, stdout: "" });
  });

  it("F3: succeeds while the cluster is paused, a gate is closed or the server does not answer, and logs it", async () => {
    await using proxy = await stores.cluster.proxy();
    await using node = await pooled({ via: proxy });

    const gated = await node.call("STATUS", { conf: { ...conf, readiness_gates: ["http://127.0.0.1:9/ready"] } });
    expect(gated).toMatchObject({ exit: 0, stdout: "", stderr: expect.stringContaining("http://127.0.0.1:9/ready") });

    await stores.cluster.setReady(false);
    const paused = await node.call("STATUS", { conf });
    expect(paused).toMatchObject({ exit: 0, stdout: "", stderr: expect.stringContaining("Calico is currently not ready") });
    await stores.cluster.setReady(true);

    proxy.on({ times: Number.POSITIVE_INFINITY }, { kind: "hang" });
    const silent = await node.call("STATUS", { conf });
    expect(silent).toMatchObject({ exit: 0, stdout: "", stderr: expect.stringContaining("no answer within 2 s") });

    proxy.clear();
    proxy.refuse();
    const refused = await node.call("STATUS", { conf });
    expect(refused).toMatchObject({ exit: 0, stdout: "", stderr: expect.stringContaining("error getting ClusterInformation") });
  });

  it("F3: shows in tortiectl cni status what is in the way", async () => {
    await stores.cluster.setReady(false);
    const { type, ...plugin } = node.conf();
    const conflist = join(node.node.dir, "list.conflist");
    await Bun.write(conflist, JSON.stringify({ cniVersion: "1.1.0", name: "net1", plugins: [{ ...plugin, type: "tortie" }] }));

    const run = await node.node.run([join(BIN_DIR, "tortiectl"), "cni", "status", conflist], { env: {} });

    expect([type, run.exit, run.stdout]).toEqual([
      "calico",
      0,
      expect.stringMatching(/ready, but\s+ClusterInformation says datastoreReady: false/),
    ]);
  });

  it.each<[string, Readonly<Record<string, unknown>>, string]>([
    ["the kubeconfig is not there", { kubernetes: { kubeconfig: "/absent/kubeconfig" } }, "/absent/kubeconfig"],
    ["the IPAM plugin is not there", { ipam: { type: "absent-ipam" } }, "absent-ipam"],
    ["the node agent's file is not there", { nodename_file_optional: false, nodename_file: "/absent/nodename" }, "/absent/nodename"],
    ["a value makes no sense", { policy_setup_timeout_seconds: -1 }, "-1"],
  ])("F3: fails with code 50 where %s, whatever the cluster says", async (_, change, part) => {
    await stores.cluster.setReady(false);
    expect(await node.call("STATUS", { conf: { ...conf, ...change } })).toMatchObject({
      exit: 1,
      json: { code: 50, msg: expect.stringContaining(part) },
    });
  });
});

describe("The wait for policy", () => {
  it("ends with the file of the node agent, and only warns without one", async () => {
    await using node = await pooled();
    const directory = `${node.node.dir}/endpoint-status`;
    const conf = { policy_setup_timeout_seconds: 1, endpoint_status_dir: directory };
    const late = await node.call("ADD", { conf });
    expect(late.exit).toBe(0);
    expect(late.stderr).toContain("k8s test%2Fpod eth0");
    await node.del();

    await Bun.write(`${directory}/k8s test%2Fpod eth0`, "{}");
    const inTime = await node.call("ADD", { conf: { ...conf, policy_setup_timeout_seconds: 30 } });
    expect(inTime).toMatchObject({ exit: 0, stderr: expect.not.stringContaining("policy of") });
    expect(await node.refusal("ADD", { conf: { policy_setup_timeout_seconds: -1 } })).toContain("invalid pod startup delay of -1");
  });
});

describe("The node agent's file", () => {
  it("must be there for an ADD; a DEL needs no name of the node", async () => {
    await using node = await pooled();
    const conf = { nodename_file_optional: false, nodename_file: `${node.node.dir}/absent` };
    expect(await node.refusal("ADD", { conf })).toContain("check that the calico/node container is running");
    expect(await node.call("DEL", { conf })).toMatchObject({ exit: 0 });
    await node.expectNothingLeft("pod");
  });
});

describe.each(BOTH_STORES)("The probe of -t, %s", (store) => {
  it("K39: succeeds without a word, and asks for the cluster's state and the API server's version", async () => {
    await using node = await pooled({}, store);
    const mark = await stores.cluster.mark();

    expect(await probe(node)).toMatchObject({ exit: 0, stdout: "" });

    expect((await stores.cluster.requests(mark)).map(({ uri }) => uri.replace(/\?.*/, ""))).toEqual([
      ...(store === ETCD ? [] : [`/apis/${LEGACY}/clusterinformations/default`]),
      "/version",
    ]);
  });

  it("K40: fails with code 100 where nobody listens", async () => {
    await using node = await pooled({}, store);
    const nowhere = store === ETCD ? { etcd_endpoints: "http://127.0.0.1:2370" } : {};
    const { exit, stdout } = await probe(node, {
      ...nowhere,
      kubernetes: { kubeconfig: node.kubeconfig, k8s_api_root: "https://127.0.0.1:6446" },
    });
    expect(exit).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      code: 100,
      msg: "data store connection failed",
      details: expect.stringContaining("error getting ClusterInformation"),
    });
  });
});

describe("The probe of -t on the API server", () => {
  it("gives up after two seconds on a server that says nothing", async () => {
    await using proxy = await stores.cluster.proxy();
    await using node = await pooled({ via: proxy });
    proxy.on({ times: Number.POSITIVE_INFINITY }, { kind: "hang" });
    const started = performance.now();

    const { exit, stdout } = await probe(node);

    expect([exit, performance.now() - started < 4000]).toEqual([1, true]);
    expect(JSON.parse(stdout)).toMatchObject({ code: 100, details: expect.stringContaining("2000 ms") });
  });

  it("fails when the cluster is not ready, and when it does not say", async () => {
    await using node = await pooled();
    await stores.cluster.setReady(false);
    expect(await probe(node)).toMatchObject({
      exit: 1,
      stdout: expect.stringContaining("Calico is currently not ready to process requests"),
    });
    await stores.cluster.remove(LEGACY, "clusterinformations", "default");
    expect(await probe(node)).toMatchObject({ exit: 1, stdout: expect.stringContaining("error getting ClusterInformation") });
  });
});

describe("A cluster that is not ready", () => {
  it.each([
    ["says so", () => stores.cluster.setReady(false), "Calico is currently not ready to process requests"],
    [
      "lacks its ClusterInformation",
      () => stores.cluster.remove(LEGACY, "clusterinformations", "default"),
      "error getting ClusterInformation: resource does not exist",
    ],
    [
      "has a ClusterInformation that does not say",
      () =>
        stores.cluster.apply({ apiVersion: LEGACY, kind: "ClusterInformation", metadata: { name: "default" }, spec: { clusterGUID: "g" } }),
      "Calico is currently not ready to process requests: datastoreReady",
    ],
  ])("and %s: ADD and DEL fail with what they asked together, and the address waits", async (_, arrange, message) => {
    await using node = await pooled();
    await node.pod("second");
    await node.add();
    const announced = await node.annotations();
    await arrange();
    const mark = await stores.cluster.mark();

    expect(await node.refusal("ADD", await node.callOf("second", "c2"))).toContain(message);
    expect(await node.refusal("DEL")).toContain(message);

    const asked = (await stores.cluster.requests(mark)).map(({ verb, uri }) => `${verb} ${uri.replace(/^\/apis?\/.*v1\//, "")}`);
    expect(asked.filter((question) => !TOGETHER.includes(question))).toEqual([]);
    expect(asked.filter((question) => question === TOGETHER[0])).toHaveLength(2);
    expect(new Set(asked).size + 1).toBe(asked.length);
    expect(Object.keys(await node.held())).toEqual(["net1.c1"]);
    expect(await node.annotations()).toEqual(announced);
    await node.node.expectClean();

    await stores.cluster.setReady(true);
    await node.del();
    await node.expectNothingLeft("pod");
  });
});

describe("Who may not ask", () => {
  it("is told what is forbidden, and nothing is touched", async () => {
    await using node = await pooled({ identity: "stranger" });
    expect(await node.refusal("ADD")).toMatch(
      /error getting ClusterInformation: connection is unauthorized: .*clusterinformations.*forbidden/,
    );
    expect(await node.refusal("DEL")).toContain("error getting ClusterInformation: connection is unauthorized");
    await node.expectNothingLeft("pod");
  });

  it("may be everything but patching pods: ADD leaves nothing, DEL removes the link and keeps the address that the pod still announces", async () => {
    await using proxy = await stores.cluster.proxy();
    await using node = await pooled({ via: proxy });
    const forbidden = { kind: "answer", status: 403, message: 'pods "pod" is forbidden: cannot patch resource "pods/status"' } as const;
    proxy.on({ method: "PATCH" }, forbidden);

    expect(await node.refusal("ADD")).toContain("pods/status");
    await node.expectNothingLeft("pod");

    proxy.clear();
    await node.add();
    proxy.on({ method: "PATCH" }, forbidden);
    expect(await node.refusal("DEL")).toContain("pods/status");
    expect(Object.keys(await node.held())).toEqual(["net1.c1"]);
    await node.node.expectClean();
  });
});

describe("A server that fails on the way", () => {
  const proxy = fresh(() => stores.cluster.proxy());

  it("loses the answer to an announcement: the ADD succeeds, once", async () => {
    await using node = await pooled({ via: proxy });
    proxy.on({ method: "PATCH" }, { kind: "lose-answer" });

    const { ips } = await node.add();

    expect(await node.annotations()).toMatchObject({ podIP: ips[0]?.address });
    expect((await node.held())["net1.c1"]).toHaveLength(1);
  });

  it.each(["POST", "PUT"])("loses the answer to a %s: nothing is doubled", async (method) => {
    await using node = await pooled({ via: proxy });
    await node.pod("first");
    await node.add(await node.callOf("first", "c0"));
    proxy.on({ method }, { kind: "lose-answer" });

    await node.add();

    expect((await node.held())["net1.c1"]).toHaveLength(1);
    proxy.on({ method: "PUT" }, { kind: "lose-answer" });
    proxy.on({ method: "DELETE" }, { kind: "lose-answer" });
    await node.del();
    expect(Object.keys(await node.held())).toEqual(["net1.c0"]);
  });

  it("cannot be reached: DEL removes the link and says so", async () => {
    await using node = await pooled({ via: proxy });
    await node.add();
    proxy.refuse();

    expect(await node.refusal("DEL")).toContain("error getting ClusterInformation");
    await node.node.expectClean();
    expect(Object.keys(await node.held())).toEqual(["net1.c1"]);

    proxy.accept();
    await node.del({ netns: "" });
    await node.expectNothingLeft("pod");
  });

  it("does not know a token any more: the credentials are read again, and the ADD goes on", async () => {
    await using node = await pooled({ via: proxy });
    proxy.on({ method: "GET", path: "/pods/" }, { kind: "answer", status: 401, message: "Unauthorized" });

    const { ips } = await node.add();

    expect(await node.annotations()).toMatchObject({ podIP: ips[0]?.address });
  });
});
