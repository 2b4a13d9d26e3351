/** Pods that were attached before the agent began (finding H1): whose they are, and which of their packets pass, before and after its start. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Agent } from "../../support/agent.ts";
import { fresh } from "../../support/fixtures.ts";
import { attachmentsCheck, type EarlyPod, LateAgentNode } from "../../support/late-agent.ts";
import { eventually, policy } from "../../support/policy-agent.ts";
import { type Place, reach } from "../../support/policy-node.ts";

const world = fresh(LateAgentNode.create);

const WEB = { podSelector: { matchLabels: { app: "web" } } };
const CLIENTS = { podSelector: { matchLabels: { app: "client" } } };
const WEB_FOR_CLIENTS = policy("web", { ...WEB, ingress: [{ from: [CLIENTS] }] });
const OTHERS_CLOSED = policy("db", { podSelector: { matchLabels: { app: "db" } }, policyTypes: ["Ingress", "Egress"] });

interface Three {
  readonly web: EarlyPod;
  readonly client: EarlyPod;
  readonly other: EarlyPod;
}

async function attachThree(mode: "require" | "off" = "off"): Promise<Three> {
  const web = await world.attach("web", { app: "web" }, { mode });
  const client = await world.attach("client", { app: "client" }, { mode });
  return { web, client, other: await world.attach("other", { app: "other" }, { mode }) };
}

const clearAlias = ({ hostInterface }: EarlyPod) => world.node.run(["/usr/sbin/ip", "link", "set", "dev", hostInterface, "alias", ""]);

/** How the pods came to be there; each leaves nothing of an agent in the kernel. */
const SITUATIONS: Readonly<Record<string, () => Promise<Three>>> = {
  "by plugins before the agent was installed": () => attachThree(),
  "by Calico's plugins, which write no alias": async () => {
    const three = await attachThree();
    for (const pod of Object.values(three)) await clearAlias(pod);
    return three;
  },
  "by the agent of another boot": async () => {
    world.list("require");
    const agent = await world.startAgent();
    const three = await attachThree("require");
    await agent.kill();
    writeFileSync(join(world.runDir, "state", "boot-id"), "another boot\n");
    await world.node.run(["/usr/sbin/nft", "delete", "table", "inet", "tortie-policy"]);
    return three;
  },
  "by plugins after a reboot, with the state of the last boot still there": async () => {
    mkdirSync(join(world.runDir, "state"), { recursive: true });
    writeFileSync(join(world.runDir, "state", "boot-id"), "another boot\n");
    return attachThree();
  },
};

const verdicts = async ({ web, client, other }: Three) =>
  (await Promise.all([reach(client, web, "tcp", 80), reach(other, web, "tcp", 80), reach(web, other, "tcp", 80)])).join(" ");

async function endpoints(agent: Agent): Promise<readonly { id: number; status: Record<string, unknown> }[]> {
  return (await agent.request("GET", "/endpoint")).json as { id: number; status: Record<string, unknown> }[];
}

describe.each(Object.entries(SITUATIONS))("pods that were attached %s", (_, attach) => {
  it.each([
    ["no policy", [], "ok ok ok"],
    ["a policy that selects one of them", [WEB_FOR_CLIENTS], "ok timeout ok"],
    ["a policy that selects another pod", [OTHERS_CLOSED], "ok ok ok"],
  ] as const)("are judged by %s from the agent's start on, and lose nothing else", async (_, policies, wanted) => {
    const three = await attach();
    expect(await verdicts(three)).toBe("ok ok ok");
    world.list("require");
    if (policies.length > 0) world.write("policy", ...policies);
    const steady = three.client.prober.ask<number>("connections", { to: three.web.address[4], port: 80, count: 3000 });
    const agent = await world.startAgent();
    expect(await eventually(wanted, () => verdicts(three))).toBe(wanted);
    expect(await steady).toBe(0);
    expect(await verdicts(three)).toBe(wanted);
    expect(await attachmentsCheck(agent)).toMatchObject({ state: "ok" });
    expect(await endpoints(agent)).toHaveLength(3);
    for (const pod of Object.values(three)) await world.detach(pod);
    expect(await endpoints(agent)).toEqual([]);
  });
});

describe("an endpoint that was taken over", () => {
  it("is there after a restart, and its DEL, CHECK and repeated ADD work", async () => {
    const web = await world.attach("web", { app: "web" });
    world.list("require");
    const agent = await world.startAgent();
    const [found] = await endpoints(agent);
    await agent.restart();
    expect(await endpoints(agent)).toMatchObject([{ id: found?.id }]);
    const conf = world.conf("require");
    expect(await world.call("CHECK", web, { ...conf, prevResult: web.result })).toMatchObject({ exit: 0 });
    const again = await world.call("ADD", web, conf);
    expect(again).toMatchObject({ exit: 0 });
    expect(JSON.parse(again.stdout)).toMatchObject({ ips: web.result.ips });
    expect(await endpoints(agent)).toHaveLength(1);
    await world.detach(web);
    expect(await endpoints(agent)).toEqual([]);
    await world.node.expectClean();
  });

  it("has its host routes back after somebody deleted one", async () => {
    const web = await world.attach("web", {});
    world.list("require");
    const agent = await world.startAgent();
    const routes = async () => (await world.node.ip("-j", "route", "show", "dev", web.hostInterface)).map(({ dst }) => dst);
    expect(await routes()).toEqual([web.address[4]]);
    await world.node.run(["/usr/sbin/ip", "route", "del", web.address[4], "dev", web.hostInterface]);
    await agent.request("POST", "/node/repair", {});
    await agent.restart();
    expect(await eventually(web.address[4], async () => (await routes()).join())).toBe(web.address[4]);
    await world.detach(web);
  });

  it("goes with a GC that does not list it", async () => {
    const web = await world.attach("web", {});
    world.list("require");
    const agent = await world.startAgent();
    const run = await world.node.cni("GC", {
      conf: { ...world.conf("require"), cniVersion: "1.1.0", "cni.dev/valid-attachments": [] },
    });
    expect(run).toMatchObject({ exit: 0 });
    expect(await endpoints(agent)).toEqual([]);
    expect(await world.node.ip("-j", "link", "show", "type", "veth")).toEqual([]);
    await world.node.removePod(web.pod);
  });
});

describe("a pod whose labels nobody knows", () => {
  it("is closed while a policy of its namespace exists, and open otherwise", async () => {
    const web = await world.attach("web", { app: "web" }, { isCached: false });
    const client = await world.attach("client", { app: "client" });
    world.list("require");
    await world.startAgent();
    expect(await eventually("ok", () => reach(client, web, "tcp", 80))).toBe("ok");
    world.write("elsewhere", policy("elsewhere", { podSelector: {}, policyTypes: ["Ingress"] }, "bank"));
    world.write("db", OTHERS_CLOSED);
    expect(await eventually("timeout", () => reach(client, web, "tcp", 80))).toBe("timeout");
    world.remove("db");
    expect(await eventually("ok", () => reach(client, web, "tcp", 80))).toBe("ok");
    for (const pod of [web, client]) await world.detach(pod);
  });
});

describe("a host end that nobody can identify", () => {
  async function stranger(): Promise<Place & { readonly hostInterface: string }> {
    const { pod, prober, address, hostInterface } = await world.attach("stranger", {});
    // A name that is no digest of anything, and no alias.
    const name = "cali00000000000";
    for (const words of [
      `set dev ${hostInterface} down`,
      `set dev ${hostInterface} name ${name}`,
      `set dev ${name} alias `,
      `set dev ${name} up`,
    ]) {
      await world.node.run(["/usr/sbin/ip", "link", ...words.split(" ")]);
    }
    await world.node.run(["/usr/sbin/ip", "route", "replace", address[4], "dev", name]);
    for (const path of ["proxy_arp", "forwarding", "route_localnet"]) {
      await world.node.run(["/bin/sh", "-c", `echo 1 > /proc/sys/net/ipv4/conf/${name}/${path}`]);
    }
    return { pod, prober, address, hostInterface: name };
  }

  it("stays open until a policy may select its pod, is open again afterwards, and is named with the next step", async () => {
    world.node.excuse("nobody can take it apart", "not-granted");
    const unknown = await stranger();
    const client = await world.attach("client", { app: "client" });
    world.list("require");
    const agent = await world.startAgent();
    expect(await eventually("ok", () => reach(client, unknown, "tcp", 80))).toBe("ok");
    expect(await attachmentsCheck(agent)).toMatchObject({
      state: "warning",
      message: expect.stringContaining(`${unknown.hostInterface} (${unknown.address[4]})`),
      next: expect.stringContaining("start the pod behind each of them again"),
    });
    expect((await attachmentsCheck(agent))?.message).toContain("it is open");

    world.write("db", OTHERS_CLOSED);
    expect(await eventually("timeout", () => reach(client, unknown, "tcp", 80))).toBe("timeout");
    expect((await attachmentsCheck(agent))?.message).toContain("it is closed, since a policy may select its pod");
    world.remove("db");
    expect(await eventually("ok", () => reach(client, unknown, "tcp", 80))).toBe("ok");
    await world.detach(client);
  });
});

describe("a list without an agent", () => {
  it("leaves its pods to the plugins, judged by policy all the same, and is named with the next step", async () => {
    const web = await world.attach("web", { app: "web" });
    const client = await world.attach("client", { app: "client" });
    world.list("off");
    const agent = await world.startAgent();
    expect(await endpoints(agent)).toEqual([]);
    expect(await eventually("ok", () => reach(client, web, "tcp", 80))).toBe("ok");
    expect(await attachmentsCheck(agent)).toMatchObject({
      state: "warning",
      message: expect.stringMatching(/list .*10-net1\.conflist has no "agent": "require".* 2 attachments/),
      next: expect.stringContaining('"agent": "require"'),
    });
    world.write("all", policy("all", { podSelector: {}, policyTypes: ["Ingress"] }));
    expect(await eventually("timeout", () => reach(client, web, "tcp", 80))).toBe("timeout");
    world.remove("all");
    expect(await eventually("ok", () => reach(client, web, "tcp", 80))).toBe("ok");
    for (const pod of [web, client]) await world.detach(pod, "off");
  });

  it("has a pod that a plugin attaches later opened within seconds, and forgets it after its DEL", async () => {
    world.list("off");
    const first = await world.attach("first", {});
    await world.startAgent();
    expect(await eventually(1, async () => (await known()).length)).toBe(1);
    const second = await world.attach("second", {});
    expect(await eventually("ok", () => reach(first, second, "tcp", 80))).toBe("ok");
    await world.detach(second, "off");
    expect(await eventually(first.hostInterface, async () => (await known()).join())).toBe(first.hostInterface);
    await world.detach(first, "off");
  });
});

async function known(): Promise<readonly string[]> {
  const { stdout } = await world.node.run(["/usr/sbin/nft", "list", "map", "inet", "tortie-policy", "from-endpoint"]);
  return [...stdout.matchAll(/"([a-z0-9]+)" : /g)].map(([, name = ""]) => name).sort();
}
