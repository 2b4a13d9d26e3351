import { fresh } from "../../support/fixtures.ts";
import { type AttachedPod, eventually, got, isGrowing, PolicyAgentNode, policy } from "../../support/policy-agent.ts";
import { reach } from "../../support/policy-node.ts";

const world = fresh(PolicyAgentNode.create);

async function serving(name: string, labels: Readonly<Record<string, string>>): Promise<AttachedPod> {
  const pod = await world.serving(name, labels);
  await pod.prober.ask("serve", { protocol: "udp", port: 53 });
  return pod;
}

describe("an agent with a directory of policies", () => {
  it("judges pods as the policies say, from the file's coming to its going", async () => {
    const [web, client] = [await serving("web", { app: "web" }), await serving("client", { app: "client" })];
    expect(await Promise.all([reach(client, web, "tcp", 80), reach(client, web, "tcp", 80, 6)])).toEqual(["ok", "ok"]);

    world.write("deny", policy("deny", { podSelector: { matchLabels: { app: "web" } }, policyTypes: ["Ingress"] }));
    expect(await eventually("timeout", () => reach(client, web, "tcp", 80))).toBe("timeout");
    expect(await Promise.all([reach(client, web, "udp", 53, 6), reach(web, client, "tcp", 80)])).toEqual(["timeout", "ok"]);

    const ingress = [{ from: [{ podSelector: { matchLabels: { app: "client" } } }], ports: [{ protocol: "TCP", port: 80 }] }];
    world.write("allow", policy("allow", { podSelector: { matchLabels: { app: "web" } }, ingress }));
    expect(await eventually("ok", () => reach(client, web, "tcp", 80))).toBe("ok");
    expect(await reach(client, web, "udp", 53)).toBe("timeout");

    world.remove("deny");
    world.remove("allow");
    expect(await eventually("ok", () => reach(client, web, "udp", 53))).toBe("ok");
    await world.detach(web);
    await world.detach(client);
    expect(await eventually(0, async () => (await world.known()).length)).toBe(0);
  });

  it("ends a UDP stream that only flows back when its permission goes", async () => {
    const [web, client, other] = [
      await serving("web", { app: "web" }),
      await serving("client", { app: "client" }),
      await serving("other", {}),
    ];
    const from = (...apps: readonly string[]) => [{ podSelector: { matchExpressions: [{ key: "app", operator: "In", values: apps }] } }];
    const allow = (...apps: readonly string[]) =>
      policy("allow", {
        podSelector: { matchLabels: { app: "web" } },
        ingress: [{ from: from(...apps) }],
        policyTypes: ["Ingress", "Egress"],
      });
    world.write("allow", allow("client", "other"));
    expect(await eventually("timeout", () => reach(other, web, "tcp", 80))).toBe("timeout");
    await web.prober.ask("udp_sender", { port: 5000, every: 0.01 });
    await client.prober.ask("udp_stream", { name: "s", to: web.address[4], port: 5000, every: 0 });
    expect(await eventually(true, async () => (await got(client, "s")) > 1000)).toBe(true);
    expect(await isGrowing(client, "s")).toBe(true);

    world.write("allow", allow("other"));
    expect(await eventually(false, () => isGrowing(client, "s"))).toBe(false);
    world.remove("allow");
    for (const pod of [web, client, other]) await world.detach(pod);
  });

  it("stops a TCP connection whose permission goes, although its server goes on sending", async () => {
    const [web, client] = [await serving("web", { app: "web" }), await serving("client", { app: "client" })];
    await web.prober.ask("sender", { port: 5001, every: 0.01 });
    expect(await client.prober.ask("opens", { name: "t", to: web.address[4], port: 5001 })).toBe("ok");
    expect(await eventually(true, async () => (await got(client, "t")) > 10_000)).toBe(true);
    world.write("deny", policy("deny", { podSelector: { matchLabels: { app: "web" } } }));
    expect(await eventually(false, () => isGrowing(client, "t"))).toBe(false);
    expect(await isGrowing(client, "t")).toBe(false);
    world.remove("deny");
    for (const pod of [web, client]) await world.detach(pod);
  });

  it("N22, P22: judges anew what a peer of an address's last pod sends to its next one", async () => {
    const [web, client] = [await serving("web", { app: "web" }), await serving("client", { app: "client" })];
    const send = () => client.prober.ask("udp", { to: web.address[4], port: 53, source: 7000 });
    expect(await send()).toBe("ok");
    world.write("deny", policy("deny", { podSelector: { matchLabels: { app: "next" } } }));
    await world.detach(web);
    const connections = async () => (await world.node.run(["/bin/cat", "/proc/net/nf_conntrack"])).stdout.includes(`dst=${web.address[4]}`);
    expect(await eventually(false, connections)).toBe(false);
    const next = await world.attach("next", { labels: { app: "next" }, address: web.address[4] });
    await next.prober.ask("serve", { protocol: "udp", port: 53 });
    expect(await eventually("timeout", send)).toBe("timeout");
    world.remove("deny");
    for (const pod of [next, client]) await world.detach(pod);
  });

  it("closes a pod without policy where enforcement is always, and opens one with a policy where it is never", async () => {
    for (const [mode, wanted] of [
      ["always", "timeout"],
      ["never", "ok"],
    ] as const) {
      await using strict = await PolicyAgentNode.create(["--enforcement", mode]);
      strict.write("deny", policy("deny", { podSelector: { matchLabels: { app: "none" } } }));
      const [web, client] = [await strict.attach("web", { labels: { app: "none" } }), await strict.attach("client")];
      await client.prober.ask("serve", { protocol: "tcp", port: 80 });
      expect(await eventually(wanted, () => reach(web, client, "tcp", 80))).toBe(wanted);
      for (const pod of [web, client]) await strict.detach(pod);
    }
  });
});
