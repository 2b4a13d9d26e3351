/** Calls of the main plugin on a node with a real agent: forwarded, waited for, queued (A§3.10, A§11.3, A§11.5). */
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileKey } from "../../../../lib/cni/attachment-id.ts";
import { Agent } from "../../../support/agent.ts";
import { localConf, podArgs } from "../../../support/conf.ts";
import { fresh } from "../../../support/fixtures.ts";
import { until } from "../../../support/kubernetes/until.ts";
import { holdLock } from "../../../support/lock-holder-process.ts";
import { BIN_DIR, type CniRun, Node } from "../../../support/node.ts";
import { readStore } from "../../../support/store.ts";

function confOf(node: Node, agent: Agent, change: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return localConf(node, { cniVersion: "1.1.0", ...agent.netconf, ...change });
}

const node = fresh(Node.create);

describe("a call on a node with an agent", () => {
  it("A-A01: is served by the agent, with the answer of direct mode byte for byte", async () => {
    await using agent = await Agent.start(node);
    const conf = confOf(node, agent);
    const pod = await node.addPod();
    const added = await node.cni("ADD", { pod, conf, args: podArgs("web") });
    expect(added).toMatchObject({ exit: 0, stderr: "" });
    expect(await node.cni("CHECK", { pod, conf: { ...conf, prevResult: added.json }, args: podArgs("web") })).toMatchObject({ exit: 0 });
    expect(await node.cni("STATUS", { conf })).toMatchObject({ exit: 0, stdout: "" });
    expect(await node.cni("DEL", { pod, conf, args: podArgs("web") })).toMatchObject({ exit: 0, stdout: "", stderr: "" });
    await node.expectClean();
    expect(agent.log).toContain("command=ADD");

    await agent.stop();
    const direct = await node.cni("ADD", { pod, conf: { ...conf, agent: "off" }, args: podArgs("web") });
    expect(masked(added)).toBe(masked(direct));
  });

  it("gets its addresses from the agent whichever copy of the executable that runs from: it need not see the plugins' directory", async () => {
    // As in a container: another file than the plugins', which are not to be seen.
    const [image, nothing] = [join(node.dir, "image"), join(node.dir, "nothing")];
    for (const directory of [image, nothing]) mkdirSync(directory);
    const program = join(image, "tortie-node");
    copyFileSync(join(BIN_DIR, "tortie-node"), program);
    await using agent = await Agent.start(node, { program, binds: { [BIN_DIR]: nothing } });
    const pod = await node.addPod();
    const conf = confOf(node, agent);
    const added = await node.cni("ADD", { pod, conf });
    expect(added).toMatchObject({ exit: 0, stderr: "" });
    expect(await node.cni("CHECK", { pod, conf: { ...conf, prevResult: added.json } })).toMatchObject({ exit: 0 });
    expect(await node.cni("STATUS", { conf })).toMatchObject({ exit: 0 });
    expect(await node.cni("GC", { conf: { ...conf, "cni.dev/valid-attachments": [] } })).toMatchObject({ exit: 0 });
    expect(await node.cni("DEL", { pod, conf })).toMatchObject({ exit: 0 });
    expect((await readStore(node)).allocated).toEqual([]);

    // A plugin that is to run as a program of its own must be one that the agent sees.
    const apart = { ...conf, ipam: { ...Object(conf.ipam), in_process: false } };
    expect(await node.cni("ADD", { pod, conf: apart })).toMatchObject({ exit: 1, stdout: expect.stringContaining("delegate-not-found") });
  });

  it("goes on after GC in the agent", async () => {
    await using agent = await Agent.start(node);
    const conf = confOf(node, agent);
    for (const containerId of ["kept", "lost"]) {
      expect(await node.cni("ADD", { pod: await node.addPod(), containerId, conf })).toMatchObject({ exit: 0 });
    }
    const gc = { ...conf, "cni.dev/valid-attachments": [{ containerID: "kept", ifname: "eth0" }] };
    expect(await node.cni("GC", { conf: gc })).toMatchObject({ exit: 0, stdout: "", stderr: "" });
    expect((await node.leftovers()).links).toEqual(["calikept"]);
  });

  it("fails with the agent's error, unchanged", async () => {
    await using agent = await Agent.start(node);
    const run = await node.cni("ADD", { pod: await node.addPod(), conf: confOf(node, agent, { device_type: "bogus" }) });
    expect(run).toMatchObject({ exit: 1, stderr: "", json: { code: 999, msg: expect.stringContaining("unknown device_type") } });
  });
});

describe("a call on a node whose agent is away", () => {
  it("A-A13: is the plugin's own without the key, and with agent off, whatever is there", async () => {
    await using agent = await Agent.start(node);
    const confs = [
      localConf(node, { agent_socket: agent.socket, agent_wait_seconds: 200 }),
      localConf(node, { agent_socket: join(node.dir, "nowhere/tortie.sock"), agent: "off", agent_wait_seconds: 200 }),
    ];
    for (const [index, conf] of confs.entries()) {
      const run = await node.cni("ADD", { containerId: `cid${index}`, pod: await node.addPod(), conf });
      expect(run).toMatchObject({ exit: 0, stderr: expect.not.stringContaining("waiting") });
    }
    expect(agent.log).not.toContain("command=ADD");
    expect(await endpointsOf(agent)).toEqual([]);
  });

  it("A-A11, A-A12: fails an ADD with code 11, naming the wait and where to look, and lets STATUS succeed", async () => {
    const conf = localConf(node, {
      cniVersion: "1.1.0",
      agent: "require",
      agent_socket: join(node.dir, "run/tortie.sock"),
      agent_wait_seconds: 1,
    });
    const run = await node.cni("ADD", { pod: await node.addPod(), conf });
    expect(run).toMatchObject({ exit: 1, json: { code: 11, details: expect.stringContaining("agent-unreachable") } });
    expect(run.json).toMatchObject({ msg: expect.stringMatching(/no agent answered at .* within \d+ s \(none was started/) });
    expect(run.stderr).toContain("waiting up to 1 s");
    expect(run.json).toMatchObject({ details: expect.stringMatching(/DaemonSet.*systemctl status tortie-node/) });
    expect(await node.cni("STATUS", { conf })).toMatchObject({ exit: 0, stdout: "" });
    await node.expectClean();
  });

  it("A-A10: waits for an agent that restarts, and is served by it", async () => {
    await using agent = await Agent.start(node);
    await agent.stop();
    const adding = node.cni("ADD", { pod: await node.addPod(), conf: confOf(node, agent) });
    const [added] = await Promise.all([adding, agent.restart()]);
    expect(added).toMatchObject({ exit: 0 });
    expect(agent.log).toContain("command=ADD");
  });

  it("X3: a DEL does not unplug an attachment while another process works on it", async () => {
    await using agent = await Agent.start(node);
    const log = join(node.dir, "cni.log");
    const conf = confOf(node, agent, { log_file_path: log });
    const pod = await node.addPod();
    expect(await node.cni("ADD", { pod, conf })).toMatchObject({ exit: 0 });
    await agent.kill();
    const lock = fileKey({ network: "net1", containerId: "cid1", ifname: "eth0" }).slice(0, 3);
    using holder = await holdLock(join(agent.runDir, "attachments", lock), 300);
    let isDone = false;
    const deleting = node.cni("DEL", { pod, conf }).finally(() => {
      isDone = true;
    });
    const isWaiting = () => existsSync(log) && readFileSync(log, "utf8").includes("waiting for the attachment's lock");
    await until("the DEL waits for the lock, or ends", () => isDone || isWaiting());
    expect(isDone).toBe(false);
    expect((await node.leftovers()).links).toHaveLength(1);
    holder.kill("SIGKILL");
    expect(await deleting).toMatchObject({ exit: 0 });
    await agent.restart();
    await until("the queue is empty", () => queueOf(agent).length === 0);
  });
});

describe("DEL while the agent is away", () => {
  const agent = fresh(() => Agent.start(node));

  it("A-D01: removes the link at once, and leaves one queue file however often it comes", async () => {
    const conf = confOf(node, agent, { agent_wait_seconds: 0 });
    const pod = await node.addPod();
    expect(await node.cni("ADD", { pod, conf: { ...conf, agent_wait_seconds: 60 } })).toMatchObject({ exit: 0 });
    await agent.kill();
    for (let time = 0; time < 5; time++) expect(await node.cni("DEL", { pod, conf })).toMatchObject({ exit: 0, stdout: "" });
    await node.expectClean();
    expect((await readStore(node)).allocated).toHaveLength(1);
    expect(queueOf(agent)).toEqual([expect.stringMatching(/^[0-9a-f]{64}\.json$/)]);

    await agent.restart();
    await until("the queue is empty", () => queueOf(agent).length === 0);
    expect(await readStore(node)).toMatchObject({ allocated: [], handles: [], endpoints: [] });
  });

  it("A-D04: is carried out before the ADD of the same attachment, which is whole", async () => {
    const conf = confOf(node, agent);
    const first = await node.addPod();
    expect(await node.cni("ADD", { pod: first, conf })).toMatchObject({ exit: 0 });
    await agent.kill();
    expect(await node.cni("DEL", { pod: first, conf: { ...conf, agent_wait_seconds: 0 } })).toMatchObject({ exit: 0 });
    const pod = await node.addPod();
    const [added] = await Promise.all([node.cni("ADD", { pod, conf }), agent.restart()]);
    expect(added).toMatchObject({ exit: 0 });
    await until("the queue is empty", () => queueOf(agent).length === 0);
    expect(await node.cni("CHECK", { pod, conf: { ...conf, prevResult: added.json } })).toMatchObject({ exit: 0 });
    expect((await readStore(node)).allocated).toHaveLength(1);
  });

  it("A-D06: of an attachment that nobody knows, without a sandbox, is a success and leaves nothing", async () => {
    expect(await node.cni("DEL", { conf: confOf(node, agent), containerId: "never" })).toMatchObject({ exit: 0, stdout: "" });
  });
});

async function endpointsOf(agent: Agent): Promise<unknown> {
  return (await agent.request("GET", "/endpoint")).json;
}

function queueOf(agent: Agent): string[] {
  return readdirSync(join(agent.runDir, "deletequeue")).filter((name) => name !== "lock");
}

/** The address and the MAC of a repeated ADD may differ. */
function masked({ stdout }: CniRun): string {
  return stdout.replace(/10\.244\.\d+\.\d+/g, "ADDRESS").replace(/"mac": "[^"]*"/g, "MAC");
}
