/** What a DEL may take away: what is proven to be its attachment's, whatever its namespace path leads to (design, invariants 7, 11, 16). */
import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { addressesOf } from "../../support/cni-result.ts";
import { dualIpam, localConf, podArgs } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node, type Pod } from "../../support/node.ts";
import { expectNothingLeft, readStore } from "../../support/store.ts";

const node = fresh(Node.create);
const agent = fresh(() => Agent.start(node));

const MODES = [
  ["by the plugin alone", () => ({ agent: "off" })],
  ["by the agent", () => ({ agent: "require", agent_socket: agent.socket })],
] as const;

const names = async (pod: Pod) => (await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname);
const index = async (pod: Pod) => (await node.podIp(pod, "-j", "link", "show", "eth0"))[0]?.ifindex;

/** Paths that lead to no container, by what they are. */
const PATHS: Readonly<Record<string, () => string | Promise<string>>> = {
  "the host's own namespace": () => node.netnsPath,
  "the namespace of a process of the host": () => "/proc/self/ns/net",
  nothing: () => join(node.dir, "nothing"),
  "a file": () => made("file", (path) => writeFileSync(path, "")),
  "a file in a file": () =>
    join(
      made("file", (path) => writeFileSync(path, "")),
      "below",
    ),
  "a directory": () => made("directory", (path) => mkdirSync(path)),
  "a FIFO": () => made("fifo", (path) => execFileSync("mkfifo", [path])),
  "a dangling link": () => made("link", (path) => symlinkSync(join(node.dir, "nowhere"), path)),
  "another pod's namespace": async () => (await node.addPod()).netnsPath,
  "a namespace of another kind": () => "/proc/self/ns/mnt",
};

function made(name: string, make: (path: string) => void): string {
  const path = join(node.dir, name);
  make(path);
  return path;
}

describe.each(MODES)("DEL, served %s", (_, mode) => {
  const conf = (change: Readonly<Record<string, unknown>> = {}) => localConf(node, { cniVersion: "1.1.0", ...mode(), ...change });

  it.each(Object.keys(PATHS))("R5, R6: removes link and address when its path leads to %s", async (what) => {
    const pod = await node.addPod();
    const call = { conf: conf(), args: podArgs("web") };
    expect(await node.cni("ADD", { ...call, pod })).toMatchObject({ exit: 0 });
    const netns = (await PATHS[what]?.()) ?? "";

    for (const _ of [1, 2]) expect(await node.cni("DEL", { ...call, netns })).toMatchObject({ exit: 0, stdout: "" });
    expect(await node.cni("DEL", { conf: conf(), containerId: "never", netns })).toMatchObject({ exit: 0, stdout: "" });

    await expectNothingLeft(node);
    expect(await names(pod)).toEqual(["lo"]);
  });

  it.each([
    ["that was added by an earlier boot", false],
    ["that is still there", true],
  ])("R1: of an old container %s leaves the pod that its path leads to", async (_, isAdded) => {
    const [old, living] = [await node.addPod(), await node.addPod()];
    const one = { conf: conf(), containerId: "old", args: podArgs("old", "default", "old") };
    const two = { conf: conf(), containerId: "living", args: podArgs("living", "default", "living") };
    if (isAdded) await node.cni("ADD", { ...one, pod: old });
    const added = await node.cni("ADD", { ...two, pod: living });
    const before = await index(living);

    expect(await node.cni("DEL", { ...one, pod: living })).toMatchObject({ exit: 0 });

    expect(await index(living)).toBe(before);
    expect((await readStore(node)).allocated).toEqual(addressesOf(added.json));
    const check = { ...two.conf, prevResult: added.json };
    expect(await node.cni("CHECK", { ...two, conf: check, pod: living })).toMatchObject({ exit: 0 });
  });

  it.each([
    ["a bridge", ["type", "bridge"]],
    ["another plugin's pair", ["type", "veth", "peer", "name", "other"]],
  ])("R1: after an ADD that a foreign interface stood in the way of leaves it: %s", async (_, kind) => {
    const pod = await node.addPod();
    await node.podIp(pod, "link", "add", "eth0", ...kind);
    const before = await index(pod);
    const call = { conf: conf(), pod, args: podArgs("web") };

    expect(await node.cni("ADD", call)).toMatchObject({ exit: 1, json: { details: expect.stringMatching(/^interface-exists/) } });
    expect(await node.cni("DEL", call)).toMatchObject({ exit: 0 });

    expect(await index(pod)).toBe(before);
    await expectNothingLeft(node);
  });

  it("R12: without CNI_ARGS and without a path finds the host end", async () => {
    const pod = await node.addPod();
    await node.cni("ADD", { conf: conf(), pod, args: podArgs("web") });

    expect(await node.cni("DEL", { conf: conf() })).toMatchObject({ exit: 0 });

    expect(await names(pod)).toEqual(["lo"]);
    await node.expectClean();
    expect((await readStore(node)).allocated).toEqual([]);
    await node.cni("DEL", { conf: conf(), args: podArgs("web") });
  });

  it.each([
    ["another network", podArgs("web"), { name: "net2", ipam: dualIpam("4") }],
    ["the same network", podArgs("web"), {}],
    ["another network, of a plain container", undefined, { name: "net2" }],
    ["the same network, of a plain container", undefined, {}],
  ])("R4: a second interface on %s is refused before anything is claimed, and its DEL leaves the first", async (_, args, change) => {
    const pod = await node.addPod();
    const first = { conf: conf(), pod, args };
    const second = { conf: conf(change), pod, args, ifname: "net1" };
    const added = await node.cni("ADD", first);
    const [before, store] = [await index(pod), await readStore(node)];

    const refused = await node.cni("ADD", second);
    expect(refused).toMatchObject({ exit: 1, json: { details: expect.stringMatching(/^interface-exists/) } });
    expect(refused.stdout).toMatch(/interface eth0 on network net1.*interface net1 on network net[12]/);
    expect(await readStore(node)).toEqual(store);
    expect(await node.cni("DEL", second)).toMatchObject({ exit: 0 });

    expect([await index(pod), await readStore(node)]).toEqual([before, store]);
    expect(await node.cni("CHECK", { ...first, conf: { ...first.conf, prevResult: added.json } })).toMatchObject({ exit: 0 });
    expect(await node.cni("DEL", first)).toMatchObject({ exit: 0 });
    await expectNothingLeft(node);
  });

  it.each([
    ["names its container", [], "c1"],
    ["names another container", ["cali"], "c0"],
  ])("R1: of a link without an alias, as Calico makes it, goes by the record, which %s", async (_, left, containerId) => {
    if (left.length > 0) node.excuse("the link stays without its alias", "unasked", "not-granted", "not-released");
    const pod = await node.addPod();
    await node.cni("ADD", { conf: conf(), pod, containerId: "c1", args: podArgs("web", "default", "c1") });
    const [link = ""] = (await node.leftovers()).links;
    await node.ip("link", "set", link, "alias", "");

    const args = podArgs("web", "default", containerId);
    expect(await node.cni("DEL", { conf: { ...conf(), agent: "off" }, pod, containerId, args })).toMatchObject({ exit: 0 });

    expect((await node.leftovers()).links.map((name) => name.slice(0, 4))).toEqual(left);
  });
});

describe("tortie-ipam", () => {
  it("R5: releases the address when the path of a DEL leads to the host's own namespace", async () => {
    node.excuse("tortie-ipam is called alone", "not-released", "unasked");
    const call = { conf: localConf(node), plugin: "tortie-ipam" };
    const pod = await node.addPod();
    expect(await node.cni("ADD", { ...call, pod })).toMatchObject({ exit: 0 });

    expect(await node.cni("DEL", { ...call, netns: node.netnsPath })).toMatchObject({ exit: 0 });

    expect((await readStore(node)).allocated).toEqual([]);
  });

  it("R5: is not told of the host's own namespace where another plugin gives the addresses", async () => {
    const pod = await node.addPod();
    const conf = localConf(node, { ipam: { type: "host-local", subnet: "10.9.0.0/24", dataDir: join(node.dir, "host-local") } });
    expect(await node.cni("ADD", { conf, pod })).toMatchObject({ exit: 0 });

    expect(await node.cni("DEL", { conf, netns: node.netnsPath })).toMatchObject({ exit: 0 });

    await node.expectClean();
  });
});
