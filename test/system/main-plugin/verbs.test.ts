/** CHECK, STATUS and GC of CNI 1.1.0, on the real kernel and the local datastore. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { hostEndOf } from "../../support/cni-result.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { BIN_DIR, type JsonRecord, Node, type Pod, REFERENCE_PLUGINS_DIR } from "../../support/node.ts";
import { expectNothingLeft, readStore } from "../../support/store.ts";

async function attached(node: Node): Promise<{ pod: Pod; conf: Record<string, unknown>; host: string }> {
  const pod = await node.addPod();
  const conf = localConf(node, { cniVersion: "1.1.0", ipam: dualIpam("46") });
  const run = await node.cni("ADD", { pod, conf });
  expect(run).toMatchObject({ exit: 0 });
  return { pod, conf: { ...conf, prevResult: run.json }, host: hostEndOf(run.json) };
}

const node = fresh(Node.create);

describe("CHECK", () => {
  it("is silent when everything is as ADD left it", async () => {
    const { pod, conf } = await attached(node);
    expect(await node.cni("CHECK", { pod, conf })).toMatchObject({ exit: 0, stdout: "" });
  });

  it.each<[string, RegExp, (node: Node, pod: Pod, host: string) => Promise<unknown>]>([
    ["the host end is down", /host link cali/, (node, _, host) => node.ip("link", "set", host, "down")],
    ["the host route is gone", /host route 10\.244\./, (node, _, host) => node.ip("-4", "route", "flush", "dev", host)],
    ["the pod lost its IPv4 address", /pod address 10\.244\./, (node, pod) => node.podIp(pod, "-4", "address", "flush", "dev", "eth0")],
    ["the pod lost its default route", /pod route 0\.0\.0\.0\/0/, (node, pod) => node.podIp(pod, "route", "del", "default")],
    [
      "the MAC of the pod end changed",
      /pod link eth0/,
      (node, pod) => node.podIp(pod, "link", "set", "eth0", "address", "02:00:00:00:00:01"),
    ],
    ["the pod end is gone", /pod link eth0/, (node, pod) => node.podIp(pod, "link", "del", "eth0")],
    [
      "the pod forgot its neighbour",
      /neighbour 169\.254\.1\.1/,
      (node, pod) => node.podIp(pod, "neigh", "del", "169.254.1.1", "dev", "eth0"),
    ],
  ])("names the difference when %s", async (_, difference, damage) => {
    const { pod, conf, host } = await attached(node);
    await damage(node, pod, host);
    const run = await node.cni("CHECK", { pod, conf });
    expect(run).toMatchObject({ exit: 1, json: { code: 999, details: expect.stringContaining("check-failed") } });
    expect((run.json as JsonRecord).msg).toMatch(difference);
  });

  it("F4: accepts what the plugin tuning changed after it", async () => {
    const pod = await node.addPod();
    const conf = localConf(node);
    const added = await node.cni("ADD", { pod, conf });
    const sysctl = { "net.ipv4.ip_forward": "1", "net.ipv4.conf.eth0.rp_filter": "2" };
    const tuning = {
      cniVersion: "1.0.0",
      name: "net1",
      type: "tuning",
      mtu: 1300,
      sysctl,
      prevResult: added.json,
    };
    const tuned = await node.cni("ADD", { plugin: `${REFERENCE_PLUGINS_DIR}/tuning`, pod, conf: tuning });
    expect(tuned).toMatchObject({ exit: 0 });
    expect((await node.podIp(pod, "-j", "link", "show", "eth0"))[0]).toMatchObject({ mtu: 1300 });

    expect(await node.cni("CHECK", { pod, conf: { ...conf, prevResult: tuned.json } })).toMatchObject({ exit: 0, stdout: "" });
  });

  it("F4: accepts a pod that was added before the list got another MTU and number of queues", async () => {
    const { pod, conf } = await attached(node);
    const changed = { ...conf, mtu: 1380, num_queues: 2 };
    expect(await node.cni("CHECK", { pod, conf: changed })).toMatchObject({ exit: 0, stdout: "" });
  });

  it("F4: accepts settings that somebody changed on purpose", async () => {
    const { pod, conf, host } = await attached(node);
    await node.run(["/bin/sh", "-c", `echo 0 > /proc/sys/net/ipv4/conf/${host}/proxy_arp`]);
    await node.run(["/bin/sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"], {}, pod);
    await node.podIp(pod, "link", "set", "eth0", "mtu", "1300");
    expect(await node.cni("CHECK", { pod, conf })).toMatchObject({ exit: 0, stdout: "" });
  });

  it("fails when the addresses were released behind the container's back", async () => {
    node.excuse("its addresses are released behind its back", "not-granted", "not-released");
    const { pod, conf } = await attached(node);
    await node.cni("DEL", { plugin: "tortie-ipam", pod, conf });
    expect(await node.cni("CHECK", { pod, conf })).toMatchObject({ exit: 1, json: { msg: expect.stringContaining("10.244.") } });
  });

  it("fails for a container that was never added", async () => {
    const conf = localConf(node, { cniVersion: "1.1.0" });
    const run = await node.cni("CHECK", { pod: await node.addPod(), conf });
    expect(run).toMatchObject({ exit: 1, json: { code: 3, msg: expect.stringContaining("cid1") } });
  });
});

describe("STATUS", () => {
  it("is silent when an ADD could be served", async () => {
    const conf = localConf(node, { cniVersion: "1.1.0" });
    expect(await node.cni("STATUS", { conf })).toMatchObject({ exit: 0, stdout: "" });
  });

  it("F3: succeeds when no address is left, with a line in the log; tortiectl cni status names the pools", async () => {
    const conf = localConf(node, { cniVersion: "1.1.0", ipam: { type: "tortie-ipam", pools: [{ cidr: "10.244.0.0/32", blockSize: 32 }] } });
    expect(await node.cni("ADD", { pod: await node.addPod(), conf })).toMatchObject({ exit: 0 });
    const run = await node.cni("STATUS", { conf });
    expect(run).toMatchObject({ exit: 0, stdout: "", stderr: expect.stringContaining("no address is left in this node's blocks") });

    const { name, cniVersion, ...plugin } = conf;
    const file = join(node.dir, "net.conflist");
    writeFileSync(file, JSON.stringify({ name, cniVersion, plugins: [plugin] }));
    const asked = await node.run([join(BIN_DIR, "tortiectl"), "cni", "status", "--cni-path", BIN_DIR, file]);
    expect(asked).toMatchObject({ exit: 0, stdout: expect.stringMatching(/ready, but\s+IPv4: no address is left in 10\.244\.0\.0\/32/) });
  });

  it("answers code 50 naming the file when the datastore cannot be opened", async () => {
    const conf = localConf(node, { cniVersion: "1.1.0", datastore_path: "/proc/tortie.db" });
    expect(await node.cni("STATUS", { conf })).toMatchObject({
      exit: 1,
      json: { code: 50, msg: expect.stringContaining("/proc/tortie.db") },
    });
  });
});

describe("GC", () => {
  it("removes links, addresses and records of this network's unlisted attachments, and nothing else", async () => {
    const conf = localConf(node, { cniVersion: "1.1.0" });
    const other = { ...conf, name: "net2" };
    for (const [containerId, network] of [
      ["kept", conf],
      ["stale", conf],
      ["foreign", other],
    ] as const) {
      expect(await node.cni("ADD", { pod: await node.addPod(), containerId, conf: network })).toMatchObject({ exit: 0 });
    }
    const run = await node.cni("GC", { conf: { ...conf, "cni.dev/valid-attachments": [{ containerID: "kept", ifname: "eth0" }] } });

    expect(run).toMatchObject({ exit: 0, stdout: "" });
    expect((await node.leftovers()).links.sort()).toEqual(["califoreign", "calikept"]);
    const store = await readStore(node);
    expect(store.handles.map(({ id }) => id).sort()).toEqual(["net1.kept", "net2.foreign"]);
    expect(store.allocated).toHaveLength(2);
    expect(store.endpoints.map(({ containerID }) => containerID).sort()).toEqual(["foreign", "kept"]);
  });

  it("collects an address whose ADD was killed before it made a link", async () => {
    const conf = localConf(node, { cniVersion: "1.1.0" });
    await node.cni("ADD", { plugin: "tortie-ipam", containerId: "killed", pod: await node.addPod(), conf });
    await node.cni("GC", { conf: { ...conf, "cni.dev/valid-attachments": [] } });
    expect(await readStore(node)).toMatchObject({ allocated: [], handles: [] });
  });

  it("refuses to run without the list of valid attachments", async () => {
    const run = await node.cni("GC", { conf: localConf(node, { cniVersion: "1.1.0" }) });
    expect(run).toMatchObject({ exit: 1, json: { code: 7, msg: expect.stringContaining("cni.dev/valid-attachments") } });
  });

  it("F5: takes null for the empty list, as libcni sends it for a node without containers", async () => {
    const conf = localConf(node, { cniVersion: "1.1.0" });
    await node.cni("ADD", { pod: await node.addPod(), containerId: "lost", conf });
    const run = await node.cni("GC", { conf: { ...conf, "cni.dev/valid-attachments": null, "cni.dev/attachments": null } });
    expect(run).toMatchObject({ exit: 0, stdout: "" });
    expect(await readStore(node)).toMatchObject({ allocated: [], handles: [], endpoints: [] });
  });
});

describe("DEL", () => {
  it.each([
    ["no alias, as Calico leaves it", ""],
    ["the alias of another program", "somebody's own"],
  ])("removes a link with %s", async (_, alias) => {
    const { pod, conf, host } = await attached(node);
    await node.run(["/bin/sh", "-c", `echo "${alias}" > /sys/class/net/${host}/ifalias`]);

    expect(await node.cni("DEL", { pod, conf })).toMatchObject({ exit: 0 });

    await expectNothingLeft(node);
  });
});
