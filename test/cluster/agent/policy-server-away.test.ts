/**
 * An API server that is away under a running agent: the packet filter stays, flows go on, and only new pods are refused. TORTIE_AWAY_SECONDS
 * says how long it is away.
 */
import { NAMESPACE, type PodCall } from "../../support/kubernetes/api-server-node.ts";
import { createPolicyClusterNode, type PolicyClusterPod } from "../../support/kubernetes/policy-cluster-node.ts";
import { startCluster, type TestCluster } from "../../support/kubernetes/test-cluster.ts";
import { eventually, policyTable } from "../../support/policy-agent.ts";
import { reach } from "../../support/policy-node.ts";

const AWAY_SECONDS = Number(process.env.TORTIE_AWAY_SECONDS ?? 5);
const LOOKS = 5;
const TCP = 5001;
const UDP = 5002;

jest.setTimeout(300_000 + AWAY_SECONDS * 2000);

const openTo = (cluster: TestCluster, ...ports: readonly number[]) => {
  const from = [{ podSelector: { matchLabels: { app: "client" } } }];
  const open = [...[...ports, TCP].map((port) => ({ protocol: "TCP", port })), { protocol: "UDP", port: UDP }];
  return cluster.createPolicy("web", { podSelector: { matchLabels: { app: "web" } }, ingress: [{ from, ports: open }] }, NAMESPACE);
};

/** What has come on a stream since the last call of the function that this returns. */
function growth(pod: PolicyClusterPod, name: string): () => Promise<number> {
  let before = 0;
  return async () => {
    const now = await pod.prober.ask<number>("got", { name });
    const grown = now - before;
    before = now;
    return grown;
  };
}

/** Takes the API server away, until `end` or the end of the test. */
async function goAway(leave: () => Promise<void>, comeBack: () => Promise<void>): Promise<AsyncDisposable & { end(): Promise<void> }> {
  await leave();
  let isAway = true;
  const end = async () => {
    if (isAway) await comeBack();
    isAway = false;
  };
  return { end, [Symbol.asyncDispose]: end };
}

/** What calls are answered that need the datastore; a runtime repeats them. */
const UNAVAILABLE = {
  exit: 1,
  json: expect.objectContaining({
    code: 999,
    msg: expect.stringMatching(/https:\/\/127\.0\.0\.1:\d+\//),
    details: expect.stringMatching(/^datastore-unavailable: /),
  }),
};

const AWAY = [
  ["frozen", async (cluster: TestCluster) => cluster.freeze(), async (cluster: TestCluster) => cluster.thaw()],
  ["gone", (cluster: TestCluster) => cluster.stopApiServer(), (cluster: TestCluster) => cluster.startApiServer()],
] as const;

// Both wait most of their time for calls to be refused: each has servers of its own, and they wait beside each other.
describe.each(AWAY)("While the API server is %s", (_, leave, comeBack) => {
  it.concurrent("the filter stays as it is, flows go on, an ADD and a DEL are refused and say why; then all is right again", async () => {
    await using cluster = await startCluster({ own: true });
    await using world = await createPolicyClusterNode(cluster, ["--policy-wait-seconds", "2"]);
    await openTo(cluster, 80);
    const server = await world.pod("server", { app: "web" });
    const client = await world.pod("client", { app: "client" });
    const [other, leaving] = [await world.pod("other", {}), await world.pod("leaving", { app: "client" })];
    await world.api.pod("late", { labels: { app: "client" } });
    const late = { ...(await world.api.callOf("late")), conf: world.agent.netconf };
    const refused = async (verb: string, call: PodCall) => {
      const { exit, json } = await world.api.call(verb, { ...call, timeoutMs: 200_000 });
      return { exit, json };
    };
    expect(await world.wait()).toMatchObject({ exit: 0 });
    await server.prober.ask("serve", { protocol: "tcp", port: 81 });
    const ports = async () => (await Promise.all([80, 81].map((port) => reach(client, server, "tcp", port)))).join();
    const judged = async () => [await ports(), await reach(other, server, "tcp", 80), await reach(server, other, "tcp", 80)];
    const right = ["ok,timeout", "timeout", "ok"];
    expect(await judged()).toEqual(right);
    await server.prober.ask("sender", { port: TCP, every: 0.01 });
    await server.prober.ask("udp_sender", { port: UDP, every: 0.01 });
    expect(await client.prober.ask("opens", { name: "tcp", to: server.address[4], port: TCP })).toBe("ok");
    await client.prober.ask("udp_stream", { name: "udp", to: server.address[4], port: UDP, every: 0.01 });
    const streams = ["tcp", "udp"].map((name) => growth(client, name));
    const areGrowing = async () => Promise.all(streams.map(async (grown) => (await grown()) > 0));
    expect(await eventually("true,true", async () => (await areGrowing()).join())).toBe("true,true");
    const before = await policyTable(world.api.node);

    await using away = await goAway(
      () => leave(cluster),
      () => comeBack(cluster),
    );
    const refusals = Promise.all([refused("ADD", late), refused("DEL", leaving.call)]);
    for (let look = 0; look < LOOKS; look++) {
      await Bun.sleep((AWAY_SECONDS * 1000) / LOOKS);
      expect(await policyTable(world.api.node)).toBe(before);
      expect(await judged()).toEqual(right);
      expect(await areGrowing()).toEqual([true, true]);
    }
    expect(await refusals).toEqual([UNAVAILABLE, UNAVAILABLE]);
    expect(await policyTable(world.api.node)).toBe(before);
    expect(await judged()).toEqual(right);

    await away.end();
    await openTo(cluster, 81);
    expect(await eventually("timeout,ok", ports, 30_000)).toBe("timeout,ok");
    expect(await world.wait()).toMatchObject({ exit: 0 });
    await world.api.del(leaving.call);
    const added = await world.attach("late");
    expect(await Promise.all([reach(added, server, "tcp", 81), reach(added, server, "tcp", 80)])).toEqual(["ok", "timeout"]);
    await areGrowing();
    await Bun.sleep(200);
    expect(await areGrowing()).toEqual([true, true]);
    for (const { call } of [server, client, other, added]) await world.api.del(call);
  });
});
