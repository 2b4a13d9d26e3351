/** What an agent that was killed finds again, judged by the kernel, the store and the files of the run directory (A§7.3). */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { addByAgent } from "../../support/agent-calls.ts";
import { localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node, type Pod } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

interface Added {
  readonly pod: Pod;
  /** With its length. */
  readonly address: string;
  readonly endpoint: number;
}

const node = fresh(Node.create);
const agent = fresh(() => Agent.start(node));

async function add(containerId: string): Promise<Added> {
  const pod = await node.addPod();
  const { prefixes, endpoint } = await addByAgent(agent, localConf(node), { pod, containerId });
  return { pod, address: prefixes[0] ?? "", endpoint };
}

async function addMany(count: number): Promise<Added[]> {
  const added: Added[] = [];
  for (let number = 1; number <= count; number++) added.push(await add(`cid${number}`));
  return added;
}

const state = () => join(agent.runDir, "state");
const recordPath = (id: number) => join(state(), String(id), "endpoint.json");
const recordOf = (id: number) => JSON.parse(readFileSync(recordPath(id), "utf8"));
const ids = () =>
  readdirSync(state())
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
const restoredLine = () => agent.log.split("\n").findLast((line) => / restored\b(?!:)/.test(line)) ?? "";

async function restartKilled(): Promise<void> {
  await agent.kill();
  const before = agent.log.length;
  await agent.restart();
  await agent.until("its endpoints are built", () => / restored\b(?!:)/.test(agent.log.slice(before)));
}

describe("An agent that is started again", () => {
  it("A-R01: has every endpoint again, with its id and its address, builds all, and says how many", async () => {
    const added = await addMany(20);
    const before = added.map(({ endpoint }) => recordOf(endpoint));

    await restartKilled();

    expect(ids().sort((a, b) => a - b)).toEqual(added.map(({ endpoint }) => endpoint).sort((a, b) => a - b));
    for (const [at, { endpoint }] of added.entries()) {
      expect(recordOf(endpoint)).toMatchObject({ phase: "ready", addresses: before[at].addresses, result: before[at].result });
    }
    expect(restoredLine()).toMatch(/read=20 ready=20 undone=0 deleting=0 adopted=0 waiting=0 bad=0 built=20 failed=0/);
  });

  it("A-R02: gives a new container no address of a restored one, from the first instant", async () => {
    const added = await addMany(5);
    await agent.kill();
    await agent.restart("local");

    const late = await add("late");

    expect(added.map(({ address }) => address)).not.toContain(late.address);
    expect(added.map(({ endpoint }) => endpoint)).not.toContain(late.endpoint);
  });

  it("A-R04: keeps records that it cannot read aside, and their addresses granted", async () => {
    const added = await addMany(4);
    await agent.kill();
    const [empty = 0, cut = 0, newer = 0, good = 0] = added.map(({ endpoint }) => endpoint);
    writeFileSync(recordPath(empty), "");
    writeFileSync(recordPath(cut), readFileSync(recordPath(cut), "utf8").slice(0, 100));
    writeFileSync(recordPath(newer), readFileSync(recordPath(newer), "utf8").replace('"format":1', '"format":9'));

    await restartKilled();

    expect(ids()).toEqual([good]);
    expect(
      readdirSync(join(state(), "bad"))
        .map((name) => Number(name.split("-")[0]))
        .sort((a, b) => a - b),
    ).toEqual([empty, cut, newer].sort((a, b) => a - b));
    expect((await readStore(node)).allocated).toHaveLength(4);
    for (const id of [empty, cut, newer]) expect(agent.log).toContain(`endpoint ${id}: its record cannot be read`);
  });

  it("A-R08: takes its own link over by alias, and touches nothing foreign", async () => {
    const [renamed, moved] = await addMany(2);
    if (renamed === undefined || moved === undefined) throw new Error("two were added");
    const nameOf = ({ endpoint }: Added): string => recordOf(endpoint).hostInterface.name;
    await agent.kill();
    // One link is renamed; of the other one, the record has the index of somebody else's link.
    await node.ip("link", "add", "foreign0", "type", "veth", "peer", "name", "foreign1");
    const [foreign] = await node.ip("-j", "link", "show", "foreign0");
    const [own] = await node.ip("-j", "link", "show", nameOf(moved));
    const record = recordOf(moved.endpoint);
    record.hostInterface.index = foreign?.ifindex;
    writeFileSync(recordPath(moved.endpoint), JSON.stringify(record));
    await node.ip("link", "set", nameOf(renamed), "down");
    await node.ip("link", "set", nameOf(renamed), "name", "renamed0");
    await node.ip("link", "set", "renamed0", "up");
    const before = await node.ip("-j", "link", "show");

    await restartKilled();

    expect(await node.ip("-j", "link", "show", "foreign0")).toEqual([foreign]);
    expect((await node.ip("-j", "link", "show")).map(({ ifname, ifindex }) => ({ ifname, ifindex }))).toEqual(
      before.map(({ ifname, ifindex }) => ({ ifname, ifindex })),
    );
    expect(recordOf(moved.endpoint).hostInterface.index).toBe(own?.ifindex);
  });

  it("A-R09: drops the state of an earlier boot", async () => {
    const added = await addMany(2);
    await agent.stop();
    for (const { pod } of added) await node.removePod(pod);
    writeFileSync(join(state(), "boot-id"), "another boot\n");

    await agent.restart();

    expect(ids()).toEqual([]);
    await agent.until("the old state is removed", () => !readdirSync(agent.runDir).some((name) => name.startsWith("old-")));
  });

  it("A-R10: keeps an endpoint whose build fails, tries again, and builds the others", async () => {
    const [broken, whole] = await addMany(2);
    if (broken === undefined || whole === undefined) throw new Error("two were added");
    const [route] = await node.ip("-j", "route", "show", broken.address);
    const host = String(route?.dev);
    await agent.kill();
    // Somebody else's route to the same address: the build cannot put its own there.
    await node.ip("link", "add", "foreign0", "type", "veth", "peer", "name", "foreign1");
    for (const name of ["foreign0", "foreign1"]) await node.ip("link", "set", name, "up");
    await node.ip("route", "del", broken.address);
    await node.ip("route", "add", broken.address, "dev", "foreign0");

    await restartKilled();

    expect(restoredLine()).toMatch(/built=1 failed=1/);
    expect(recordOf(broken.endpoint)).toMatchObject({ phase: "ready" });
    await node.ip("route", "del", broken.address);
    await agent.until("its route is back", async () => (await node.ip("-j", "route", "show", broken.address))[0]?.dev === host);
  });

  it("finishes a DEL and takes an ADD back that the kill interrupted", async () => {
    const [adding, deleting, kept] = await addMany(3);
    if (adding === undefined || deleting === undefined || kept === undefined) throw new Error("three were added");
    await agent.kill();
    const rewrite = (id: number, phase: string) => writeFileSync(recordPath(id), JSON.stringify({ ...recordOf(id), phase }));
    rewrite(adding.endpoint, "adding:endpoint");
    rewrite(deleting.endpoint, "deleting:begun");
    mkdirSync(join(state(), "4000"));

    await agent.restart();

    await agent.until("both are gone", () => ids().length === 1);
    expect(ids()).toEqual([kept.endpoint]);
    const routes = await node.ip("-j", "-4", "route", "show");
    expect(routes.map(({ dst }) => `${dst}/32`)).toEqual([kept.address]);
    expect((await readStore(node)).allocated).toHaveLength(1);
    expect(readdirSync(join(state(), "gone"))).toHaveLength(2);
  });
});
