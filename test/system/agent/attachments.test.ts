/** ADD and DEL in the agent (A§11.4, A§11.5): the real agent on the local store, judged by the kernel, the store and the records on disk. */
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { addByAgent, type CallOptions, callAgent, callBody, lookAt, recordsOf } from "../../support/agent-calls.ts";
import { dualIpam, localConf, podArgs } from "../../support/conf.ts";
import { ending, fresh } from "../../support/fixtures.ts";
import { holdLock } from "../../support/lock-holder-process.ts";
import { Node, type Pod } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

const MAC = "02:00:5e:10:20:30";

const node = fresh(Node.create);
const agent = fresh(() => Agent.start(node));

type Conf = Readonly<Record<string, unknown>>;

function confOf(change: Conf = {}): Conf {
  return localConf(node, { cniVersion: "1.1.0", ipam: dualIpam("46"), ...change });
}

/** @param conf dual stack where a test says nothing */
async function add(options: CallOptions, conf = confOf()) {
  const { text, prefixes, endpoint } = await addByAgent(agent, conf, options);
  return { text, addresses: prefixes, id: endpoint };
}

async function del(options: CallOptions, conf = confOf()): Promise<void> {
  expect(await callAgent(agent, "del", conf, options)).toMatchObject({ status: 200, text: "" });
}

async function expectClean(): Promise<void> {
  expect({ ...(await node.leftovers()), ...(await readStore(node)), records: recordsOf(agent) }).toEqual({
    links: [],
    routes: [],
    allocated: [],
    handles: [],
    endpoints: [],
    records: [],
  });
}

async function linkIndex(pod: Pod): Promise<unknown> {
  const [link] = await node.podIp(pod, "-j", "link", "show", "eth0");
  return link?.ifindex;
}

/** An ADD whose caller may hang up. */
function startAdd(options: CallOptions, conf = confOf()) {
  const going = new AbortController();
  const { deadlineMs = 0 } = options;
  const answer = agent.call("add", callBody(conf, options), { deadlineMs, signal: going.signal });
  answer.catch(() => undefined);
  return { answer, hangUp: () => going.abort() };
}

/** As the API shows it: between the first effect and the commit the file says no more than that an ADD is under way. */
async function untilPhase(wanted: string): Promise<void> {
  await agent.until(`phase ${wanted}`, async () => {
    const { json } = await agent.request("GET", "/endpoint");
    return (json as { readonly status: { readonly phase: string } }[]).some(({ status }) => status.phase === wanted);
  });
}

/** The agent's ADD waits for the node's lock, with nothing but its record made. */
async function waitingAdd(options: CallOptions) {
  const holder = await holdAddresses();
  const started = startAdd(options);
  await untilPhase("adding:addresses");
  return { ...started, release: () => holder[Symbol.dispose]() };
}

/** Whoever wants an address or gives one back waits for the node's lock. */
async function holdAddresses(): Promise<Disposable> {
  return ending(await holdLock(String(confOf().ipam_lock_file), 300));
}

describe("An attachment in the agent", () => {
  it("A-A01: gets the result of direct mode, byte for byte, and leaves nothing", async () => {
    const conf = confOf({ runtimeConfig: { mac: MAC }, capabilities: { mac: true } });
    await using other = await Node.create();
    const [pod, direct] = [await node.addPod(), await other.addPod()];

    const { text, id } = await add({ pod }, conf);
    const printed = await other.cni("ADD", { pod: direct, conf: { ...conf, agent: "off", datastore_path: other.datastorePath } });

    expect(printed).toMatchObject({ exit: 0 });
    expect(text.replaceAll(pod.netnsPath, "SANDBOX")).toBe(printed.stdout.replaceAll(direct.netnsPath, "SANDBOX"));
    expect(recordsOf(agent)).toMatchObject([{ id, phase: "ready", attachment: { containerId: "cid1", ifname: "eth0" } }]);

    await del({ pod }, conf);
    await expectClean();
    await del({ pod }, conf);
    await expectClean();
  });

  it("A-A02: is one, however often its ADD comes", async () => {
    const pod = await node.addPod();

    const [first, ...joined] = await Promise.all(Array.from({ length: 5 }, () => add({ pod })));
    const index = await linkIndex(pod);
    const again = await add({ pod });

    for (const one of [...joined, again]) expect(one).toEqual(first);
    expect(await linkIndex(pod)).toBe(index);
    expect((await node.leftovers()).links).toHaveLength(1);
    expect((await readStore(node)).allocated).toHaveLength(2);
    expect(recordsOf(agent)).toHaveLength(1);
    await del({ pod });
    await expectClean();
  });

  it("A-A03: is built again with its addresses when the sandbox was replaced under its container id", async () => {
    const first = await add({ pod: await node.addPod("a") });
    const gone = { name: `${node.name}-a`, netnsPath: `/run/netns/${node.name}-a` };
    await node.removePod(gone);
    const pod = await node.addPod("a");

    const second = await add({ pod });

    expect(second.addresses).toEqual(first.addresses);
    expect(second.id).toBe(first.id);
    const [link] = await node.podIp(pod, "-j", "address", "show", "eth0");
    expect(link?.addr_info).toContainEqual(expect.objectContaining({ local: first.addresses[0]?.split("/")[0] }));
    expect((await readStore(node)).allocated).toHaveLength(2);
    await del({ pod });
    await expectClean();
  });

  it("is removed under whatever name it has by now, and an interface that took its name stays", async () => {
    const pod = await node.addPod();
    await add({ pod });
    const inPod = (...words: readonly string[]) => node.podIp(pod, "link", "set", ...words);
    await inPod("eth0", "down", "name", "away0");
    await inPod("lo", "down");
    await inPod("lo", "name", "eth0");

    await del({ pod });

    expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["eth0"]);
    await inPod("eth0", "name", "lo");
    await expectClean();
  });

  it("A-A03: is built again when its link was taken away", async () => {
    const pod = await node.addPod();
    const first = await add({ pod });
    await node.podIp(pod, "link", "del", "eth0");

    const second = await add({ pod });

    expect(second.addresses).toEqual(first.addresses);
    expect((await readStore(node)).allocated).toHaveLength(2);
    await del({ pod });
    await expectClean();
  });

  it("A-A04: is one of two of its container, and goes alone", async () => {
    const conf = confOf({ ipam: dualIpam("4") });
    const pod = await node.addPod();
    // The host end's name comes from the pod's alone and the next hop is always the same (C§4.1): a second network needs a prefix of its
    // own, and other routes.
    const other = { ...conf, name: "net2", ipam: dualIpam("6", { routes: [{ dst: "fd99::/64" }] }) };
    const first = { pod, args: podArgs("web") };
    const second = { ...first, ifname: "eth1", env: { FELIX_INTERFACEPREFIX: "tap" } };
    const [one, two] = [await add(first, conf), await add(second, other)];
    expect(two.id).not.toBe(one.id);

    await del(first, conf);

    expect(recordsOf(agent)).toMatchObject([{ id: Number(two.id), phase: "ready", attachment: { ifname: "eth1" } }]);
    expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo", "eth1"]);
    expect((await readStore(node)).allocated.map((address) => `${address}/128`)).toEqual(two.addresses);
    expect(await add(second, other)).toEqual(two);
    await del(second, other);
    await expectClean();
  });

  it("A-A05: of a pod's new sandbox survives the DEL of the old one", async () => {
    const [old, pod] = [await node.addPod(), await node.addPod()];
    await add({ pod: old, containerId: "old", args: podArgs("web", "default", "old") });
    const { addresses, id } = await add({ pod, containerId: "new", args: podArgs("web", "default", "new") });
    const index = await linkIndex(pod);

    await del({ pod: old, containerId: "old", args: podArgs("web", "default", "old") });

    expect(await linkIndex(pod)).toBe(index);
    const { allocated, endpoints } = await readStore(node);
    expect(allocated.map((address) => `${address}/${address.includes(":") ? 128 : 32}`).sort()).toEqual([...addresses].sort());
    expect(endpoints).toMatchObject([{ containerID: "new" }]);
    expect(recordsOf(agent)).toMatchObject([{ id, phase: "ready", attachment: { containerId: "new" } }]);
    await del({ pod, containerId: "new", args: podArgs("web", "default", "new") });
    await expectClean();
  });

  it("A-A09: is not there after a DEL that came while it was added", async () => {
    const pod = await node.addPod();
    const adding = await waitingAdd({ pod });

    const deleting = callAgent(agent, "del", confOf(), { pod });
    expect(await adding.answer).toMatchObject({ status: 409, text: expect.stringContaining("attachment-deleted") });
    adding.release();

    expect(await deleting).toMatchObject({ status: 200, text: "" });
    await expectClean();
  });

  it("A-A09: is there after an ADD that came behind a DEL", async () => {
    const pod = await node.addPod();
    await add({ pod });

    const [deleted, added] = await Promise.all([callAgent(agent, "del", confOf(), { pod }), callAgent(agent, "add", confOf(), { pod })]);

    expect([deleted.status, added.status]).toEqual([200, 200]);
    expect(recordsOf(agent)).toMatchObject([{ phase: "ready" }]);
    await del({ pod });
    await expectClean();
  });
});

describe("The caller of an ADD", () => {
  it("that goes away before the commit has it taken back", async () => {
    const pod = await node.addPod();
    const adding = await waitingAdd({ pod });

    adding.hangUp();
    await agent.until("the ADD to be taken back", () => recordsOf(agent).length === 0);
    adding.release();

    await expectClean();
    await add({ pod });
    await del({ pod });
    await expectClean();
  });

  it("whose time is over is told so, and has it taken back", async () => {
    const pod = await node.addPod();
    const adding = await waitingAdd({ pod, deadlineMs: 3_000 });

    expect(await adding.answer).toMatchObject({ status: 504, text: expect.stringContaining("agent-timeout") });
    await agent.until("the ADD to be taken back", () => recordsOf(agent).length === 0);
    adding.release();

    await expectClean();
  });

  it("that goes away after the commit leaves the attachment as it is, and nobody waits for its policy", async () => {
    const conf = confOf({ policy_setup_timeout_seconds: 3600, endpoint_status_dir: "/nowhere" });
    const call = { pod: await node.addPod(), args: podArgs("web") };
    const adding = startAdd(call, conf);
    await untilPhase("ready");

    adding.hangUp();
    const repeated = startAdd(call, conf);

    expect(await repeated.answer).toMatchObject({ status: 200 });
    expect((await readStore(node)).allocated).toHaveLength(2);
    await del(call, conf);
    await expectClean();
  });

  it("A-A09: waits for its policy, and a DEL ends the wait", async () => {
    const conf = confOf({ policy_setup_timeout_seconds: 3600, endpoint_status_dir: "/nowhere" });
    const call = { pod: await node.addPod(), args: podArgs("web") };
    const adding = startAdd(call, conf);
    await untilPhase("ready");

    await del(call, conf);

    // It was there before the DEL came.
    expect(await adding.answer).toMatchObject({ status: 200 });
    await expectClean();
  });

  it("whose IPAM plugin the agent does not see is refused", async () => {
    const conf = confOf({ ipam: { type: "of-another-mount-namespace" } });
    const pod = await node.addPod();

    const refused = await callAgent(agent, "add", conf, { pod });
    const printed = await node.cni("ADD", { pod, conf: { ...conf, ...agent.netconf } });

    expect(refused).toMatchObject({ status: 500, text: expect.stringContaining("delegate-not-found") });
    expect(printed).toMatchObject({ exit: 1, stdout: expect.stringContaining("delegate-not-found") });
    await expectClean();
  });

  it("gets the error of direct mode, and nothing is left", async () => {
    const pod = await node.addPod();
    await node.podIp(pod, "link", "add", "eth0", "type", "bridge");

    const failed = await callAgent(agent, "add", confOf(), { pod });
    const printed = await node.cni("ADD", { pod, conf: { ...confOf(), agent: "off" } });

    expect(failed).toMatchObject({ status: 500, text: printed.stdout });
    expect(failed.text).toContain("interface-exists");
    await expectClean();
  });
});

describe("The sandbox of a call", () => {
  it("A-A15: is reached through its caller where the agent does not see the path", async () => {
    const pod = await node.addPod();
    const fd = openSync(pod.netnsPath, "r");
    try {
      const netns = { ...lookAt(pod), path: "/run/netns/of-another-mount-namespace", fd };
      const { text } = await add({ netns });

      expect(text).toContain(netns.path);
      expect(await linkIndex(pod)).toEqual(expect.any(Number));
      await del({ netns });
      await expectClean();
    } finally {
      closeSync(fd);
    }
  });

  it("A-A15: that cannot be reached at all gets nothing", async () => {
    const netns = { ...lookAt(await node.addPod()), path: "/run/netns/of-another-mount-namespace" };

    expect((await callAgent(agent, "add", confOf(), { netns })).text).toContain("netns-unreachable");

    await expectClean();
  });

  it("A-A15: is not taken for the one that the caller's descriptor leads to by now", async () => {
    const [meant, other] = [await node.addPod(), await node.addPod()];
    await node.podIp(other, "link", "add", "eth0", "type", "bridge");
    const before = await linkIndex(other);
    const fd = openSync(other.netnsPath, "r");
    try {
      const netns = { ...lookAt(meant), path: "/run/netns/of-another-mount-namespace", fd };

      expect((await callAgent(agent, "add", confOf(), { netns })).text).toContain("netns-unreachable");
      await del({ netns });

      expect(await linkIndex(other)).toBe(before);
      await expectClean();
    } finally {
      closeSync(fd);
    }
  });

  it("A-A16: whose path leads to another one by now gets nothing, and its DEL leaves the other alone", async () => {
    const [meant, other] = [await node.addPod(), await node.addPod()];
    await node.podIp(other, "link", "add", "eth0", "type", "bridge");
    const netns = { ...lookAt(meant), path: other.netnsPath };

    expect((await callAgent(agent, "add", confOf(), { netns })).text).toContain("netns-changed");
    await del({ netns });

    expect(await linkIndex(other)).toEqual(expect.any(Number));
    await expectClean();
  });
});

describe("GC in the agent", () => {
  it("A-G03: removes the attachments of its network that the runtime does not list, and no others", async () => {
    const pods = await Promise.all(Array.from({ length: 5 }, () => node.addPod()));
    for (const [index, pod] of pods.entries()) await add({ pod, containerId: `cid${index}` });
    const foreign = await node.addPod();
    await add({ pod: foreign, containerId: "foreign" }, confOf({ name: "net2" }));

    const valid = [0, 2, 4].map((index) => ({ containerID: `cid${index}`, ifname: "eth0" }));
    const collected = await callAgent(agent, "gc", confOf({ "cni.dev/valid-attachments": valid }));

    expect(collected).toMatchObject({ status: 200, text: "" });
    const left = recordsOf(agent).map(({ attachment }) => attachment.containerId);
    expect(left.sort()).toEqual(["cid0", "cid2", "cid4", "foreign"]);
    expect((await node.leftovers()).links).toHaveLength(4);
    expect((await readStore(node)).allocated).toHaveLength(8);
    for (const index of [1, 3]) {
      const pod = pods[index] as Pod;
      expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
    }
  });

  it("G7: holds up no ADD, and keeps what was added since it began", async () => {
    const [slow, repeated, late] = [await node.addPod(), await node.addPod(), await node.addPod()];
    await add({ pod: slow, containerId: "slow" });
    const first = await add({ pod: repeated, containerId: "repeated" });
    const holder = await holdAddresses();

    const gc = callAgent(agent, "gc", confOf({ "cni.dev/valid-attachments": [] }));
    await agent.until("the removal to begin", () => recordsOf(agent).some(({ phase }) => phase === "deleting:begun"));
    // Both are answered while the GC waits for the lock.
    const second = await add({ pod: repeated, containerId: "repeated" });
    const elsewhere = confOf({ ipam_lock_file: join(node.dir, "other.lock") });
    await add({ pod: late, containerId: "fresh" }, elsewhere);
    holder[Symbol.dispose]();

    expect(await gc).toMatchObject({ status: 200, text: "" });
    expect(second).toEqual(first);
    const left = recordsOf(agent).map(({ attachment }) => attachment.containerId);
    expect(left.sort()).toEqual(["fresh", "repeated"]);
    expect((await node.leftovers()).links).toHaveLength(2);
    expect((await readStore(node)).allocated).toHaveLength(4);
    expect(await callAgent(agent, "gc", confOf({ "cni.dev/valid-attachments": [] }))).toMatchObject({ status: 200 });
    await expectClean();
  });

  it("G7: ends with its caller's time, while what it began goes on", async () => {
    await add({ pod: await node.addPod() });
    const holder = await holdAddresses();
    const collect = () => callAgent(agent, "gc", confOf({ "cni.dev/valid-attachments": [] }), { deadlineMs: 1_500 });

    expect((await collect()).text).toContain("agent-timeout");

    holder[Symbol.dispose]();
    await agent.until("the removal to end", () => recordsOf(agent).length === 0);
    await expectClean();
  });
});
