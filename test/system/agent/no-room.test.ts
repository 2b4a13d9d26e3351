/** An agent whose run directory takes no file any more, and one that may open no further file. */
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { Agent } from "../../support/agent.ts";
import { addByAgent, callAgent } from "../../support/agent-calls.ts";
import { localConf } from "../../support/conf.ts";
import { Node, type Pod } from "../../support/node.ts";
import { SmallDisk } from "../../support/small-disk.ts";

jest.setTimeout(120_000);

interface Situation {
  readonly word: string;
  readonly next: RegExp;
  readonly begin: (disk: SmallDisk) => void;
  readonly end: (disk: SmallDisk) => void;
}

const empty = (disk: SmallDisk) => disk.empty();
const SITUATIONS: readonly (readonly [string, Situation])[] = [
  ["without a byte of room", { word: "disk-full", next: /df PATH/, begin: (disk) => disk.fillBytes(), end: empty }],
  ["without an inode", { word: "disk-full", next: /df -i PATH/, begin: (disk) => disk.fillInodes(), end: empty }],
  [
    "that is read-only",
    { word: "file-system-read-only", next: /remount,rw/, begin: (disk) => disk.setReadOnly(true), end: (disk) => disk.setReadOnly(false) },
  ],
];

async function names(node: Node): Promise<readonly unknown[]> {
  return (await node.ip("-j", "link", "show")).map(({ ifname }) => ifname).filter((name) => name !== "lo");
}

async function hasLink(node: Node, pod: Pod): Promise<boolean> {
  return (await node.podIp(pod, "-j", "link", "show")).some(({ ifname }) => ifname === "eth0");
}

async function checkOf(agent: Agent): Promise<{ readonly state: string; readonly message: string; readonly next?: string }> {
  const { json } = await agent.request("GET", "/healthz");
  const { checks } = json as { checks: { name: string; state: string; message: string; next?: string }[] };
  return checks.find(({ name }) => name === "run-directory") ?? { state: "absent", message: "" };
}

describe.each(SITUATIONS)("A run directory %s", (_, { word, next, begin, end }) => {
  it("refuses an ADD before any effect, lets a DEL take everything away, and is a warning while it lasts", async () => {
    await using node = await Node.create();
    using disk = new SmallDisk();
    await using agent = await Agent.start(node, { runDir: disk.path });
    const conf = localConf(node, { cniVersion: "1.1.0", ...agent.netconf });
    const [first, second, third] = [await node.addPod(), await node.addPod(), await node.addPod()];
    const gone = await addByAgent(agent, conf, { pod: first, containerId: "first" });
    const kept = await addByAgent(agent, conf, { pod: second, containerId: "second" });
    expect(await checkOf(agent)).toMatchObject({ state: "ok" });

    begin(disk);
    const refused = await callAgent(agent, "add", conf, { pod: third, containerId: "third" });
    expect(refused).toMatchObject({ json: { msg: expect.stringContaining(disk.path), details: expect.stringContaining(`${word}: `) } });
    expect(refused.status).not.toBe(200);
    expect(await hasLink(node, third)).toBe(false);
    expect(await checkOf(agent)).toMatchObject({
      state: "warning",
      message: expect.stringContaining(disk.path),
      next: expect.stringMatching(next),
    });
    expect(await callAgent(agent, "status", conf)).toMatchObject({ status: 200 });

    for (const _time of ["first", "repeated"]) {
      expect(await callAgent(agent, "del", conf, { pod: first, containerId: "first" })).toMatchObject({ status: 200 });
      expect(await hasLink(node, first)).toBe(false);
      expect(await names(node)).toEqual([kept.hostEnd]);
    }
    expect(JSON.stringify(await node.ip("-j", "route", "show"))).not.toContain(gone.addresses[0]);
    expect(await callAgent(agent, "check", conf, { pod: second, containerId: "second" })).toMatchObject({ status: 200 });

    end(disk);
    await agent.until("the warning to end", async () => (await checkOf(agent)).state === "ok");
    await addByAgent(agent, conf, { pod: third, containerId: "third" });
    await agent.until(
      "the files of the deleted endpoint to go",
      () => readdirSync(`${disk.path}/state`).filter((id) => /^\d+$/.test(id)).length === 2,
    );
    expect(readdirSync(disk.path).filter((name) => name.includes(".tmp") || name === ".room")).toEqual([]);
  });

  it("does not bring back what was deleted when the agent is killed and starts again", async () => {
    await using node = await Node.create();
    using disk = new SmallDisk();
    await using agent = await Agent.start(node, { runDir: disk.path });
    const conf = localConf(node, { cniVersion: "1.1.0", ...agent.netconf });
    const [first, second] = [await node.addPod(), await node.addPod()];
    await addByAgent(agent, conf, { pod: first, containerId: "first" });
    const kept = await addByAgent(agent, conf, { pod: second, containerId: "second" });
    begin(disk);
    expect(await callAgent(agent, "del", conf, { pod: first, containerId: "first" })).toMatchObject({ status: 200 });

    await agent.kill();
    end(disk);
    await agent.restart();
    await agent.until("every endpoint to be looked at", async () => {
      const { json } = await agent.request("GET", "/endpoint");
      return !/"(restoring|regenerating|waiting-to-regenerate)"/.test(JSON.stringify(json));
    });
    expect(await hasLink(node, first)).toBe(false);
    expect(await names(node)).toEqual([kept.hostEnd]);

    expect(await callAgent(agent, "del", conf, { pod: first, containerId: "first" })).toMatchObject({ status: 200 });
    const again = await addByAgent(agent, conf, { pod: first, containerId: "again" });
    expect(again.addresses).not.toEqual(kept.addresses);
    expect(await hasLink(node, first)).toBe(true);
  });
});

describe("An agent that may open no further file", () => {
  it("says so with a word of its own, whatever it was about to open", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node);
    const conf = localConf(node, { cniVersion: "1.1.0", ...agent.netconf });
    const pods = await Promise.all(Array.from({ length: 12 }, () => node.addPod()));
    const open = readdirSync(`/proc/${agent.pid}/fd`).length;
    const limited = (limit: number) => execFileSync("prlimit", ["--pid", String(agent.pid), `--nofile=${limit}:`]);
    const words = new Map<string, number>();
    for (const room of [2, 3, 4, 5, 6, 8, 10, 12]) {
      limited(open + room);
      const calls = pods.map((pod, at) => callAgent(agent, "add", conf, { pod, containerId: `c${at}` }).catch(() => undefined));
      for (const answer of await Promise.all(calls)) {
        if (answer === undefined || answer.status === 200) continue;
        const details = String((answer.json as { details?: string } | undefined)?.details);
        const word = /([a-z]+(?:-[a-z]+)+|internal): /.exec(details)?.[1] ?? details;
        words.set(word, (words.get(word) ?? 0) + 1);
      }
      limited(4096);
      for (const [at, pod] of pods.entries()) {
        expect(await callAgent(agent, "del", conf, { pod, containerId: `c${at}` })).toMatchObject({ status: 200 });
      }
    }
    expect([...words.keys()]).toEqual(["descriptors-exhausted"]);
    await node.expectClean();
  });
});
