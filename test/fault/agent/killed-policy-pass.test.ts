import { aim } from "../../support/agent-kills.ts";
import { eventually, PolicyAgentNode, policy } from "../../support/policy-agent.ts";
import { reach } from "../../support/policy-node.ts";
import { injecting } from "../../support/strace.ts";

jest.setTimeout(600_000);

/** Netlink messages; files that are put in their place, such as the one that says that policy is on; what is written into them. */
const SENDS = "sendto,sendmsg,sendmmsg";
const PLACES = "rename,renameat,renameat2";
const WRITES = "write,pwrite64";
/** A pass makes fewer of them. */
const MANY = 40;
/** Calls of a start that may be its last; the table is whole before. */
const MOST_CALLS = 75;

const allow = (port: number) =>
  policy("allow", {
    podSelector: { matchLabels: { app: "web" } },
    ingress: [{ from: [{ podSelector: { matchLabels: { app: "client" } } }], ports: [{ protocol: "TCP", port }] }],
  });

/** What the client is answered at both ports where one is allowed. */
const ONLY: Readonly<Record<number, string>> = { 80: "ok,timeout", 81: "timeout,ok" };

/** A node with two pods, and its filters where port 80 is allowed and where port 81 is. */
async function createWorld() {
  const world = await PolicyAgentNode.create();
  const [web, client] = [await world.serving("web", { app: "web" }, [80, 81]), await world.serving("client", { app: "client" }, [80, 81])];
  const judged = async () => (await Promise.all([80, 81].map((port) => reach(client, web, "tcp", port)))).join();
  const tables = new Map<number, string>();
  for (const port of [80, 81]) {
    world.write("allow", allow(port));
    expect(await eventually(ONLY[port], judged)).toBe(ONLY[port]);
    tables.set(port, await world.table());
  }
  return Object.assign(world, { tables, judged });
}

it("A pass that is killed leaves the filter from before or from after, and the next agent the one from after", async () => {
  await using world = await createWorld();
  const { agent, tables, judged } = world;
  const kills: string[] = [];
  const whole = [...tables.values()];
  expect(new Set(whole).size).toBe(2);
  let port = 81;
  for (const calls of [SENDS, WRITES]) {
    for (let when = 1; when < MANY; when++) {
      port = port === 80 ? 81 : 80;
      const strace = await aim(agent, calls, when);
      const ended = new Promise((done) => strace.once("close", done));
      world.write("allow", allow(port));
      for (let looks = 0; agent.isRunning && looks < 100 && (await world.table()) !== tables.get(port); looks++) await Bun.sleep(20);
      // What comes after the pass may be the point.
      await Promise.race([agent.ended, Bun.sleep(300)]);
      const wasKilled = !agent.isRunning;
      if (wasKilled) kills.push(`${calls} ${when}: ${(await world.table()) === tables.get(port) ? "after" : "before"}`);
      strace.kill(wasKilled ? "SIGKILL" : "SIGTERM");
      await ended;
      expect(whole).toContain(await world.table());
      if (!agent.isRunning) await agent.restart();
      expect(await eventually(tables.get(port), () => world.table())).toBe(tables.get(port));
      expect(await judged()).toBe(ONLY[port]);
      if (!wasKilled) break;
    }
  }
  process.stdout.write(`killed passes: ${kills.join("; ")}\n`);
  expect(kills.some((kill) => kill.endsWith("before"))).toBe(true);
  expect(kills.some((kill) => kill.endsWith("after"))).toBe(true);
});

it("A first pass that is killed leaves no filter or a whole one", async () => {
  await using world = await createWorld();
  const { agent, tables, judged } = world;
  const found = new Map<string, number>();
  const take = async () => {
    await agent.stop();
    await world.node.run(["/usr/sbin/nft", "delete", "table", "inet", "tortie-policy"]);
  };
  // A filter that is made at once has its chains in another order than one that has grown.
  await take();
  await agent.restart();
  expect(await eventually(ONLY[81], judged)).toBe(ONLY[81]);
  const whole = await world.table();
  expect(linesOf(whole)).toEqual(linesOf(tables.get(81)));
  // Every one: few messages follow the one that makes the filter.
  for (const calls of [SENDS, PLACES]) {
    for (let when = 1; when <= MOST_CALLS; when++) {
      await take();
      agent.before = injecting(calls, `signal=SIGKILL:when=${when}`);
      await agent.restart("none");
      agent.before = [];
      for (let looks = 0; agent.isRunning && looks < 300 && (await world.table()) === ""; looks++) await Bun.sleep(20);
      await Promise.race([agent.ended, Bun.sleep(300)]);
      const wasKilled = !agent.isRunning;
      const { pid } = agent.file() ?? {};
      // Not strace, which would leave it alone.
      if (!wasKilled && pid !== undefined) process.kill(pid, "SIGKILL");
      await agent.ended;
      const table = await world.table();
      const what = table === "" ? "no filter" : "a filter";
      if (wasKilled) found.set(what, (found.get(what) ?? 0) + 1);
      expect(["", whole]).toContain(table);
      if (!wasKilled) break;
    }
  }
  process.stdout.write(`killed first passes: ${JSON.stringify([...found])}\n`);
  expect(found.size).toBeGreaterThan(1);
  await agent.restart();
  expect(await eventually(ONLY[81], judged)).toBe(ONLY[81]);
  expect(linesOf(await world.table())).toEqual(linesOf(whole));
});

function linesOf(table = ""): readonly string[] {
  return table.split("\n").sort();
}
