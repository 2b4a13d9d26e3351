/** The agent's own process in blocks mode, asked by the plugin on a pretend machine, with a real API server that comes and goes. */
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode, type PodCall } from "../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { OtlpReceiver } from "../../support/otlp-receiver.ts";

const NAMES = Array.from({ length: 12 }, (_, index) => `pod${index}`);

const cluster = shared(startCluster);

describe("An agent in blocks mode", () => {
  it("gives pods that come at once addresses of their own, and takes all back", async () => {
    await using world = await ApiServerNode.create(cluster, { pools: ["10.67.0.0/24"], pods: NAMES });
    const calls: PodCall[] = [];
    await using agent = await world.startAgent();
    for (const name of NAMES) calls.push({ ...(await world.callOf(name)), conf: agent.netconf });

    const results = await Promise.all(calls.map((call) => world.add(call)));

    expect(new Set(results.map(({ ips }) => ips[0]?.address)).size).toBe(NAMES.length);
    await Promise.all(calls.map((call) => world.del(call)));
    await world.expectNothingLeft(...NAMES);
  });

  it("watches the pools once for ADDs and routes", async () => {
    await using world = await ApiServerNode.create(cluster, { pools: ["10.67.0.0/24"], pods: ["pod"] });
    const since = await cluster.mark();
    await using agent = await world.startAgent(["--node-routes", "direct"]);
    await world.add({ conf: agent.netconf });
    await until("the routes", async () => (await agent.request("GET", "/healthz")).text.includes("node-routes"));

    await world.del({ conf: agent.netconf });
    // The server writes a watch into its log when the watch ends.
    await agent.stop();

    const watched = (await cluster.requests(since)).filter(({ verb }) => verb === "watch").map(({ uri }) => uri.split("?")[0] ?? "");

    const timesOf = (plural: string) => watched.filter((path) => path.endsWith(`/${plural}`)).length;
    expect([timesOf("ippools"), timesOf("ipamblocks")]).toEqual([1, 1]);
  });

  it("sends a trace with the requests that a call makes to the API server, and no others", async () => {
    await using world = await ApiServerNode.create(cluster, { pools: ["10.67.0.0/24"], pods: ["pod"] });
    using receiver = await OtlpReceiver.start(world.node);
    await using agent = await world.startAgent(["--otlp-endpoint", receiver.endpoint]);
    const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    await world.add({ conf: agent.netconf, env: { TRACEPARENT } });
    await agent.stop();

    const [add] = receiver.named("CNI ADD");
    if (add === undefined) throw new Error(`no span of the ADD:\n${agent.log}`);
    const requestsOf = (step: string) =>
      receiver.below(add).flatMap((span) => (span.name === step ? receiver.below(span).map(({ attributes }) => attributes) : []));
    const path = expect.stringMatching(/^\/apis\/crd\.projectcalico\.org\/v1\/ipamblocks\/10-67-0-/);
    expect(requestsOf("ipam")).toContainEqual(expect.objectContaining({ "http.request.method": "PUT", "url.path": path }));
    expect(requestsOf("endpoint")).toEqual([
      expect.objectContaining({ "http.request.method": "PATCH", "url.path": "/api/v1/namespaces/test/pods/pod/status" }),
    ]);
    expect(receiver.spans.filter(({ traceId }) => traceId !== add.traceId)).toEqual([]);
  });

  it("asks the API server for nothing but its watches and, at each of its looks, its block and one policy of each kind while nothing happens", async () => {
    await using world = await ApiServerNode.create(cluster, { pools: ["10.67.0.0/24"], pods: ["pod"] });
    // Every controller that has a pause of its own runs each second.
    await using agent = await world.startAgent(["--max-controller-interval", "1"]);
    await world.add({ conf: agent.netconf });
    const runs = async () => {
      const [, count = "0"] =
        /tortie_controllers_runs_total\{status="success"\} (\d+)/.exec((await agent.request("GET", "/metrics")).text) ?? [];
      return Number(count);
    };
    // What the ADD has told the watches is over.
    const before = await runs();
    await until("a look at everything", async () => (await runs()) >= before + 2);

    const since = await cluster.mark();
    const idle = await runs();
    await until("some more looks", async () => (await runs()) >= idle + 6);
    const asked = (await cluster.requests(since)).filter(({ verb }) => verb !== "watch");
    const [block] = (await cluster.list("crd.projectcalico.org/v1", "ipamblocks")).map(({ metadata }) => metadata.name);
    const looks = asked.filter(({ verb, uri }) => verb === "get" && uri.endsWith(`/ipamblocks/${block}`)).length;
    const others = asked.filter(({ verb, uri }) => verb === "list" && /policies\?limit=1$/.test(uri)).map(({ uri }) => uri);
    expect(asked.map(({ verb, uri }) => `${verb} ${uri}`)).toHaveLength(looks + others.length);
    // Comparison and other kinds of policy are looked at each second here, and every ten minutes where nobody says otherwise.
    const most = Math.max(looks, ...others.map((uri) => others.filter((other) => other === uri).length));
    expect(most).toBeLessThanOrEqual(6);
    await world.del({ conf: agent.netconf });
  });

  it("A-D05: removes the link while the store is away, keeps the address, and releases it when the store is back", async () => {
    await using proxy = await cluster.proxy();
    await using world = await ApiServerNode.create(cluster, { via: proxy, pools: ["10.67.0.0/24"], pods: ["pod"] });
    await using agent = await world.startAgent();
    const call = { conf: agent.netconf };
    await world.add(call);

    await proxy.refuse();
    const run = await world.call("DEL", call);
    await world.node.expectClean();
    expect(Object.keys(await world.held())).toEqual(["net1.c1"]);

    await proxy.accept();
    // A DEL that could not be queued is repeated by the runtime.
    if (run.exit !== 0) await until("the repeated DEL", async () => (await world.call("DEL", call)).exit === 0);
    await until("the release", async () => Object.keys(await world.held()).length === 0);
    await world.expectNothingLeft("pod");
  });

  it("is not ready before it has read its pods and says what it waits for, while STATUS succeeds with a line in the log", async () => {
    await using proxy = await cluster.proxy();
    await using world = await ApiServerNode.create(cluster, { via: proxy, pools: ["10.67.0.0/24"], pods: ["pod"] });
    await proxy.refuse();
    await using agent = await world.startAgent([], { until: "local" });
    const conf = { ...agent.netconf, cniVersion: "1.1.0" };

    expect(await world.call("STATUS", { conf, container: "" })).toMatchObject({ exit: 0, stdout: "" });
    expect(agent.log).toContain("the agent is not ready: phase: the agent is in phase local");
    const { json } = await agent.request("GET", "/healthz");
    expect(json).toMatchObject({ phase: "local", ready: false, waits: [{ what: "the pods of this node, from the API server" }] });

    await proxy.accept();
    await agent.waitUntil("ready");
    // Policy has sources of its own, for which only ADDs wait.
    await until("an agent that waits for nothing", async () => (await agent.request("GET", "/healthz")).text.includes('"waits":[]'));
    await world.add({ conf });
    expect(await world.call("STATUS", { conf, container: "" })).toMatchObject({ exit: 0 });
    await world.del({ conf });
  });
});
