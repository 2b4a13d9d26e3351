/** What an agent that was killed finds again, judged by the kernel, the store and the files of the run directory (A§7.3). */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent, cniCallBody } from "../../support/agent.ts";
import { localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node, type Pod } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

interface Added {
  readonly pod: Pod;
  readonly containerId: string;
  readonly address: string;
  readonly endpoint: number;
}

async function add(agent: Agent, containerId: string): Promise<Added> {
  const pod = await agent.node.addPod();
  const body = cniCallBody(localConf(agent.node), { netns: pod.netnsPath, containerId });
  const answer = await agent.call("add", body);
  expect(answer).toMatchObject({ status: 200 });
  const { ips } = answer.json as { ips: { address: string }[] };
  return { pod, containerId, address: ips[0]?.address ?? "", endpoint: answer.endpoint };
}

async function addMany(agent: Agent, count: number): Promise<Added[]> {
  const added: Added[] = [];
  for (let number = 1; number <= count; number++) added.push(await add(agent, `cid${number}`));
  return added;
}

const stateOf = (agent: Agent) => join(agent.runDir, "state");
const recordPath = (agent: Agent, id: number) => join(stateOf(agent), String(id), "endpoint.json");
const recordOf = (agent: Agent, id: number) => JSON.parse(readFileSync(recordPath(agent, id), "utf8"));
const idsOf = (agent: Agent) =>
  readdirSync(stateOf(agent))
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
const restoredLine = (agent: Agent) => agent.log.split("\n").findLast((line) => / restored\b(?!:)/.test(line)) ?? "";

async function restartKilled(agent: Agent): Promise<void> {
  await agent.kill();
  const before = agent.log.length;
  await agent.restart();
  await agent.until("its endpoints are built", () => / restored\b(?!:)/.test(agent.log.slice(before)));
}

const node = fresh(Node.create);
const agent = fresh(() => Agent.start(node));

describe("An agent that is started again", () => {
  it("A-R01: has every endpoint again, with its id and its address, builds all, and says how many", async () => {
    const added = await addMany(agent, 20);
    const before = added.map(({ endpoint }) => recordOf(agent, endpoint));

    await restartKilled(agent);

    expect(idsOf(agent).sort((a, b) => a - b)).toEqual(added.map(({ endpoint }) => endpoint).sort((a, b) => a - b));
    for (const [at, { endpoint }] of added.entries()) {
      expect(recordOf(agent, endpoint)).toMatchObject({ phase: "ready", addresses: before[at].addresses, result: before[at].result });
    }
    expect(restoredLine(agent)).toMatch(/read=20 ready=20 undone=0 deleting=0 adopted=0 waiting=0 bad=0 built=20 failed=0/);
  });

  it("A-R02: gives a new container no address of a restored one, from the first instant", async () => {
    const added = await addMany(agent, 5);
    await agent.kill();
    await agent.restart("local");

    const late = await add(agent, "late");

    expect(added.map(({ address }) => address)).not.toContain(late.address);
    expect(added.map(({ endpoint }) => endpoint)).not.toContain(late.endpoint);
  });

  it("A-R04: keeps records that it cannot read aside, and their addresses granted", async () => {
    const added = await addMany(agent, 4);
    const ids = added.map(({ endpoint }) => endpoint);
    await agent.kill();
    const [empty = 0, cut = 0, newer = 0, good = 0] = ids;
    writeFileSync(recordPath(agent, empty), "");
    writeFileSync(recordPath(agent, cut), readFileSync(recordPath(agent, cut), "utf8").slice(0, 100));
    writeFileSync(recordPath(agent, newer), readFileSync(recordPath(agent, newer), "utf8").replace('"format":1', '"format":9'));

    await restartKilled(agent);

    expect(idsOf(agent)).toEqual([good]);
    expect(
      readdirSync(join(stateOf(agent), "bad"))
        .map((name) => Number(name.split("-")[0]))
        .sort((a, b) => a - b),
    ).toEqual([empty, cut, newer].sort((a, b) => a - b));
    expect((await readStore(node)).allocated).toHaveLength(4);
    for (const id of [empty, cut, newer]) expect(agent.log).toContain(`endpoint ${id}: its record cannot be read`);
  });

  it("A-R08: takes its own link over by alias, and touches nothing foreign", async () => {
    const [renamed, moved] = await addMany(agent, 2);
    if (renamed === undefined || moved === undefined) throw new Error("two were added");
    const nameOf = ({ endpoint }: Added): string => recordOf(agent, endpoint).hostInterface.name;
    await agent.kill();
    // One link is renamed; of the other one, the record has the index of somebody else's link.
    await node.ip("link", "add", "foreign0", "type", "veth", "peer", "name", "foreign1");
    const [foreign] = await node.ip("-j", "link", "show", "foreign0");
    const [own] = await node.ip("-j", "link", "show", nameOf(moved));
    const record = recordOf(agent, moved.endpoint);
    record.hostInterface.index = foreign?.ifindex;
    writeFileSync(recordPath(agent, moved.endpoint), JSON.stringify(record));
    await node.ip("link", "set", nameOf(renamed), "down");
    await node.ip("link", "set", nameOf(renamed), "name", "renamed0");
    await node.ip("link", "set", "renamed0", "up");
    const before = await node.ip("-j", "link", "show");

    await restartKilled(agent);

    expect(await node.ip("-j", "link", "show", "foreign0")).toEqual([foreign]);
    expect((await node.ip("-j", "link", "show")).map(({ ifname, ifindex }) => ({ ifname, ifindex }))).toEqual(
      before.map(({ ifname, ifindex }) => ({ ifname, ifindex })),
    );
    expect(recordOf(agent, moved.endpoint).hostInterface.index).toBe(own?.ifindex);
  });

  it("A-R09: drops the state of an earlier boot", async () => {
    const added = await addMany(agent, 2);
    await agent.stop();
    for (const { pod } of added) await node.removePod(pod);
    writeFileSync(join(stateOf(agent), "boot-id"), "another boot\n");

    await agent.restart();

    expect(idsOf(agent)).toEqual([]);
    await agent.until("the old state is removed", () => !readdirSync(agent.runDir).some((name) => name.startsWith("old-")));
  });

  it("A-R10: keeps an endpoint whose build fails, tries again, and builds the others", async () => {
    const [broken, whole] = await addMany(agent, 2);
    if (broken === undefined || whole === undefined) throw new Error("two were added");
    const [route] = await node.ip("-j", "route", "show", broken.address);
    const host = String(route?.dev);
    await agent.kill();
    // Somebody else's route to the same address: the build cannot put its own there.
    await node.ip("link", "add", "foreign0", "type", "veth", "peer", "name", "foreign1");
    for (const name of ["foreign0", "foreign1"]) await node.ip("link", "set", name, "up");
    await node.ip("route", "del", broken.address);
    await node.ip("route", "add", broken.address, "dev", "foreign0");

    await restartKilled(agent);

    expect(restoredLine(agent)).toMatch(/built=1 failed=1/);
    expect(recordOf(agent, broken.endpoint)).toMatchObject({ phase: "ready" });
    await node.ip("route", "del", broken.address);
    await agent.until("its route is back", async () => (await node.ip("-j", "route", "show", broken.address))[0]?.dev === host);
  });

  it("finishes a DEL and takes an ADD back that the kill interrupted", async () => {
    const [adding, deleting, kept] = await addMany(agent, 3);
    if (adding === undefined || deleting === undefined || kept === undefined) throw new Error("three were added");
    await agent.kill();
    const rewrite = (id: number, phase: string) => writeFileSync(recordPath(agent, id), JSON.stringify({ ...recordOf(agent, id), phase }));
    rewrite(adding.endpoint, "adding:endpoint");
    rewrite(deleting.endpoint, "deleting:begun");
    mkdirSync(join(stateOf(agent), "4000"));

    await agent.restart();

    await agent.until("both are gone", () => idsOf(agent).length === 1);
    expect(idsOf(agent)).toEqual([kept.endpoint]);
    const routes = await node.ip("-j", "-4", "route", "show");
    expect(routes.map(({ dst }) => `${dst}/32`)).toEqual([kept.address]);
    expect((await readStore(node)).allocated).toHaveLength(1);
    expect(readdirSync(join(stateOf(agent), "gone"))).toHaveLength(2);
  });
});
