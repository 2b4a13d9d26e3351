/** What becomes of policy where Felix's chains come while it is on, and go again: a real agent, a real kernel, real packets. */
import { fresh } from "../../support/fixtures.ts";
import { eventually, PolicyAgentNode, policy } from "../../support/policy-agent.ts";
import { reach } from "../../support/policy-node.ts";

// Looks each second, instead of each minute.
const world = fresh(() => PolicyAgentNode.create(["--max-controller-interval", "1"]));

const STANDS_DOWN = "policy is not enforced by Tortie: Felix's chains are in the kernel";

const nft = (...args: readonly string[]) => world.node.run(["/usr/sbin/nft", ...args]);
const felixComes = () => nft("add table ip filter; add chain ip filter cali-FORWARD");
const felixGoes = () => nft("delete chain ip filter cali-FORWARD");

async function check(): Promise<unknown> {
  const { json } = await world.agent.request("GET", "/healthz");
  return (json as { checks: { name: string }[] }).checks.find(({ name }) => name === "policy");
}

/** Counts the agent's inotify watches: sources that were not closed would keep theirs. */
async function watches(): Promise<number> {
  const { stdout } = await world.node.run(["/bin/sh", "-c", `cat /proc/${world.agent.pid}/fdinfo/* 2>/dev/null | grep -c '^inotify wd'`]);
  return Number(stdout);
}

const count = (text: string) => world.agent.log.split(text).length - 1;

describe("an agent that enforces policy, when Felix's chains come", () => {
  it("stands down, opens the pods and says so, and enforces again when they are gone", async () => {
    const deny = policy("deny", { podSelector: { matchLabels: { app: "web" } }, policyTypes: ["Ingress"] });
    world.write("deny", deny);
    const [web, client] = [await world.serving("web", { app: "web" }), await world.serving("client", {})];
    const judged = () => reach(client, web, "tcp", 80);
    expect(await eventually("timeout", judged)).toBe("timeout");
    const before = { table: await world.table(), watches: await watches() };
    expect(before.watches).toBeGreaterThan(0);

    for (let times = 1; times <= 2; times++) {
      await felixComes();
      expect(await eventually("ok", judged)).toBe("ok");
      expect(await eventually("", () => world.table())).toBe("");
      expect(await check()).toMatchObject({ state: "warning", message: STANDS_DOWN, next: expect.stringContaining("--policy off") });
      expect(count(`error ${STANDS_DOWN}`)).toBe(times);
      // Nobody judges a new pod, and its ADD does not wait for anybody.
      const late = await world.serving(`late${times}`, { app: "web" });
      expect(await eventually("ok", () => reach(client, late, "tcp", 80))).toBe("ok");
      await world.detach(late);

      await felixGoes();
      expect(await eventually("timeout", judged)).toBe("timeout");
      expect(await world.table()).toBe(before.table);
      expect(await check()).toMatchObject({ state: "ok" });
      expect(await watches()).toBe(before.watches);
    }

    world.remove("deny");
    expect(await eventually("ok", judged)).toBe("ok");
    for (const pod of [web, client]) await world.detach(pod);
  });
});
