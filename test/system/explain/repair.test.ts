/** `tortiectl repair`: what it does and does not do, with an agent and without one. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { openLocalDatastore } from "../../../lib/datastore/local/local-datastore.ts";
import { Agent } from "../../support/agent.ts";
import { ExplainedNode, wrongIn } from "../../support/explained-node.ts";
import { fresh } from "../../support/fixtures.ts";

const here = fresh(ExplainedNode.create);

async function routes() {
  return (await here.node.ip("-j", "route", "show")).map(({ dst, dev }) => `${dst} ${dev}`);
}

it("changes nothing unless it is told to, and says what it would do", async () => {
  const web = await here.add("web", "aa11");
  const before = await routes();
  const right = await here.here("repair", "node");
  await here.node.ip("route", "del", `${web.addresses[0]}/32`);

  const plain = await here.here("repair", "pod", "default/web");
  const dry = await here.here("repair", "container", "aa", "--dry-run");

  for (const seen of [plain, dry]) {
    expect(seen).toMatchObject({
      exit: 1,
      stdout: expect.stringMatching(/host route 10\.244.*found missing[\s\S]*nothing was changed: repeat the command with --yes/),
    });
  }
  expect([right.exit, await routes()]).toEqual([0, []]);
  expect(existsSync(join(here.node.dir, "run", "history"))).toBe(false);
  expect(await here.here("repair", "pod", "default/web", "--yes")).toMatchObject({ exit: 0 });
  expect(await routes()).toEqual(before);
  expect(await here.here("repair", "pod", "default/web", "--yes", "--dry-run")).toMatchObject({ exit: 2 });
  expect(await here.here("repair", "pod", "default/nobody")).toMatchObject({
    exit: 1,
    stderr: expect.stringContaining("endpoint-unknown"),
  });
});

it("has the agent make a link again that is gone, and notes it before and after", async () => {
  here.agent = await Agent.start(here.node);
  const web = await here.add("web", "aa11");
  await here.node.ip("link", "del", web.hostInterface);

  const repaired = await here.here("repair", "pod", "default/web", "--yes", "--json");
  const explained = await here.explain("pod", "default/web");

  expect(JSON.parse(repaired.stdout)).toMatchObject({
    applied: true,
    results: [{ group: "repair", status: "ok", message: expect.stringContaining("made again") }],
  });
  expect(wrongIn(explained)).toEqual([]);
  expect(explained.history.filter(({ event }) => event === "repair").map(({ message }) => message)).toEqual([
    expect.stringContaining("made again"),
    expect.stringMatching(/^begins: host link .* missing/),
  ]);
  expect(await here.node.podIp(web.pod, "-j", "-4", "addr", "show", "eth0")).toMatchObject([{ addr_info: [{ local: web.addresses[0] }] }]);
});

it("makes a link again by the agent's own code where the agent is away, and refuses beside one that does not answer", async () => {
  const agent = await Agent.start(here.node);
  here.agent = agent;
  const web = await here.add("web", "aa11");
  await here.node.ip("link", "del", web.hostInterface);
  agent.signal("SIGSTOP");
  const beside = await here.here("repair", "pod", "default/web", "--yes");
  agent.signal("SIGCONT");
  await agent.kill();

  const alone = await here.here("repair", "pod", "default/web", "--yes");
  await agent.restart();

  expect(beside).toMatchObject({ exit: 1, stderr: expect.stringContaining("agent-running") });
  expect(alone).toMatchObject({ exit: 0, stdout: expect.stringContaining("made again") });
  expect(wrongIn(await here.explain("pod", "default/web"))).toEqual([]);
});

it("does not make a link again whose sandbox nobody can prove, nor take its address away", async () => {
  here.node.excuse("a link is deleted under a pod that lives", "lost");
  const web = await here.add("web", "aa11");
  await here.node.ip("link", "del", web.hostInterface);

  const explained = await here.explain("pod", "default/web");
  const repaired = await here.here("repair", "node", "--yes");

  expect(wrongIn(explained)).toEqual([
    expect.stringMatching(/its link is gone, and nobody can prove which sandbox .* -> .*tortiectl ipam release --container aa11/),
  ]);
  expect(repaired.stdout).toContain("nobody can prove its sandbox");
  expect((await here.explain("ip", web.addresses[0] ?? "")).addresses).toMatchObject([{ standing: "used" }]);
});

it("writes a record again that the datastore has lost, and gives an address its grant back", async () => {
  here.agent = await Agent.start(here.node);
  const web = await here.add("web", "aa11");
  {
    await using store = openLocalDatastore(here.node.datastorePath);
    for (const { value, revision } of await store.endpoints.list())
      await store.endpoints.delete({ namespace: value.namespace, name: value.name }, revision);
  }
  const wrong = await here.explain("pod", "default/web");

  const repaired = await here.here("repair", "pod", "default/web", "--yes");

  expect(wrongIn(wrong).join()).toContain("the datastore has no record of container aa11");
  expect(repaired).toMatchObject({ exit: 0, stdout: expect.stringContaining(`names ${web.addresses[0]} again`) });
  expect(wrongIn(await here.explain("pod", "default/web"))).toEqual([]);
  expect((await here.tortiectl("ipam", "check", "--datastore", here.node.datastorePath)).exit).toBe(0);
});

it("mends the host itself, and leaves tables of others alone", async () => {
  await here.add("web", "aa11");
  await here.node.run(["nft", "add table inet foreign; delete table inet tortie"]);
  await here.node.run(["sysctl", "-w", "net.ipv4.ip_forward=0"]);

  const seen = await here.here("repair", "node");
  const repaired = await here.here("repair", "node", "--yes");

  expect(seen).toMatchObject({ exit: 1, stdout: expect.stringMatching(/ip_forward is not 1[\s\S]*table inet tortie is not there/) });
  expect(repaired.exit).toBe(0);
  expect(await here.node.sysctl("net/ipv4/ip_forward")).toBe("1");
  expect((await here.node.run(["nft", "list", "tables"])).stdout).toMatch(/inet foreign[\s\S]*inet tortie|inet tortie[\s\S]*inet foreign/);
});
