/**
 * An agent that would act on what it wrote down: sandboxes whose paths lead elsewhere since, or never led anywhere for the agent (design,
 * invariant 16). Judged by the kernel of every namespace.
 */
import { spawnSync } from "node:child_process";
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { addByAgent, type CallOptions, callAgent, lookAt, recordsOf } from "../../support/agent-calls.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { networkView } from "../../support/kernel-view.ts";
import { BIN_DIR, Node, type Pod, REFERENCE_PLUGINS_DIR } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

/** Drift is looked for every second here. */
const OFTEN = { args: ["--max-controller-interval", "1"] };
/** So many looks are had after a change, before it is said that none of them did anything. */
const LOOKS = 4;

/** The cases are played beside each other, each in a scene of its own, since they wait for looks of its agent. */
interface Scene extends AsyncDisposable {
  readonly node: Node;
  readonly agent: Agent;
  readonly conf: Record<string, unknown>;
}

async function scene(): Promise<Scene> {
  await using made = new AsyncDisposableStack();
  const node = made.use(await Node.create());
  const agent = made.use(await Agent.start(node, OFTEN));
  const kept = made.move();
  return { node, agent, conf: localConf(node, { ipam: dualIpam("46") }), [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

async function add({ agent, conf }: Scene, options: CallOptions): Promise<string> {
  return (await addByAgent(agent, conf, options)).hostEnd;
}

/** The path of a pod's sandbox leads to another namespace from now on, for everybody. */
function reusePath({ netnsPath }: Pod, target: string): void {
  for (const [program = "", ...args] of [
    ["umount", netnsPath],
    ["mount", "--bind", target, netnsPath],
  ]) {
    const { status, stderr } = spawnSync(program, args, { encoding: "utf8" });
    expect({ program, status, stderr }).toEqual({ program, status: 0, stderr: "" });
  }
}

describe("G1: a sandbox that the agent reached by its caller's descriptor alone", () => {
  it.concurrent("is recorded by the path of the request, and no later look or build works in another container's", async () => {
    await using stage = await scene();
    const { node } = stage;
    const [first, second] = [await node.addPod(), await node.addPod()];
    const descriptors = [openSync(first.netnsPath, "r"), openSync(second.netnsPath, "r")];
    try {
      const byDescriptor = (pod: Pod, fd: number | undefined, name: string) => ({
        ...lookAt(pod),
        path: `/run/netns/of-another-mount-namespace-${name}`,
        ...(fd === undefined ? {} : { fd }),
      });
      const hostInterface = await add(stage, { containerId: "cid1", netns: byDescriptor(first, descriptors[0], "a") });
      await add(stage, { containerId: "cid2", netns: byDescriptor(second, descriptors[1], "b") });
      const before = await networkView(node, second);

      await node.ip("link", "del", hostInterface);
      await stage.agent.looks("drift", LOOKS);

      expect(JSON.stringify(recordsOf(stage.agent))).not.toContain("/proc/self/fd");
      expect(await networkView(node, second)).toEqual(before);
      expect((await node.podIp(first, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
      expect((await stage.agent.request("GET", "/healthz")).text).toContain("sandbox-not-visible");
    } finally {
      for (const fd of descriptors) closeSync(fd);
    }
  });

  it.concurrent("survives a restart as an endpoint that is left alone, not as one that cannot be built for ever", async () => {
    await using stage = await scene();
    const { node, agent } = stage;
    const pod = await node.addPod();
    const fd = openSync(pod.netnsPath, "r");
    try {
      await add(stage, { netns: { ...lookAt(pod), path: "/run/netns/of-another-mount-namespace", fd } });
    } finally {
      closeSync(fd);
    }
    const before = await networkView(node, pod);

    await agent.kill();
    await agent.restart();
    await stage.agent.looks("drift", LOOKS);

    expect(agent.log).toMatch(/ restored .*built=1 failed=0/);
    expect(await networkView(node, pod)).toEqual(before);
    expect(recordsOf(agent)).toMatchObject([{ phase: "ready" }]);
  });
});

describe("G2: a sandbox whose path leads to another one", () => {
  it.concurrent.each(["while the agent runs", "while it is away"])("gets nothing in the other's namespace, used again %s", async (when) => {
    await using stage = await scene();
    const { node, agent } = stage;
    const [first, second] = [await node.addPod(), await node.addPod()];
    await add(stage, { pod: first });
    const before = await networkView(node, second);
    if (when === "while it is away") await agent.kill();

    // The last way to the first sandbox: it is gone with its link.
    reusePath(first, second.netnsPath);
    if (when === "while it is away") await agent.restart();
    await stage.agent.looks("drift", LOOKS);

    expect(await networkView(node, second)).toEqual(before);
    expect((await node.leftovers()).links).toEqual([]);
  });

  it.concurrent("gets nothing in the host, whose namespace the path leads to after a process id was used again", async () => {
    await using stage = await scene();
    const { node, agent } = stage;
    const pod = await node.addPod();
    await add(stage, { pod });
    await node.run(["/bin/sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
    const before = await networkView(node);
    await agent.kill();

    reusePath(pod, node.netnsPath);
    await agent.restart();
    await stage.agent.looks("drift", LOOKS);

    const { links, routes } = await networkView(node);
    expect(links.map(({ ifname }) => ifname).filter((name) => name === "eth0")).toEqual([]);
    expect(links.length).toBeLessThanOrEqual(before.links.length);
    expect(routes.filter(({ dst }) => dst === "default")).toEqual([]);
    expect(await node.sysctl("net/ipv4/ip_forward")).toBe("1");
  });
});

describe("G3: a link that is gone, of an endpoint whose address was released beside the agent", () => {
  it.concurrent("is not made again with an address that is free, and the endpoint says so", async () => {
    await using stage = await scene();
    const { node, agent, conf } = stage;
    node.excuse("the address is released beside the agent", "not-released");
    const pod = await node.addPod();
    const hostInterface = await add(stage, { pod });
    expect(await node.cni("DEL", { plugin: "tortie-ipam", pod, conf: { ...conf, agent: "off" } })).toMatchObject({ exit: 0 });
    expect((await readStore(node)).allocated).toEqual([]);

    await node.ip("link", "del", hostInterface);
    await stage.agent.looks("drift", LOOKS);
    await agent.kill();
    await agent.restart();
    await stage.agent.looks("drift", LOOKS);

    expect((await node.leftovers()).links).toEqual([]);
    expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
    expect((await agent.request("GET", "/endpoint/1/log")).text).toMatch(/not granted to it any more, and not used again/);
  });

  it.concurrent("is made again with the address of another IPAM plugin, which says in its CHECK that it still holds it", async () => {
    await using stage = await scene();
    const { node, agent } = stage;
    const pod = await node.addPod();
    const ipam = { type: "host-local", ranges: [[{ subnet: "10.88.0.0/24" }]], dataDir: `${node.dir}/host-local` };
    const conf = { ...localConf(node), cniVersion: "1.0.0", ipam };
    const path = `${BIN_DIR}:${REFERENCE_PLUGINS_DIR}`;
    const hostInterface = await add({ ...stage, conf }, { pod, path });

    await node.ip("link", "del", hostInterface);
    const addresses = async () => (await networkView(node, pod)).links.find(({ ifname }) => ifname === "eth0")?.addresses ?? [];
    await agent.until("the link is back with an address", async () => (await addresses()).length > 0);

    expect((await node.leftovers()).links).toContain(hostInterface);
    expect(await addresses()).toEqual(["10.88.0.2/32"]);
  });
});

describe("G6: what was changed inside a pod on purpose", () => {
  it.concurrent("stays as it is, and the endpoint stays ready, however often the agent looks and is started", async () => {
    await using stage = await scene();
    const { node, agent } = stage;
    const pod = await node.addPod();
    await add(stage, { pod });
    await node.podIp(pod, "link", "add", "net1", "type", "veth");
    await node.podIp(pod, "link", "set", "net1", "up");
    await node.podIp(pod, "route", "replace", "default", "dev", "net1");
    await node.podIp(pod, "-6", "route", "del", "default");
    const before = await networkView(node, pod);

    await stage.agent.looks("drift", LOOKS);
    await agent.kill();
    await agent.restart();
    await stage.agent.looks("drift", LOOKS);

    expect(await networkView(node, pod)).toEqual(before);
    const { json } = await agent.request("GET", "/endpoint");
    expect(json).toMatchObject([{ status: { state: "ready" } }]);
  });
});

describe("G8: a DEL whose caller found no sandbox", () => {
  it.concurrent("takes nothing from a container that the path leads to when it is carried out", async () => {
    await using stage = await scene();
    const { node, agent, conf } = stage;
    const [first, second] = [await node.addPod(), await node.addPod()];
    await add(stage, { pod: first, containerId: "cid1" });
    await add(stage, { pod: second, containerId: "cid2" });
    const before = await networkView(node, second);
    reusePath(first, second.netnsPath);

    const answer = await callAgent(agent, "del", conf, { containerId: "cid1", netns: { path: first.netnsPath } });

    expect(answer).toMatchObject({ status: 200 });
    expect(await networkView(node, second)).toEqual(before);
    expect((await node.leftovers()).links).toHaveLength(1);
  });

  it.concurrent("takes nothing from it either when the caller saw the container that uses the path now", async () => {
    await using stage = await scene();
    const { node, agent, conf } = stage;
    const [first, second] = [await node.addPod(), await node.addPod()];
    await add(stage, { pod: first, containerId: "cid1" });
    await add(stage, { pod: second, containerId: "cid2" });
    const before = await networkView(node, second);

    const answer = await callAgent(agent, "del", conf, { containerId: "cid1", netns: lookAt(second) });

    expect(answer).toMatchObject({ status: 200 });
    expect(await networkView(node, second)).toEqual(before);
    expect((await node.leftovers()).links).toHaveLength(1);
  });
});

describe("G8: a sandbox whose inode is that of one that is gone", () => {
  /**
   * The kernel gives the lowest number that is free, which tests beside this one take and give back: the record is written as it is where
   * the new sandbox has got the number of the old one. The agent must be away.
   */
  function giveInode(agent: Agent, { ino }: { readonly ino: string }): void {
    const [record, ...others] = recordsOf(agent);
    expect(others).toEqual([]);
    const path = join(agent.runDir, "state", String(record?.id), "endpoint.json");
    const stored = JSON.parse(readFileSync(path, "utf8"));
    writeFileSync(path, JSON.stringify({ ...stored, netns: { ...stored.netns, ino } }));
  }

  it.concurrent("is not taken for it: nothing is made in it, and nothing taken away", async () => {
    await using stage = await scene();
    const { node, agent, conf } = stage;
    const first = await node.addPod();
    await add(stage, { pod: first, containerId: "cid1" });
    await agent.kill();
    await node.removePod(first);
    const other = await node.addPod(first.name.slice(node.name.length + 1));
    const empty = await networkView(node, other);
    giveInode(agent, lookAt(other));
    await agent.restart();
    await stage.agent.looks("drift", LOOKS);
    expect(await networkView(node, other)).toEqual(empty);

    await node.podIp(other, "link", "add", "eth0", "type", "veth", "peer", "name", "peer0");
    const before = await networkView(node, other);
    const answer = await callAgent(agent, "del", conf, { containerId: "cid1", netns: lookAt(other) });

    expect(answer).toMatchObject({ status: 200 });
    expect(await networkView(node, other)).toEqual(before);
    expect(await node.leftovers()).toMatchObject({ links: [] });
  });
});

describe("G20: a link that was removed by hand and made again", () => {
  it.concurrent("is in its record with the index that it has now", async () => {
    await using stage = await scene();
    const { node, agent } = stage;
    const pod = await node.addPod();
    const hostInterface = await add(stage, { pod });

    await node.ip("link", "del", hostInterface);
    const there = async () => (await node.ip("-j", "link", "show")).find(({ ifname }) => ifname === hostInterface);
    await agent.until("the link is back", async () => (await there()) !== undefined);
    await agent.looks("drift", 1);

    expect(recordsOf(agent)).toMatchObject([{ hostInterface: { name: hostInterface, index: (await there())?.ifindex } }]);
  });
});
