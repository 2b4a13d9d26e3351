/** ADD and DEL in the agent (A§11.4, A§11.5): the real agent on the local store, judged by the kernel, the store and the records on disk. */
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { type CallOptions, callAgent, callBody, lookAt, recordsOf } from "../../support/agent-calls.ts";
import { dualIpam, localConf, podArgs } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { holdLock } from "../../support/lock-holder-process.ts";
import { Node, type Pod } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

const MAC = "02:00:5e:10:20:30";

interface Place {
  readonly node: Node;
  readonly agent: Agent;
  readonly conf: Record<string, unknown>;
}

interface Scene extends Place, AsyncDisposable {
  /** At the end, whatever the test came to. */
  readonly defer: (work: () => unknown) => void;
}

async function scene(change: Readonly<Record<string, unknown>> = {}): Promise<Scene> {
  await using made = new AsyncDisposableStack();
  const node = made.use(await Node.create());
  const agent = made.use(await Agent.start(node));
  const conf = localConf(node, { cniVersion: "1.1.0", ipam: dualIpam("46"), ...change });
  const kept = made.move();
  return { node, agent, conf, defer: (work) => kept.defer(async () => void work()), [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

async function add({ agent, conf }: Place, options: CallOptions) {
  const answer = await callAgent(agent, "add", conf, options);
  expect({ status: answer.status, text: answer.status === 200 ? "" : answer.text }).toEqual({ status: 200, text: "" });
  const { ips } = answer.json as { ips: { address: string }[] };
  return { text: answer.text, addresses: ips.map(({ address }) => address), id: answer.endpoint };
}

async function del({ agent, conf }: Place, options: CallOptions): Promise<void> {
  expect(await callAgent(agent, "del", conf, options)).toMatchObject({ status: 200, text: "" });
}

async function expectClean({ node, agent }: Place): Promise<void> {
  expect({ ...(await node.leftovers()), ...(await readStore(node)), records: recordsOf(agent) }).toEqual({
    links: [],
    routes: [],
    allocated: [],
    handles: [],
    endpoints: [],
    records: [],
  });
}

async function linkIndex(node: Node, pod: Pod, name = "eth0"): Promise<unknown> {
  const [link] = await node.podIp(pod, "-j", "link", "show", name);
  return link?.ifindex;
}

/** An ADD whose caller may hang up. */
function startAdd({ agent, conf }: Scene, options: CallOptions) {
  const going = new AbortController();
  const { deadlineMs = 0 } = options;
  const answer = agent.call("add", callBody(conf, options), { deadlineMs, signal: going.signal });
  answer.catch(() => undefined);
  return { answer, hangUp: () => going.abort() };
}

/** As the API shows it: between the first effect and the commit the file says no more than that an ADD is under way. */
async function untilPhase({ agent }: Scene, wanted: string): Promise<void> {
  await agent.until(`phase ${wanted}`, async () => {
    const { json } = await agent.request("GET", "/endpoint");
    return (json as { readonly status: { readonly phase: string } }[]).some(({ status }) => status.phase === wanted);
  });
}

/** The agent's ADD waits for the node's lock, with nothing but its record made. */
async function waitingAdd(stage: Scene, options: CallOptions) {
  const holder = await holdLock(String(stage.conf.ipam_lock_file), 300);
  stage.defer(() => holder.kill("SIGKILL"));
  const started = startAdd(stage, options);
  await untilPhase(stage, "adding:addresses");
  return { ...started, release: () => holder.kill("SIGKILL") };
}

describe("An attachment in the agent", () => {
  const stage = fresh(() => scene());

  it("A-A01: gets the result of direct mode, byte for byte, and leaves nothing", async () => {
    await using stage = await scene({ runtimeConfig: { mac: MAC }, capabilities: { mac: true } });
    await using other = await Node.create();
    const [pod, direct] = [await stage.node.addPod(), await other.addPod()];

    const { text, id } = await add(stage, { pod });
    const printed = await other.cni("ADD", { pod: direct, conf: { ...stage.conf, agent: "off", datastore_path: other.datastorePath } });

    expect(printed).toMatchObject({ exit: 0 });
    expect(text.replaceAll(pod.netnsPath, "SANDBOX")).toBe(printed.stdout.replaceAll(direct.netnsPath, "SANDBOX"));
    expect(recordsOf(stage.agent)).toMatchObject([{ id, phase: "ready", attachment: { containerId: "cid1", ifname: "eth0" } }]);

    await del(stage, { pod });
    await expectClean(stage);
    await del(stage, { pod });
    await expectClean(stage);
  });

  it("A-A02: is one, however often its ADD comes", async () => {
    const pod = await stage.node.addPod();

    const [first, ...joined] = await Promise.all(Array.from({ length: 5 }, () => add(stage, { pod })));
    const index = await linkIndex(stage.node, pod);
    const again = await add(stage, { pod });

    for (const one of [...joined, again]) expect(one).toEqual(first);
    expect(await linkIndex(stage.node, pod)).toBe(index);
    expect((await stage.node.leftovers()).links).toHaveLength(1);
    expect((await readStore(stage.node)).allocated).toHaveLength(2);
    expect(recordsOf(stage.agent)).toHaveLength(1);
    await del(stage, { pod });
    await expectClean(stage);
  });

  it("A-A03: is built again with its addresses when the sandbox was replaced under its container id", async () => {
    const first = await add(stage, { pod: await stage.node.addPod("a") });
    const gone = { name: `${stage.node.name}-a`, netnsPath: `/run/netns/${stage.node.name}-a` };
    await stage.node.removePod(gone);
    const pod = await stage.node.addPod("a");

    const second = await add(stage, { pod });

    expect(second.addresses).toEqual(first.addresses);
    expect(second.id).toBe(first.id);
    const [link] = await stage.node.podIp(pod, "-j", "address", "show", "eth0");
    expect(link?.addr_info).toContainEqual(expect.objectContaining({ local: first.addresses[0]?.split("/")[0] }));
    expect((await readStore(stage.node)).allocated).toHaveLength(2);
    await del(stage, { pod });
    await expectClean(stage);
  });

  it("A-D07: keeps its addresses while the kernel does not let its interface go; removed by itself as soon as it does", async () => {
    const { node, agent } = stage;
    const pod = await node.addPod();
    const { addresses } = await add(stage, { pod });
    const before = (await readStore(node)).allocated;
    expect(before).toHaveLength(addresses.length);
    // A loopback interface under the pod's name: the kernel removes none (net/core/rtnetlink.c, rtnl_delete_link).
    const inPod = (...words: readonly string[]) => node.podIp(pod, "link", "set", ...words);
    await inPod("eth0", "down", "name", "away0");
    await inPod("lo", "down");
    await inPod("lo", "name", "eth0");

    const refused = await callAgent(agent, "del", stage.conf, { pod });

    expect(refused.status).toBeGreaterThanOrEqual(400);
    expect(refused.json).toMatchObject({ code: 999, details: expect.stringContaining("link-failed") });
    expect(recordsOf(agent)).toMatchObject([{ phase: "deleting:begun" }]);
    await agent.until("another try", () => agent.log.split("it is tried again").length > 2);
    expect((await readStore(node)).allocated).toEqual(before);

    await inPod("eth0", "name", "lo");
    await agent.until("the removal", () => recordsOf(agent).length === 0);
    await expectClean(stage);
    await del(stage, { pod });
  });

  it("A-A03: is built again when its link was taken away", async () => {
    const pod = await stage.node.addPod();
    const first = await add(stage, { pod });
    await stage.node.podIp(pod, "link", "del", "eth0");

    const second = await add(stage, { pod });

    expect(second.addresses).toEqual(first.addresses);
    expect((await readStore(stage.node)).allocated).toHaveLength(2);
    await del(stage, { pod });
    await expectClean(stage);
  });

  it("A-A04: is one of two of its container, and goes alone", async () => {
    await using stage = await scene({ ipam: dualIpam("4") });
    const pod = await stage.node.addPod();
    // The host end's name comes from the pod's alone and the next hop is always the same (C§4.1): a second network needs a prefix of its
    // own, and other routes.
    const other = { ...stage, conf: { ...stage.conf, name: "net2", ipam: dualIpam("6", { routes: [{ dst: "fd99::/64" }] }) } };
    const first = { pod, args: podArgs("web") };
    const second = { ...first, ifname: "eth1", env: { FELIX_INTERFACEPREFIX: "tap" } };
    const [one, two] = [await add(stage, first), await add(other, second)];
    expect(two.id).not.toBe(one.id);

    await del(stage, first);

    expect(recordsOf(stage.agent)).toMatchObject([{ id: Number(two.id), phase: "ready", attachment: { ifname: "eth1" } }]);
    expect((await stage.node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo", "eth1"]);
    expect((await readStore(stage.node)).allocated.map((address) => `${address}/128`)).toEqual(two.addresses);
    expect(await add(other, second)).toEqual(two);
    await del(other, second);
    await expectClean(stage);
  });

  it("A-A05: of a pod's new sandbox survives the DEL of the old one", async () => {
    const [old, pod] = [await stage.node.addPod(), await stage.node.addPod()];
    await add(stage, { pod: old, containerId: "old", args: podArgs("web", "default", "old") });
    const { addresses, id } = await add(stage, { pod, containerId: "new", args: podArgs("web", "default", "new") });
    const index = await linkIndex(stage.node, pod);

    await del(stage, { pod: old, containerId: "old", args: podArgs("web", "default", "old") });

    expect(await linkIndex(stage.node, pod)).toBe(index);
    const { allocated, endpoints } = await readStore(stage.node);
    expect(allocated.map((address) => `${address}/${address.includes(":") ? 128 : 32}`).sort()).toEqual([...addresses].sort());
    expect(endpoints).toMatchObject([{ containerID: "new" }]);
    expect(recordsOf(stage.agent)).toMatchObject([{ id, phase: "ready", attachment: { containerId: "new" } }]);
    await del(stage, { pod, containerId: "new", args: podArgs("web", "default", "new") });
    await expectClean(stage);
  });

  it("A-A09: is not there after a DEL that came while it was added", async () => {
    const pod = await stage.node.addPod();
    const adding = await waitingAdd(stage, { pod });

    const deleting = callAgent(stage.agent, "del", stage.conf, { pod });
    expect(await adding.answer).toMatchObject({ status: 409, text: expect.stringContaining("attachment-deleted") });
    adding.release();

    expect(await deleting).toMatchObject({ status: 200, text: "" });
    await expectClean(stage);
  });

  it("A-A09: is there after an ADD that came behind a DEL", async () => {
    const pod = await stage.node.addPod();
    await add(stage, { pod });

    const [deleted, added] = await Promise.all([
      callAgent(stage.agent, "del", stage.conf, { pod }),
      callAgent(stage.agent, "add", stage.conf, { pod }),
    ]);

    expect([deleted.status, added.status]).toEqual([200, 200]);
    expect(recordsOf(stage.agent)).toMatchObject([{ phase: "ready" }]);
    await del(stage, { pod });
    await expectClean(stage);
  });
});

describe("The caller of an ADD", () => {
  it("that goes away before the commit has it taken back", async () => {
    await using stage = await scene();
    const pod = await stage.node.addPod();
    const adding = await waitingAdd(stage, { pod });

    adding.hangUp();
    await stage.agent.until("the ADD to be taken back", () => recordsOf(stage.agent).length === 0);
    adding.release();

    await expectClean(stage);
    await add(stage, { pod });
    await del(stage, { pod });
    await expectClean(stage);
  });

  it("whose time is over is told so, and has it taken back", async () => {
    await using stage = await scene();
    const pod = await stage.node.addPod();
    const adding = await waitingAdd(stage, { pod, deadlineMs: 3_000 });

    expect(await adding.answer).toMatchObject({ status: 504, text: expect.stringContaining("agent-timeout") });
    await stage.agent.until("the ADD to be taken back", () => recordsOf(stage.agent).length === 0);
    adding.release();

    await expectClean(stage);
  });

  it("that goes away after the commit leaves the attachment as it is, and nobody waits for its policy", async () => {
    await using stage = await scene({ policy_setup_timeout_seconds: 3600, endpoint_status_dir: "/nowhere" });
    const call = { pod: await stage.node.addPod(), args: podArgs("web") };
    const adding = startAdd(stage, call);
    await untilPhase(stage, "ready");

    adding.hangUp();
    const repeated = startAdd(stage, call);

    expect(await repeated.answer).toMatchObject({ status: 200 });
    expect((await readStore(stage.node)).allocated).toHaveLength(2);
    await del(stage, call);
    await expectClean(stage);
  });

  it("A-A09: waits for its policy, and a DEL ends the wait", async () => {
    await using stage = await scene({ policy_setup_timeout_seconds: 3600, endpoint_status_dir: "/nowhere" });
    const call = { pod: await stage.node.addPod(), args: podArgs("web") };
    const adding = startAdd(stage, call);
    await untilPhase(stage, "ready");

    await del(stage, call);

    // It was there before the DEL came.
    expect(await adding.answer).toMatchObject({ status: 200 });
    await expectClean(stage);
  });

  it("whose IPAM plugin the agent does not see serves the call itself", async () => {
    await using stage = await scene({ ipam: { type: "of-another-mount-namespace" } });
    const pod = await stage.node.addPod();

    const refused = await callAgent(stage.agent, "add", stage.conf, { pod });
    const printed = await stage.node.cni("ADD", { pod, conf: { ...stage.conf, agent: "auto", agent_socket: stage.agent.socket } });

    expect(refused).toMatchObject({ status: 421, text: expect.stringContaining("delegate-elsewhere") });
    expect(printed).toMatchObject({ exit: 1, stdout: expect.stringContaining("delegate-not-found") });
    await expectClean(stage);
  });

  it("gets the error of direct mode, and nothing is left", async () => {
    await using stage = await scene();
    const pod = await stage.node.addPod();
    await stage.node.podIp(pod, "link", "add", "eth0", "type", "bridge");

    const failed = await callAgent(stage.agent, "add", stage.conf, { pod });
    const printed = await stage.node.cni("ADD", { pod, conf: { ...stage.conf, agent: "off" } });

    expect(failed).toMatchObject({ status: 500, text: printed.stdout });
    expect(failed.text).toContain("interface-exists");
    await expectClean(stage);
  });
});

describe("The sandbox of a call", () => {
  const stage = fresh(() => scene());

  it("A-A15: is reached through its caller where the agent does not see the path", async () => {
    const pod = await stage.node.addPod();
    const fd = openSync(pod.netnsPath, "r");
    try {
      const netns = { ...lookAt(pod), path: "/run/netns/of-another-mount-namespace", fd };
      const { text } = await add(stage, { netns });

      expect(text).toContain(netns.path);
      expect(await linkIndex(stage.node, pod)).toEqual(expect.any(Number));
      await del(stage, { netns });
      await expectClean(stage);
    } finally {
      closeSync(fd);
    }
  });

  it("A-A15: that cannot be reached at all gets nothing", async () => {
    const netns = { ...lookAt(await stage.node.addPod()), path: "/run/netns/of-another-mount-namespace" };

    expect((await callAgent(stage.agent, "add", stage.conf, { netns })).text).toContain("netns-unreachable");

    await expectClean(stage);
  });

  it("A-A15: is not taken for the one that the caller's descriptor leads to by now", async () => {
    const [meant, other] = [await stage.node.addPod(), await stage.node.addPod()];
    await stage.node.podIp(other, "link", "add", "eth0", "type", "bridge");
    const before = await linkIndex(stage.node, other);
    const fd = openSync(other.netnsPath, "r");
    try {
      const netns = { ...lookAt(meant), path: "/run/netns/of-another-mount-namespace", fd };

      expect((await callAgent(stage.agent, "add", stage.conf, { netns })).text).toContain("netns-unreachable");
      await del(stage, { netns });

      expect(await linkIndex(stage.node, other)).toBe(before);
      await expectClean(stage);
    } finally {
      closeSync(fd);
    }
  });

  it("A-A16: whose path leads to another one by now gets nothing, and its DEL leaves the other alone", async () => {
    const [meant, other] = [await stage.node.addPod(), await stage.node.addPod()];
    await stage.node.podIp(other, "link", "add", "eth0", "type", "bridge");
    const netns = { ...lookAt(meant), path: other.netnsPath };

    expect((await callAgent(stage.agent, "add", stage.conf, { netns })).text).toContain("netns-changed");
    await del(stage, { netns });

    expect(await linkIndex(stage.node, other)).toEqual(expect.any(Number));
    await expectClean(stage);
  });
});

describe("GC in the agent", () => {
  const stage = fresh(() => scene());

  it("A-G03: removes the attachments of its network that the runtime does not list, and no others", async () => {
    const pods = await Promise.all(Array.from({ length: 5 }, () => stage.node.addPod()));
    for (const [index, pod] of pods.entries()) await add(stage, { pod, containerId: `cid${index}` });
    const other = { ...stage, conf: { ...stage.conf, name: "net2" } };
    const foreign = await stage.node.addPod();
    await add(other, { pod: foreign, containerId: "foreign" });

    const valid = [0, 2, 4].map((index) => ({ containerID: `cid${index}`, ifname: "eth0" }));
    const collected = await callAgent(stage.agent, "gc", { ...stage.conf, "cni.dev/valid-attachments": valid });

    expect(collected).toMatchObject({ status: 200, text: "" });
    const left = recordsOf(stage.agent).map(({ attachment }) => attachment.containerId);
    expect(left.sort()).toEqual(["cid0", "cid2", "cid4", "foreign"]);
    expect((await stage.node.leftovers()).links).toHaveLength(4);
    expect((await readStore(stage.node)).allocated).toHaveLength(8);
    for (const index of [1, 3]) {
      const pod = pods[index] as Pod;
      expect((await stage.node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
    }
  });

  it("G7: holds up no ADD, and keeps what was added since it began", async () => {
    const { node, agent, conf } = stage;
    const [slow, repeated, fresh] = [await node.addPod(), await node.addPod(), await node.addPod()];
    await add(stage, { pod: slow, containerId: "slow" });
    const first = await add(stage, { pod: repeated, containerId: "repeated" });
    const holder = await holdLock(String(conf.ipam_lock_file), 300);
    stage.defer(() => holder.kill("SIGKILL"));

    const gc = callAgent(agent, "gc", { ...conf, "cni.dev/valid-attachments": [] });
    await agent.until("the removal to begin", () => recordsOf(agent).some(({ phase }) => phase === "deleting:begun"));
    // Both are answered while the GC waits for the lock.
    const second = await add(stage, { pod: repeated, containerId: "repeated" });
    const elsewhere = { ...stage, conf: { ...conf, ipam_lock_file: join(node.dir, "other.lock") } };
    await add(elsewhere, { pod: fresh, containerId: "fresh" });
    holder.kill("SIGKILL");

    expect(await gc).toMatchObject({ status: 200, text: "" });
    expect(second).toEqual(first);
    const left = recordsOf(agent).map(({ attachment }) => attachment.containerId);
    expect(left.sort()).toEqual(["fresh", "repeated"]);
    expect((await node.leftovers()).links).toHaveLength(2);
    expect((await readStore(node)).allocated).toHaveLength(4);
    expect(await callAgent(agent, "gc", { ...conf, "cni.dev/valid-attachments": [] })).toMatchObject({ status: 200 });
    await expectClean(stage);
  });

  it("G7: ends with its caller's time, while what it began goes on", async () => {
    const { node, agent, conf } = stage;
    await add(stage, { pod: await node.addPod() });
    const holder = await holdLock(String(conf.ipam_lock_file), 300);
    stage.defer(() => holder.kill("SIGKILL"));
    const collect = () => callAgent(agent, "gc", { ...conf, "cni.dev/valid-attachments": [] }, { deadlineMs: 1_500 });

    expect((await collect()).text).toContain("agent-timeout");

    holder.kill("SIGKILL");
    await agent.until("the removal to end", () => recordsOf(agent).length === 0);
    await expectClean(stage);
  });
});
