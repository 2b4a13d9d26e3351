/** NetworkPolicy objects of a real API server, enforced by a real agent between real pods of one node. */
import { shared } from "../../support/fixtures.ts";
import { NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { createPolicyClusterNode } from "../../support/kubernetes/policy-cluster-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { eventually, placeOf } from "../../support/policy-agent.ts";
import { Dialogue, reach } from "../../support/policy-node.ts";

// Of its own: it refuses rights, and is away for a while.
const cluster = shared(() => startCluster({ own: true }));

const createWorld = (args?: readonly string[]) => createPolicyClusterNode(cluster, args);

describe("NetworkPolicy objects of an API server", () => {
  it("are enforced from a pod's ADD on, follow labels of pods, and are gone when they are deleted", async () => {
    await using world = await createWorld();
    const ingress = [{ from: [{ podSelector: { matchLabels: { role: "client" } } }] }];
    await cluster.createPolicy("web", { podSelector: { matchLabels: { app: "web" } }, ingress }, NAMESPACE);
    const [web, client, other] = [
      await world.pod("web", { app: "web" }),
      await world.pod("client", { role: "client" }),
      await world.pod("other", {}),
    ];
    expect(await world.wait()).toMatchObject({ exit: 0 });
    expect(await Promise.all([reach(client, web, "tcp", 80), reach(other, web, "tcp", 80), reach(web, other, "tcp", 80)])).toEqual([
      "ok",
      "timeout",
      "ok",
    ]);

    const path = `/api/v1/namespaces/${NAMESPACE}/pods`;
    await cluster.api("PATCH", `${path}/other`, { metadata: { labels: { role: "client" } } });
    await cluster.api("PATCH", `${path}/client`, { metadata: { labels: { role: "other" } } });
    expect(await world.wait(`${NAMESPACE}/web`)).toMatchObject({ exit: 0 });
    expect(await Promise.all([reach(client, web, "tcp", 80), reach(other, web, "tcp", 80)])).toEqual(["timeout", "ok"]);

    await cluster.api("PATCH", `${path}/web`, { metadata: { labels: { app: "free" } } });
    expect(await world.wait()).toMatchObject({ exit: 0 });
    expect(await reach(client, web, "tcp", 80)).toBe("ok");
    await cluster.remove("networking.k8s.io/v1", "networkpolicies", "web", NAMESPACE);
    expect(await world.wait()).toMatchObject({ exit: 0 });
    for (const { call } of [web, client, other]) await world.api.del(call);
  });

  it("A8: keep their hold while the API server is away", async () => {
    await using world = await createWorld();
    await cluster.createPolicy("web", { podSelector: { matchLabels: { app: "web" } }, ingress: [] }, NAMESPACE);
    const [web, client] = [await world.pod("web", { app: "web" }), await world.pod("client", {})];
    expect(await world.wait()).toMatchObject({ exit: 0 });
    cluster.freeze();
    try {
      expect(await Promise.all([reach(client, web, "tcp", 80), reach(web, client, "tcp", 80)])).toEqual(["timeout", "ok"]);
      await world.agent.kill();
      await world.agent.restart("local");
      expect(await Promise.all([reach(client, web, "tcp", 80), reach(web, client, "tcp", 80)])).toEqual(["timeout", "ok"]);
    } finally {
      cluster.thaw();
    }
    await world.agent.waitUntil("ready");
    expect(await eventually("ok", () => reach(web, client, "tcp", 80))).toBe("ok");
    await cluster.remove("networking.k8s.io/v1", "networkpolicies", "web", NAMESPACE);
    expect(await eventually("ok", () => reach(client, web, "tcp", 80), 30_000)).toBe("ok");
    for (const { call } of [web, client]) await world.api.del(call);
  });

  it("hold for a pod that is bound to another node, also when the agent has been started again", async () => {
    await using world = await createWorld();
    const ingress = [{ from: [{ podSelector: { matchLabels: { role: "client" } } }] }];
    await cluster.createPolicy("web", { podSelector: { matchLabels: { app: "web" } }, ingress }, NAMESPACE);
    const [client, other] = [await world.pod("client", { role: "client" }), await world.pod("other", {})];
    const web = await world.pod("web", { app: "web" }, "node2");
    const verdicts = () => Promise.all([reach(client, web, "tcp", 80), reach(other, web, "tcp", 80)]);
    expect(await verdicts()).toEqual(["ok", "timeout"]);
    await world.agent.kill();
    await world.agent.restart();
    expect(await world.wait()).toMatchObject({ exit: 0 });
    expect(await eventually("ok", () => reach(client, web, "tcp", 80), 30_000)).toBe("ok");
    expect(await verdicts()).toEqual(["ok", "timeout"]);
    for (const { call } of [web, client, other]) await world.api.del(call);
    await cluster.remove("networking.k8s.io/v1", "networkpolicies", "web", NAMESPACE);
  });

  it("never lend a pod the labels of its namesake", async () => {
    await using world = await createWorld();
    await cluster.createPolicy("closed", { podSelector: { matchLabels: { app: "closed" } }, ingress: [] }, NAMESPACE);
    const [client, first] = [await world.pod("client", {}), await world.pod("db", { app: "open" })];
    expect(await world.wait()).toMatchObject({ exit: 0 });
    expect(await reach(client, first, "tcp", 80)).toBe("ok");
    // A StatefulSet's pod comes back under its name before the old sandbox is gone.
    await cluster.remove("v1", "pods", "db", NAMESPACE);
    await world.api.pod("db", { labels: { app: "closed" } });
    expect(await world.wait()).toMatchObject({ exit: 0 });
    expect(await reach(client, first, "tcp", 80)).toBe("ok");
    const sandbox = await world.api.sandbox("db-again");
    const call = { pod: "db", container: "c-db-again", sandbox, conf: world.agent.netconf };
    await world.api.del(first.call);
    const result = await world.api.add(call);
    await using prober = new Dialogue(world.api.node.commandLine(["/usr/bin/python3", "test/support/programs/prober.py"], {}, sandbox));
    await prober.ask("serve", { protocol: "tcp", port: 80 });
    const second = { pod: sandbox, prober, ...placeOf({ interfaces: [...result.interfaces], ips: [...result.ips] }) };
    expect(await reach(client, second, "tcp", 80)).toBe("timeout");
    for (const one of [call, client.call]) await world.api.del(one);
  });
});
