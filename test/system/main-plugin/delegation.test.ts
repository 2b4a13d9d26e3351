/** Addresses from any IPAM plugin: host-local for real, ours by exec and in process, and plugins that misbehave (C§2.5). */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { localConf, podArgs } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { kernelView } from "../../support/kernel-view.ts";
import { BIN_DIR, type CniRun, type JsonRecord, Node } from "../../support/node.ts";
import { RecordingPlugins } from "../../support/recording-plugins.ts";
import { readStore } from "../../support/store.ts";

const HOST_LOCAL = { type: "host-local", ranges: [[{ subnet: "10.80.0.0/24" }], [{ subnet: "fd80::/64" }]] };

/** A CNI_PATH with one IPAM plugin, a shell script that notes each command it is called with in `calls`. */
function scriptedIpam(node: Node, script: string): { path: string; calls: string } {
  node.excuse("the script keeps no list of what it gave", "not-granted");
  const path = join(node.dir, "plugins");
  const calls = join(node.dir, "calls");
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "scripted"), `#!/bin/sh\necho "$CNI_COMMAND" >> ${calls}\n${script}\n`);
  chmodSync(join(path, "scripted"), 0o755);
  return { path, calls };
}

const ANSWER = `{"cniVersion":"1.0.0","ips":[{"address":"10.80.0.5/24"}]}`;

async function callsOf(node: Node, file: string): Promise<string[]> {
  return (await node.run(["/bin/cat", file])).stdout.trim().split("\n");
}

describe("host-local as the IPAM plugin", () => {
  const node = fresh(Node.create);

  it("gives addresses of both families, which DEL releases", async () => {
    const pod = await node.addPod();
    const conf = localConf(node, { ipam: { ...HOST_LOCAL, dataDir: join(node.dir, "host-local") } });
    const run = await node.cni("ADD", { pod, conf });

    expect(run.json).toMatchObject({
      ips: [
        { address: "10.80.0.2/32", interface: 1 },
        { address: "fd80::2/128", interface: 1 },
      ],
    });
    expect(await node.cni("DEL", { pod, conf })).toMatchObject({ exit: 0, stdout: "" });
    expect((await node.run(["/bin/ls", join(node.dir, "host-local", "net1")])).stdout).not.toContain("10.80.0.2");
  });

  it("puts its configured routes into the pod instead of the defaults, or after them when they are included", async () => {
    const routes = [{ dst: "10.123.0.0/16", gw: "10.80.0.1" }, { dst: "fd99::/64" }];
    const ipam = { ...HOST_LOCAL, routes, dataDir: join(node.dir, "host-local") };
    const [one, two] = [await node.addPod(), await node.addPod()];
    await node.cni("ADD", { pod: one, containerId: "one", conf: localConf(node, { ipam }) });
    await node.cni("ADD", { pod: two, containerId: "two", conf: localConf(node, { ipam, include_default_routes: true }) });

    const destinations = async (pod: typeof one) =>
      [...(await node.podIp(pod, "-j", "-4", "route")), ...(await node.podIp(pod, "-j", "-6", "route"))]
        .filter(({ gateway }) => gateway !== undefined)
        .map(({ dst }) => dst);
    expect(await destinations(one)).toEqual(["10.123.0.0/16", "fd99::/64"]);
    expect(await destinations(two)).toEqual(["default", "10.123.0.0/16", "fd99::/64", "default"]);
  });

  it("refuses usePodCidr, which only an API server could answer", async () => {
    const conf = localConf(node, { ipam: { type: "host-local", subnet: "usePodCidr" } });
    const run = await node.cni("ADD", { pod: await node.addPod(), conf });
    expect(run.json).toMatchObject({
      code: 999,
      msg: expect.stringContaining("usePodCidr"),
      details: expect.stringContaining("pod-cidr-missing"),
    });
  });
});

describe("Our own IPAM plugin", () => {
  it.each(["ADD", "CHECK", "DEL"])("answers %s in process as it does when it is executed", async (command) => {
    const outcomes = [];
    for (const in_process of [true, false]) {
      await using node = await Node.create();
      const pod = await node.addPod();
      const conf = localConf(node, { ipam: { type: "calico-ipam", pools: [{ cidr: "10.244.0.0/24" }], in_process } });
      const call = { pod, conf, plugin: "calico", path: BIN_DIR };
      let run: CniRun = await node.cni("ADD", call);
      if (command !== "ADD") run = await node.cni(command, { ...call, conf: { ...conf, prevResult: run.json } });
      const store = await readStore(node);
      outcomes.push({
        exit: run.exit,
        stdout: withoutVolatile(run.stdout, pod.netnsPath),
        allocated: store.allocated,
        handles: store.handles,
      });
    }
    expect(outcomes[1]).toEqual(outcomes[0]);
    expect(outcomes[0]).toMatchObject({ exit: 0 });
  });

  it.each([
    ["no room", { pools: [{ cidr: "10.244.0.0/26" }], ipv4_pools: ["10.99.0.0/24"] }, ""],
    ["a bad address", { pools: [{ cidr: "10.244.0.0/26" }] }, "IP=10.244.0.300"],
    ["no pool", {}, ""],
  ])("fails in process as it does when it is executed: %s", async (_, ipam, args) => {
    const errors = [];
    for (const in_process of [true, false]) {
      await using node = await Node.create();
      const conf = localConf(node, { ipam: { type: "tortie-ipam", ...ipam, in_process } });
      const run = await node.cni("ADD", { pod: await node.addPod(), conf, args });
      errors.push({ exit: run.exit, json: JSON.parse(JSON.stringify(run.json).replaceAll(node.dir, "DIR")) });
      await node.expectClean();
    }
    expect(errors[1]).toEqual(errors[0]);
    expect(errors[0]).toMatchObject({ exit: 1, json: { code: expect.any(Number), msg: expect.any(String) } });
  });
});

describe("A delegate that misbehaves", () => {
  const node = fresh(Node.create);

  it.each([
    ["prints garbage", "cat >/dev/null; echo hello", "delegate-output"],
    ["prints nothing", "cat >/dev/null", "delegate-output"],
    ["dies by a signal", "kill -9 $$", "delegate-failed"],
    ["fails without a word", "exit 3", "delegate-failed"],
    ["prints 100 MB", "cat >/dev/null; head -c 100000000 /dev/zero", "delegate-output"],
    ["gives no address", `cat >/dev/null; echo '{"cniVersion":"1.0.0"}'`, "ipam-no-addresses"],
  ])("and %s is named in the error, gets a DEL, and nothing stays", async (_, script, word) => {
    const { path, calls } = scriptedIpam(node, `[ "$CNI_COMMAND" = DEL ] && exit 0\n${script}`);
    const pod = await node.addPod();
    const run = await node.cni("ADD", { pod, path, conf: localConf(node, { ipam: { type: "scripted" } }) });

    expect(run).toMatchObject({
      exit: 1,
      json: { code: 999, msg: expect.stringContaining("scripted"), details: expect.stringContaining(word) },
    });
    expect(await callsOf(node, calls)).toEqual(["ADD", "DEL"]);
    await node.expectClean();
    expect(await node.podIp(pod, "-j", "link")).toHaveLength(1);
    expect((await readStore(node)).endpoints).toEqual([]);
  });

  it("and reports an error of its own has that error passed on unchanged", async () => {
    const error = { code: 117, msg: "no more leases", details: "ask the DHCP server" };
    const { path } = scriptedIpam(node, `cat >/dev/null; echo '${JSON.stringify(error)}'; exit 1`);
    const run = await node.cni("ADD", { pod: await node.addPod(), path, conf: localConf(node, { ipam: { type: "scripted" } }) });
    expect(run).toMatchObject({ exit: 1, json: error });
  });

  it("and cannot release fails the DEL, which a later one completes", async () => {
    const error = { code: 117, msg: "no way to the server", details: "try again" };
    const failing = `[ "$CNI_COMMAND" = DEL ] && [ ! -e ${node.dir}/up ] && { echo '${JSON.stringify(error)}'; exit 1; }`;
    const { path, calls } = scriptedIpam(node, `cat >/dev/null; ${failing}; [ "$CNI_COMMAND" = DEL ] || echo '${ANSWER}'`);
    const call = { pod: await node.addPod(), path, conf: localConf(node, { ipam: { type: "scripted" } }) };
    expect(await node.cni("ADD", call)).toMatchObject({ exit: 0 });
    expect(await node.cni("DEL", call)).toMatchObject({ exit: 1, json: error });
    await node.run(["touch", `${node.dir}/up`]);
    expect(await node.cni("DEL", call)).toMatchObject({ exit: 0 });
    expect(await callsOf(node, calls)).toEqual(["ADD", "DEL", "DEL"]);
  });

  it("is released when a later step fails", async () => {
    const { path, calls } = scriptedIpam(node, `cat >/dev/null; [ "$CNI_COMMAND" = DEL ] || echo '${ANSWER}'`);
    const pod = await node.addPod();
    await node.podIp(pod, "link", "add", "eth0", "type", "veth", "peer", "name", "x0");
    const run = await node.cni("ADD", { pod, path, conf: localConf(node, { ipam: { type: "scripted" } }) });

    expect(run).toMatchObject({ exit: 1, json: { msg: expect.stringMatching(/eth0.*exists|file exists.*eth0/s) } });
    expect(await callsOf(node, calls)).toEqual(["ADD", "DEL"]);
    await node.expectClean();
  });

  it("is not asked to release what a container still uses when its repeated ADD fails", async () => {
    const { path, calls } = scriptedIpam(node, `cat >/dev/null; [ "$CNI_COMMAND" = DEL ] || echo '${ANSWER}'`);
    const pod = await node.addPod();
    const call = { pod, path, conf: localConf(node, { ipam: { type: "scripted" } }), args: "K8S_POD_NAME=a;K8S_POD_NAMESPACE=b" };
    expect(await node.cni("ADD", call)).toMatchObject({ exit: 0 });
    const [host] = (await node.leftovers()).links;
    await node.ip("link", "set", String(host), "name", "sali0");

    expect(await node.cni("ADD", call)).toMatchObject({ exit: 1 });
    expect(await callsOf(node, calls)).toEqual(["ADD", "ADD"]);
  });
});

describe("azure-vnet-ipam, which releases by address", () => {
  const node = fresh(Node.create);

  it("is refused by ADD and not executed, and not by the DEL that follows either", async () => {
    const plugins = new RecordingPlugins(join(node.dir, "azure"));
    plugins.install("azure-vnet-ipam");
    const call = { pod: await node.addPod(), path: plugins.dir, conf: localConf(node, { ipam: { type: "azure-vnet-ipam" } }) };
    expect(await node.cni("ADD", call)).toMatchObject({
      exit: 1,
      json: {
        msg: expect.stringContaining('ipam.type "azure-vnet-ipam" is not supported'),
        details: expect.stringContaining("netconf-value"),
      },
    });
    expect(await node.cni("DEL", call)).toMatchObject({ exit: 0, stdout: "" });
    expect(plugins.calls()).toEqual([]);
    await node.expectClean();
  });
});

describe("While a delegate looks for addresses", () => {
  /** ADD notes the links of the host and of the sandbox after a moment, before it does what the test says. */
  function watchingIpam(node: Node, script: string) {
    const seen = join(node.dir, "links");
    const look = `/bin/sleep 0.2; /usr/sbin/ip -j link show > ${seen}; /usr/bin/nsenter --net="$CNI_NETNS" /usr/sbin/ip -j link show > ${seen}.pod`;
    const { path } = scriptedIpam(node, `cat >/dev/null; [ "$CNI_COMMAND" = ADD ] || exit 0; ${look}; ${script}`);
    const read = (file: string): JsonRecord[] => JSON.parse(readFileSync(file, "utf8"));
    return { path, links: () => ({ host: read(seen), pod: read(`${seen}.pod`) }) };
  }
  const withoutLoopback = (links: readonly JsonRecord[]) => links.filter(({ ifname }) => ifname !== "lo");

  it("the node and the sandbox have no link yet", async () => {
    await using node = await Node.create();
    const { path, links } = watchingIpam(node, "exit 3");
    const pod = await node.addPod();

    expect(await node.cni("ADD", { pod, path, conf: localConf(node, { ipam: { type: "scripted" } }) })).toMatchObject({ exit: 1 });

    expect(withoutLoopback(links().host)).toEqual([]);
    expect(withoutLoopback(links().pod)).toEqual([]);
  });

  it.each([
    ["fails", "exit 3", 1],
    ["finds one", `echo '{"cniVersion":"1.0.0","ips":[{"address":"10.80.0.6/24"}]}'`, 0],
  ])("the link of the pod's older sandbox stays as it is, until the delegate %s", async (_, script, exit) => {
    await using node = await Node.create();
    const [older, newer] = [await node.addPod(), await node.addPod()];
    const args = podArgs("web");
    const first = scriptedIpam(node, `cat >/dev/null; [ "$CNI_COMMAND" = DEL ] || echo '${ANSWER}'`);
    const conf = localConf(node, { ipam: { type: "scripted" } });
    expect(await node.cni("ADD", { pod: older, path: first.path, conf, args })).toMatchObject({ exit: 0 });
    // The kernel notices the carrier of a new link in its own time.
    for (const name of (await node.leftovers()).links) await kernelView(node, name);
    await kernelView(node, "eth0", older);
    const before = [
      await node.ip("-j", "addr", "show"),
      await node.ip("-j", "route", "show"),
      await node.podIp(older, "-j", "addr", "show"),
    ];

    const second = watchingIpam(node, script);
    const run = await node.cni("ADD", {
      pod: newer,
      containerId: "cid2",
      path: second.path,
      conf,
      args: podArgs("web", "default", "cid2"),
    });

    expect(run.exit).toBe(exit);
    const { host, pod } = second.links();
    expect(host.map(({ ifindex, operstate }) => [ifindex, operstate])).toEqual(
      before[0]?.map(({ ifindex, operstate }) => [ifindex, operstate]),
    );
    expect(withoutLoopback(pod)).toEqual([]);
    const now = [await node.ip("-j", "addr", "show"), await node.ip("-j", "route", "show"), await node.podIp(older, "-j", "addr", "show")];
    if (exit === 0) expect(withoutLoopback(now[2] ?? [])).toEqual([]);
    else expect(now).toEqual(before);
  });
});

function withoutVolatile(stdout: string, netns: string): JsonRecord | string {
  return stdout.replaceAll(netns, "NETNS").replace(/([0-9a-f]{2}:){5}[0-9a-f]{2}/g, "MAC");
}
