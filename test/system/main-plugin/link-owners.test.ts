/** Whose a link is, and who may replace it: a name alone proves nothing (design, invariant 11). */
import { addressesOf } from "../../support/cni-result.ts";
import { localConf, podArgs } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node } from "../../support/node.ts";

/** Two pods whose names have the same first 44 bits of SHA-1. */
const VICTIM = { args: podArgs("p1284689", "tenant-a"), containerId: "victim" };
const ATTACKER = { args: podArgs("p3021008", "tenant-b"), containerId: "attacker" };
const SHARED = "calif2241e1b22d";

const node = fresh(Node.create);

describe("Two pods whose names make one interface name", () => {
  it("M2: do not take each other's link: the second ADD is refused and names both", async () => {
    const [first, second] = [await node.addPod(), await node.addPod()];
    const conf = localConf(node, { cniVersion: "1.1.0" });
    const added = await node.cni("ADD", { pod: first, conf, ...VICTIM });
    expect(added.json).toMatchObject({ interfaces: [{ name: SHARED }, {}] });

    const refused = await node.cni("ADD", { pod: second, conf, ...ATTACKER });

    expect(refused).toMatchObject({ exit: 1, json: { details: expect.stringMatching(/^interface-exists/) } });
    expect(refused.stdout).toContain("tenant-a/p1284689");
    expect(refused.stdout).toContain("tenant-b/p3021008");
    expect(await node.podIp(second, "-j", "link", "show")).toHaveLength(1);
    expect(await node.cni("DEL", { pod: second, conf, ...ATTACKER })).toMatchObject({ exit: 0 });
    expect(await node.ip("-j", "route", "show", addressesOf(added.json)[0] ?? "")).toMatchObject([{ dev: SHARED }]);
    const check = { ...conf, prevResult: added.json };
    expect(await node.cni("CHECK", { pod: first, conf: check, ...VICTIM })).toMatchObject({ exit: 0 });

    // Nothing is held by the one that was refused: when the name is free it is served.
    expect(await node.cni("DEL", { pod: first, conf, ...VICTIM })).toMatchObject({ exit: 0 });
    expect(await node.cni("ADD", { pod: second, conf, ...ATTACKER })).toMatchObject({ exit: 0 });
  });
});

describe("The link of a pod's older sandbox", () => {
  it.each([
    ["names the pod", undefined],
    ["is of a version that named no pod", "tortie:net1/victim/eth0"],
    ["is Calico's, which writes no owner", ""],
  ])("M2: is replaced by its newer sandbox when it %s", async (_, alias) => {
    const [older, newer] = [await node.addPod(), await node.addPod()];
    const conf = localConf(node);
    await node.cni("ADD", { pod: older, conf, ...VICTIM });
    if (alias !== undefined) await node.run(["/bin/sh", "-c", `printf '%s\\n' "${alias}" > /sys/class/net/${SHARED}/ifalias`]);

    const run = await node.cni("ADD", { pod: newer, conf, args: VICTIM.args, containerId: "newer" });

    expect(run).toMatchObject({ exit: 0 });
    expect(await node.podIp(older, "-j", "link", "show")).toHaveLength(1);
    expect(await node.podIp(newer, "-j", "link", "show", "eth0")).toHaveLength(1);
  });

  it("M2: is not replaced when it names no pod and a container that the pod's record does not know", async () => {
    node.excuse("the link gets another alias", "not-granted", "unasked", "not-released");
    const [older, newer] = [await node.addPod(), await node.addPod()];
    const conf = localConf(node);
    await node.cni("ADD", { pod: older, conf, ...VICTIM });
    await node.ip("link", "set", SHARED, "alias", "tortie:net1/somebody/eth0");

    const run = await node.cni("ADD", { pod: newer, conf, args: VICTIM.args, containerId: "newer" });

    expect(run).toMatchObject({ exit: 1, json: { details: expect.stringMatching(/^interface-exists/) } });
    expect(await node.podIp(older, "-j", "link", "show", "eth0")).toHaveLength(1);
  });
});

describe("GC", () => {
  const UNFINISHED = String(0x544f5254);
  const gc = (node: Node) => node.cni("GC", { conf: localConf(node, { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] }) });

  it("L5: removes what an ADD that was killed left, and no link that somebody else made, up or down", async () => {
    node.excuse("the test makes a link as an ADD that is killed", "unasked");
    const pod = await node.addPod();
    const calico = async (name: string, peer: string) => {
      await node.ip("link", "add", name, "address", "ee:ee:ee:ee:ee:ee", "type", "veth", "peer", "name", peer, "netns", pod.name);
    };
    await calico("cali00000000001", "eth1");
    await calico("cali00000000002", "eth2");
    await node.ip("link", "set", "cali00000000002", "up");
    await calico("cali00000000003", "eth3");
    await node.ip("link", "set", "cali00000000003", "group", UNFINISHED);
    await calico("cali00000000004", "eth4");
    await node.ip("link", "set", "cali00000000004", "group", UNFINISHED, "up");

    expect(await gc(node)).toMatchObject({ exit: 0 });

    expect((await node.leftovers()).links.sort()).toEqual(["cali00000000001", "cali00000000002", "cali00000000004"]);
    expect(await node.podIp(pod, "-j", "link", "show")).toHaveLength(4);
  });
});
