/** What plugins do without the agent on a node where policy is on: only the agent opens pods. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { shared } from "../../support/fixtures.ts";
import type { CniRun } from "../../support/node.ts";
import { eventually, PolicyAgentNode, placeOf, policy } from "../../support/policy-agent.ts";
import { reach } from "../../support/policy-node.ts";

const world = shared(() => PolicyAgentNode.create());
let count = 0;

/** A plugin's call for a pod of its own. */
async function plugin(
  command: string,
  change: Readonly<Record<string, unknown>>,
  on?: Awaited<ReturnType<typeof sandbox>>,
): Promise<CniRun> {
  const { pod, name } = on ?? (await sandbox());
  const conf = { ...world.conf, agent: "auto", agent_wait_seconds: 1, ...change };
  return world.node.cni(command, { pod, containerId: `cid-${name}`, args: world.args(name, { labels: { app: "web" } }), conf });
}

async function sandbox() {
  const name = `direct${++count}`;
  return { name, ...(await world.sandbox(name)) };
}

const REFUSED = {
  exit: 1,
  json: expect.objectContaining({
    code: 11,
    msg: expect.stringContaining("policy not ready: waiting for tortie-node"),
    details: expect.stringContaining("policy-not-ready"),
  }),
};

describe("a plugin on a node where policy is on", () => {
  // The agent serves before it has decided about policy; only then is there a node where policy is on.
  beforeAll(async () => {
    expect(await eventually(true, async () => existsSync(join(world.agent.runDir, "policy.json")))).toBe(true);
  });

  afterEach(async () => {
    if (!world.agent.isRunning) await world.agent.restart();
  });

  it.each([
    ["killed", () => world.agent.kill()],
    ["stopped", () => world.agent.stop()],
  ])("waits for an agent that was %s, then fails, and leaves nothing", async (_, end) => {
    await end();
    const on = await sandbox();
    const begun = performance.now();
    expect(await plugin("ADD", {}, on)).toMatchObject(REFUSED);
    expect(performance.now() - begun).toBeGreaterThan(900);
    expect(await plugin("ADD", { agent: "off" })).toMatchObject(REFUSED);
    expect(await world.node.ip("-j", "link", "show", "type", "veth")).toEqual([]);
    expect(readdirSync(join(world.agent.runDir, "direct"))).toEqual([]);

    const waiting = plugin("ADD", { agent_wait_seconds: 30 }, on);
    await world.agent.restart();
    expect(await waiting).toMatchObject({ exit: 0 });
    expect(await plugin("DEL", {}, on)).toMatchObject({ exit: 0 });
  });

  it("lets a living agent open the pod that it attaches itself, with the policy that selects it", async () => {
    world.write("deny", policy("deny", { podSelector: { matchLabels: { app: "web" } }, policyTypes: ["Ingress"] }));
    const client = await world.attach("client");
    const on = await sandbox();
    const added = await plugin("ADD", { agent: "off", agent_wait_seconds: 20 }, on);
    expect(added).toMatchObject({ exit: 0 });
    const place = { ...on, ...placeOf(JSON.parse(added.stdout)) };
    expect(await world.known()).toContain(place.hostInterface);
    for (const { prober } of [client, on]) await prober.ask("serve", { protocol: "tcp", port: 80 });
    expect(await Promise.all([reach(client, place, "tcp", 80), reach(place, client, "tcp", 80)])).toEqual(["timeout", "ok"]);

    await eventually(true, async () => world.agent.log.includes("is taken over"));
    expect(await reach(client, place, "tcp", 80)).toBe("timeout");
    world.remove("deny");
    expect(await eventually("ok", () => reach(client, place, "tcp", 80))).toBe("ok");
    expect(await plugin("DEL", { agent: "off" }, on)).toMatchObject({ exit: 0 });
    await world.detach(client);
    expect(await eventually(0, async () => (await world.known()).length)).toBe(0);
  });

  it("takes a pod apart while the agent is away, and the next agent forgets it", async () => {
    const on = await sandbox();
    expect(await plugin("ADD", {}, on)).toMatchObject({ exit: 0 });
    await world.agent.kill();
    expect(await plugin("DEL", {}, on)).toMatchObject({ exit: 0 });
    await world.agent.restart();
    expect(await eventually(0, async () => (await world.known()).length)).toBe(0);
  });

  it("names a pod that nobody has opened at CHECK, with the agent and without", async () => {
    const on = await sandbox();
    const added = await plugin("ADD", {}, on);
    const { hostInterface } = placeOf(JSON.parse(added.stdout));
    const check = () => plugin("CHECK", { prevResult: JSON.parse(added.stdout) }, on);
    expect(await check()).toMatchObject({ exit: 0 });
    await world.node.run(["/usr/sbin/nft", "delete", "element", "inet", "tortie-policy", "from-endpoint", `{ "${hostInterface}" }`]);
    const named = { exit: 1, json: expect.objectContaining({ msg: expect.stringContaining(`policy of ${hostInterface}, found none`) }) };
    expect(await check()).toMatchObject(named);
    await world.agent.kill();
    expect(await check()).toMatchObject(named);
    await world.agent.restart();
    expect(await eventually(true, async () => (await world.known()).includes(hostInterface))).toBe(true);
    expect(await plugin("DEL", {}, on)).toMatchObject({ exit: 0 });
  });
});

it("opens the node again when policy is turned off", async () => {
  await using other = await PolicyAgentNode.create();
  other.write("deny", policy("deny", { podSelector: {}, policyTypes: ["Ingress"] }));
  const [web, client] = [await other.attach("web"), await other.attach("client")];
  await web.prober.ask("serve", { protocol: "tcp", port: 80 });
  expect(await eventually("timeout", () => reach(client, web, "tcp", 80))).toBe("timeout");
  await other.agent.kill();
  expect(await reach(client, web, "tcp", 80)).toBe("timeout");

  await using off = await other.startAgain(["--policy", "off"]);
  expect(await reach(client, web, "tcp", 80)).toBe("ok");
  expect(await other.table()).toBe("");
  expect(existsSync(join(off.runDir, "policy.json"))).toBe(false);
  for (const pod of [web, client]) await other.detach(pod, off);
});
