/** What becomes of policy when its agent ends, is killed, or was away while things changed. */
import { renameSync, rmSync } from "node:fs";
import { fresh } from "../../support/fixtures.ts";
import { type AttachedPod, eventually, PolicyAgentNode, policy } from "../../support/policy-agent.ts";
import { reach } from "../../support/policy-node.ts";

const world = fresh(PolicyAgentNode.create);

const CLIENTS = { podSelector: { matchLabels: { app: "client" } } };
const WEB = { podSelector: { matchLabels: { app: "web" } } };
const allow = (...ports: readonly number[]) =>
  policy("allow", { ...WEB, ingress: [{ from: [CLIENTS], ports: ports.map((port) => ({ protocol: "TCP", port })) }] });

const serving = (name: string, app: string) => world.serving(name, { app }, [80, 81]);

async function leave(...pods: readonly AttachedPod[]): Promise<void> {
  for (const pod of pods) await world.detach(pod);
}

/**
 * Counts the packets from and to a port of a pod, before and behind everything that the agent may do to them. What TCP has sent again
 * would say less: on a busy machine it does so because an answer is late.
 */
async function watch({ address }: AttachedPod, port: number): Promise<void> {
  const rules = (counter: string) =>
    [`daddr ${address[4]} tcp dport`, `saddr ${address[4]} tcp sport`]
      .map((packet) => `ip ${packet} ${port} counter name ${counter};`)
      .join(" ");
  const table = `table inet watch {
    counter sent { }
    counter delivered { }
    chain before { type filter hook prerouting priority -500; ${rules("sent")} }
    chain behind { type filter hook postrouting priority 500; ${rules("delivered")} }
  }`;
  expect(await world.node.run(["/usr/sbin/nft", table])).toMatchObject({ exit: 0 });
}

/** Packets that were sent and are not delivered. */
async function missing(): Promise<number> {
  const counters: { counter?: { name: string; packets: number } }[] = JSON.parse(
    (await world.node.run(["/usr/sbin/nft", "-j", "list", "counters", "table", "inet", "watch"])).stdout,
  ).nftables;
  const packets = (wanted: string) => counters.find(({ counter }) => counter?.name === wanted)?.counter?.packets ?? 0;
  // Nobody has looked where nothing was sent.
  expect(packets("sent")).toBeGreaterThan(3000);
  return packets("sent") - packets("delivered");
}

describe("the packet filter of an agent that ends", () => {
  it.each([
    ["SIGTERM", () => world.agent.stop()],
    ["SIGKILL", () => world.agent.kill()],
  ])("stays as it is after %s, and is right again after the next start, although policies and pods changed meanwhile", async (_, end) => {
    world.write("allow", allow(80));
    const [web, client, other] = [await serving("web", "web"), await serving("client", "client"), await serving("other", "other")];
    expect(await eventually("timeout", () => reach(other, web, "tcp", 80))).toBe("timeout");
    const judged = () => Promise.all([reach(client, web, "tcp", 80), reach(client, web, "tcp", 81), reach(other, web, "tcp", 80)]);
    expect(await judged()).toEqual(["ok", "timeout", "timeout"]);
    await end();
    const before = await world.table();
    expect(await judged()).toEqual(["ok", "timeout", "timeout"]);

    world.write("allow", allow(81));
    await world.agent.restart();
    expect(await eventually("ok", () => reach(client, web, "tcp", 81))).toBe("ok");
    expect(await judged()).toEqual(["timeout", "ok", "timeout"]);
    expect(before).not.toBe(await world.table());
    await leave(web, client, other);
  });

  it("loses no packet of an allowed flow over kills and starts, and is right after each, although policies changed meanwhile", async () => {
    world.write("allow", allow(80));
    const [web, client] = [await serving("web", "web"), await serving("client", "client")];
    expect(await eventually("timeout", () => reach(client, web, "tcp", 81))).toBe("timeout");
    await watch(web, 80);
    const connecting = client.prober.ask<number>("connections", { to: web.address[4], port: 80, count: 3000 });
    // The port beside the one that stays allowed is closed, then open, and so on.
    for (const [ports, answer] of [
      [[80, 81], "ok"],
      [[80], "timeout"],
      [[80, 81], "ok"],
    ] as const) {
      await world.agent.kill();
      world.write("allow", allow(...ports));
      await world.agent.restart();
      expect(await eventually<string>(answer, () => reach(client, web, "tcp", 81))).toBe(answer);
    }
    expect(await connecting).toBe(0);
    expect(await eventually(0, missing)).toBe(0);
    await leave(web, client);
  });

  it("is not touched by a start that lacks its source, while new pods wait in vain and say for what", async () => {
    world.write("allow", allow(80));
    const [web, client] = [await serving("web", "web"), await serving("client", "client")];
    expect(await eventually("timeout", () => reach(client, web, "tcp", 81))).toBe("timeout");
    await world.agent.stop();
    const before = await world.table();
    rmSync(world.directory, { recursive: true });
    await using agent = await world.startAgain(["--policy-wait-seconds", "1"]);
    await expect(world.attach("late")).rejects.toThrow(/policy not ready.*there is neither an API server nor/);
    expect(await world.table()).toBe(before);
    expect(await Promise.all([reach(client, web, "tcp", 80), reach(client, web, "tcp", 81)])).toEqual(["ok", "timeout"]);
    expect(agent.log).toMatch(/error .*not known yet whether policy is to be enforced/);
    await leave(web, client);
  });

  it("A10: lets an ADD wait for a source that is late at the start, and then work, and a DEL work at once", async () => {
    world.write("allow", allow(80));
    const [web, client] = [await serving("web", "web"), await serving("client", "client")];
    await world.agent.stop();
    renameSync(world.directory, `${world.directory}-late`);
    await using agent = await world.startAgain(["--policy-wait-seconds", "60"]);
    const adding = world.attach("late", { labels: { app: "client" } });
    await world.detach(client, agent);
    expect(await Promise.race([adding, "waits"])).toBe("waits");
    renameSync(`${world.directory}-late`, world.directory);
    const late = await adding;
    expect(await Promise.all([reach(late, web, "tcp", 80), reach(late, web, "tcp", 81)])).toEqual(["ok", "timeout"]);
    for (const pod of [web, late]) await world.detach(pod, agent);
  });

  it("mends what others changed in the table at its start, and says nothing where nothing differs", async () => {
    const [web, client] = [await serving("web", "web"), await serving("client", "client")];
    expect(await world.known()).toEqual([web.hostInterface, client.hostInterface].sort());
    await world.agent.kill();
    await world.node.run(["/usr/sbin/nft", "flush", "chain", "inet", "tortie-policy", "forward"]);
    await world.agent.restart();
    await world.agent.until("the mending", () => world.agent.log.includes("policy was compared with the kernel and mended"));
    expect(await world.table()).toContain("jump from-pod");
    await leave(web, client);
  });

  it("A9: forgets pods that went while it was away", async () => {
    const [web, client] = [await serving("web", "web"), await serving("client", "client")];
    await world.agent.kill();
    const gone = { pod: web.pod, containerId: web.containerId, args: web.args, conf: world.conf };
    expect(await world.node.cni("DEL", gone)).toMatchObject({ exit: 0 });
    await world.agent.restart();
    const wanted = client.hostInterface;
    expect(await eventually(wanted, async () => (await world.known()).join())).toBe(wanted);
    await leave(client);
  });
});
