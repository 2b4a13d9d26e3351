/**
 * Bad input and broken surroundings: each gives one CNI error with a stable word that names the object and the next step, exit 1, and
 * nothing left behind (issue §7).
 */
import { chownSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { dualIpam, localConf, podArgs } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { type CniRun, Node, type Pod } from "../../support/node.ts";
import { expectNothingLeft, readStore } from "../../support/store.ts";

interface CniError {
  readonly code: number;
  readonly msg: string;
  readonly details: string;
}

/** The one error object of a failed run. */
function errorOf(run: CniRun): CniError {
  expect(run.exit).toBe(1);
  const error = JSON.parse(run.stdout) as CniError;
  expect(Object.keys(error)).toEqual(["code", "msg", "details"]);
  // "<word>: <next step>" ends the details.
  expect(error.details).toMatch(/(^|; )[a-z0-9-]+: .{10,}$/s);
  return error;
}

const bytes = (...values: number[]) => String.fromCharCode(...values);

const node = fresh(Node.create);

describe("Standard input", () => {
  it.each<[string, string, number, RegExp]>([
    ["is empty", "", 6, /netconf-not-json/],
    ["is cut off", '{"name":"net1"', 6, /netconf-not-json/],
    ["has text behind it", '{"name":"net1"} x', 6, /netconf-not-json/],
    ["is a list", "[]", 6, /netconf-not-json/],
    ["is nested a million deep", `{"name":"net1","x":${"[".repeat(1_000_000)}`, 6, /netconf-not-json/],
    ["begins with a byte-order mark", '\ufeff{"name":"net1"}', 6, /netconf-not-json/],
    ["has a control character in a string", `{"name":"net${bytes(1)}1"}`, 6, /netconf-not-json/],
    ["has no name", "{}", 7, /network-name-invalid/],
    ["has a name with a slash", '{"name":"a/b"}', 7, /network-name-invalid/],
    ["has an unknown version", '{"name":"net1","cniVersion":"9.9"}', 1, /version-unsupported/],
    ["has a number as version", '{"name":"net1","cniVersion":1}', 6, /netconf-not-json/],
  ])("that %s is refused with a stable code", async (_, conf, code, details) => {
    const error = errorOf(await node.cni("ADD", { pod: await node.addPod(), conf }));
    expect(error).toMatchObject({ code, details: expect.stringMatching(details) });
    await node.expectClean();
  });

  it("of 10 MB with an unknown key is accepted, and DEL takes the same", async () => {
    const conf = localConf(node, { filler: "x".repeat(10_000_000) });
    const pod = await node.addPod();
    expect(await node.cni("ADD", { pod, conf })).toMatchObject({ exit: 0 });
    expect(await node.cni("DEL", { pod, conf })).toMatchObject({ exit: 0, stdout: "" });
    await expectNothingLeft(node);
  });

  it("with a key given twice takes the last one", async () => {
    const conf = JSON.stringify(localConf(node)).replace(/}$/, ',"mtu":1300,"mtu":1400}');
    const pod = await node.addPod();
    expect(await node.cni("ADD", { pod, conf })).toMatchObject({ exit: 0, json: { interfaces: [{}, { mtu: 1400 }] } });
  });

  it("with invalid UTF-8 in an unknown key is accepted as Go does", async () => {
    const file = join(node.dir, "conf.json");
    const text = JSON.stringify(localConf(node, { note: "@@" }));
    writeFileSync(file, Buffer.from(Buffer.from(text).map((byte) => (byte === 0x40 ? 0xff : byte))));
    const pod = await node.addPod();
    const env = `CNI_COMMAND=ADD CNI_CONTAINERID=cid1 CNI_IFNAME=eth0 CNI_NETNS=${pod.netnsPath} CNI_PATH=${node.binDir}`;
    const run = await node.run(["/bin/sh", "-c", `${env} ${node.binDir}/tortie < ${file}`], { env: {} });
    expect(run).toMatchObject({ exit: 0 });
  });
});

describe("A key of the wrong type or value", () => {
  it.each<[string, Record<string, unknown>, RegExp]>([
    ["mtu", { mtu: "1400" }, /mtu/],
    ["ipam.assign_ipv4", { ipam: dualIpam("4", { assign_ipv4: true }) }, /ipam\.assign_ipv4/],
    ["ipam.pools[0].cidr", { ipam: { type: "tortie-ipam", pools: [{ cidr: "10.0.0.1/24" }] } }, /10\.0\.0\.1\/24/],
    [
      "ipam.pools overlapping",
      { ipam: { type: "tortie-ipam", pools: [{ cidr: "10.0.0.0/16" }, { cidr: "10.0.1.0/24" }] } },
      /10\.0\.1\.0\/24/,
    ],
    ["device_type", { device_type: "bogus" }, /device_type.*bogus/],
    ["dataplane_options.type", { dataplane_options: { type: "bogus" } }, /dataplane type.*bogus/],
    ["dataplane_options.type of gRPC", { dataplane_options: { type: "grpc", socket: "unix:///run/d" } }, /dataplane_options\.type "grpc"/],
    ["datastore_type", { datastore_type: "redis" }, /unknown datastore type.*redis/],
    ["datastore_type kubernetes without a pod", { datastore_type: "kubernetes", nodename_file_optional: true }, /Kubernetes/],
    ["datastore_type etcdv3 without endpoints", { datastore_type: "etcdv3", nodename_file_optional: true }, /no etcd endpoints specified/],
    ["policy.type k8s on the local datastore", { policy: { type: "k8s" } }, /policy\.type.*k8s/],
    ["ipam.type missing", { ipam: {} }, /no plugin name provided/],
    ["ipam.type with a path", { ipam: { type: "./tortie-ipam" } }, /invalid plugin name/],
    ["ipam.type unknown", { ipam: { type: "absent-ipam" } }, /failed to find plugin "absent-ipam"/],
    ["ipam.type naming the main plugin", { ipam: { type: "tortie" } }, /main plugin/],
    ["runtimeConfig.mac", { runtimeConfig: { mac: "nonsense" } }, /nonsense/],
    ["runtimeConfig.ips", { runtimeConfig: { ips: ["10.244.0.1", "10.244.0.2"] } }, /10\.244\.0\.2/],
    ["mtu out of the kernel's range", { mtu: 70_000 }, /70000/],
    ["num_queues out of the kernel's range", { num_queues: 5000 }, /5000/],
  ])("%s is named in the error, and nothing stays", async (_, change, message) => {
    const error = errorOf(await node.cni("ADD", { pod: await node.addPod(), conf: localConf(node, change), path: node.binDir }));
    expect(error.code).toBe(999);
    expect(error.msg).toMatch(message);
    await expectNothingLeft(node);
  });
});

describe("The environment", () => {
  it.each<[string, Record<string, string | undefined>, RegExp]>([
    [
      "without any variable",
      { CNI_CONTAINERID: undefined, CNI_NETNS: undefined, CNI_IFNAME: undefined, CNI_PATH: undefined },
      /\[CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH\] missing/,
    ],
    ["with a container id with a slash", { CNI_CONTAINERID: "a/b" }, /containerID/],
    ["with an interface name that is too long", { CNI_IFNAME: "sixteen-letters-" }, /interface name is too long/],
    ["with an interface name of two dots", { CNI_IFNAME: ".." }, /interface name is \. or \.\./],
    ["with an unknown command", { CNI_COMMAND: "BOGUS" }, /unknown CNI_COMMAND: BOGUS/],
  ])("%s is refused with code 4", async (_, env, message) => {
    const error = errorOf(await node.cni("ADD", { pod: await node.addPod(), conf: localConf(node), env }));
    expect(error).toMatchObject({ code: 4, msg: expect.stringMatching(message) });
  });

  it.each([
    ["a pair without =", "nonsense", /invalid pair/],
    ["an empty pair", "IP=10.244.0.1;", /invalid pair ""/],
    ["a bad address", "IP=10.244.0.300", /10\.244\.0\.300/],
    ["a bad MAC", "MAC=01:00:5e:00:00:01", /01:00:5e:00:00:01/],
  ])("with %s in CNI_ARGS is refused", async (_, args, message) => {
    const error = errorOf(await node.cni("ADD", { pod: await node.addPod(), conf: localConf(node), args }));
    expect(error).toMatchObject({ code: 999, msg: expect.stringMatching(message) });
    await expectNothingLeft(node);
  });
});

describe("The sandbox", () => {
  it("that does not exist is named before anything is touched, and DEL accepts it", async () => {
    const call = { netns: "/run/netns/absent", conf: localConf(node) };
    expect(errorOf(await node.cni("ADD", call))).toMatchObject({ code: 999, msg: expect.stringContaining("/run/netns/absent") });
    expect(await node.cni("DEL", call)).toMatchObject({ exit: 0, stdout: "" });
    await expectNothingLeft(node);
  });

  it("that is a regular file is named as such", async () => {
    const file = join(node.dir, "file");
    writeFileSync(file, "");
    expect(errorOf(await node.cni("ADD", { netns: file, conf: localConf(node) }))).toMatchObject({ msg: expect.stringContaining(file) });
    await expectNothingLeft(node);
  });

  it("that is the plugin's own namespace is refused by ADD with code 8, unless the caller insists, and left alone by DEL", async () => {
    const call = { netns: node.netnsPath, conf: localConf(node), ifname: "own0" };
    expect(errorOf(await node.cni("ADD", call))).toMatchObject({ code: 8, details: expect.stringContaining("netns-own") });
    await expectNothingLeft(node);
    await node.ip("link", "add", "own0", "type", "veth", "peer", "name", "own1");
    expect(await node.cni("DEL", call)).toMatchObject({ exit: 0, stdout: "" });
    expect((await node.leftovers()).links).toEqual(expect.arrayContaining(["own0"]));
    await node.ip("link", "del", "own0");
    expect(await node.cni("ADD", { ...call, env: { CNI_NETNS_OVERRIDE: "1" } })).toMatchObject({ exit: 0 });
    expect((await node.leftovers()).links.sort()).toEqual(["calicid1", "own0"]);
  });

  it("that has an interface of that name already is left as it was", async () => {
    const pod = await node.addPod();
    await node.podIp(pod, "link", "add", "eth0", "type", "veth", "peer", "name", "x0");
    const before = await node.podIp(pod, "-j", "address");
    expect(errorOf(await node.cni("ADD", { pod, conf: localConf(node) }))).toMatchObject({
      details: expect.stringContaining("interface-exists"),
    });
    expect(await node.podIp(pod, "-j", "address")).toEqual(before);
    await expectNothingLeft(node);
  });

  it("that has a conflicting route leaves nothing behind and names the route", async () => {
    await node.ip("link", "add", "other", "type", "veth", "peer", "name", "other-peer");
    await node.ip("link", "set", "other", "up");
    await node.ip("route", "add", "10.244.7.7/32", "dev", "other");
    const conf = localConf(node);
    const error = errorOf(await node.cni("ADD", { pod: await node.addPod(), conf, args: "IP=10.244.7.7" }));
    expect(error).toMatchObject({
      msg: expect.stringMatching(/10\.244\.7\.7.*other/s),
      details: expect.stringContaining("route-conflict"),
    });
    expect(await node.ip("-j", "route", "show", "10.244.7.7")).toMatchObject([{ dev: "other" }]);
    expect(await readStore(node)).toMatchObject({ allocated: [], handles: [], endpoints: [] });
  });
});

describe("The surroundings", () => {
  const envOf = ({ netnsPath }: Pod) => {
    const call = { CNI_COMMAND: "ADD", CNI_CONTAINERID: "cid1", CNI_IFNAME: "eth0", CNI_NETNS: netnsPath };
    return { ...call, CNI_PATH: node.binDir, PATH: "/usr/bin:/bin" };
  };

  it("without a free address give an error that names the pool", async () => {
    const conf = localConf(node, { ipam: { type: "tortie-ipam", pools: [{ cidr: "10.244.0.0/31", blockSize: 32 }] } });
    for (const containerId of ["one", "two"]) {
      expect(await node.cni("ADD", { pod: await node.addPod(), containerId, conf })).toMatchObject({ exit: 0 });
    }
    const error = errorOf(await node.cni("ADD", { pod: await node.addPod(), containerId: "three", conf }));
    expect(error.msg).toMatch(/10\.244\.0\.0\/31/);
    expect((await readStore(node)).handles.map(({ id }) => id)).toEqual(["net1.one", "net1.two"]);
  });

  it("with one family exhausted give neither", async () => {
    const pools = [{ cidr: "10.244.0.0/24" }, { cidr: "fd44::/128", blockSize: 128 }];
    const conf = localConf(node, { ipam: dualIpam("46", { pools }) });
    expect(await node.cni("ADD", { pod: await node.addPod(), containerId: "one", conf })).toMatchObject({ exit: 0 });
    errorOf(await node.cni("ADD", { pod: await node.addPod(), containerId: "two", conf }));
    expect((await readStore(node)).allocated).toHaveLength(2);
  });

  it("with a datastore that is damaged leave the file as it is", async () => {
    writeFileSync(node.datastorePath, "this is no database");
    const error = errorOf(await node.cni("ADD", { pod: await node.addPod(), conf: localConf(node) }));
    expect(error).toMatchObject({
      msg: expect.stringContaining(node.datastorePath),
      details: expect.stringMatching(/datastore-(damaged|foreign)/),
    });
    expect((await node.run(["/bin/cat", node.datastorePath])).stdout).toBe("this is no database");
    await node.expectClean();
  });

  it("with a datastore on a full disk say so", async () => {
    const conf = localConf(node, { datastore_path: join(node.dir, "full", "tortie.db") });
    const script = `mkdir -p ${node.dir}/full && mount -t tmpfs -o size=4k tmpfs ${node.dir}/full && exec ${node.binDir}/tortie`;
    const pod = await node.addPod();
    const run = await node.run(["/bin/sh", "-c", script], { env: envOf(pod), stdin: JSON.stringify(conf) });
    expect(run.exit).toBe(1);
    expect(JSON.parse(run.stdout)).toMatchObject({
      msg: expect.stringContaining("full/tortie.db"),
      details: expect.stringContaining("datastore-unavailable"),
    });
    await node.expectClean();
  });

  it("with a read-only /proc/sys name the file and undo everything", async () => {
    const pod = await node.addPod();
    const script = `mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec ${node.binDir}/tortie`;
    const run = await node.run(["/bin/sh", "-c", script], { env: envOf(pod), stdin: JSON.stringify(localConf(node)) });
    expect(run.exit).toBe(1);
    expect(JSON.parse(run.stdout)).toMatchObject({
      msg: expect.stringContaining("/proc/sys/"),
      details: expect.stringMatching(/^[a-z-]+: /),
    });
    await expectNothingLeft(node);
  });
});

describe("DEL", () => {
  it("does not depend on what only ADD needs", async () => {
    const pod = await node.addPod();
    const call = { pod, args: podArgs("podA") };
    expect(await node.cni("ADD", { ...call, conf: localConf(node) })).toMatchObject({ exit: 0 });
    const broken = localConf(node, { device_type: "bogus", mtu: 70_000, require_mtu_file: true });
    expect(await node.cni("DEL", { ...call, conf: broken })).toMatchObject({ exit: 0, stdout: "" });
    await expectNothingLeft(node);
  });

  it("removes the link even when the datastore cannot be opened, and reports the datastore", async () => {
    const pod = await node.addPod();
    expect(await node.cni("ADD", { pod, conf: localConf(node) })).toMatchObject({ exit: 0 });
    const error = errorOf(await node.cni("DEL", { pod, conf: localConf(node, { datastore_path: "/proc/absent.db" }) }));
    expect(error.msg).toContain("/proc/absent.db");
    await node.expectClean();
    expect(await node.cni("DEL", { pod, conf: localConf(node) })).toMatchObject({ exit: 0, stdout: "" });
    await expectNothingLeft(node);
  });
});

describe("A sandbox that may not be looked at", () => {
  it.each(["ADD", "CHECK", "DEL"])("L15: is named by %s as such, whatever stands in the way, unless it is DEL", async (command) => {
    const closed = join(node.dir, "closed");
    mkdirSync(closed, { mode: 0o700 });
    chownSync(closed, 65534, 65534);
    symlinkSync("circle", join(node.dir, "circle"));
    // Root without the right to pass over modes, as a security module makes it.
    const confined = join(node.dir, "confined");
    const drop = "--bounding-set=-dac_override,-dac_read_search";
    writeFileSync(confined, `#!/bin/sh\nexec /usr/bin/setpriv ${drop} ${node.binDir}/tortie\n`, { mode: 0o755 });

    const ways = [
      [join(closed, "netns"), "permission denied"],
      [join(node.dir, "circle"), "too many levels of symbolic links"],
      [`/run/netns/${"n".repeat(300)}`, "file name too long"],
    ] as const;
    for (const [netns, reason] of ways) {
      const conf = localConf(node, { cniVersion: "1.1.0" });
      const { exit, json } = await node.cni(command, { plugin: confined, netns, conf });
      if (command === "DEL") expect(exit).toBe(0);
      else expect(json).toMatchObject({ msg: expect.stringContaining(reason), details: expect.stringMatching(/^netns-invalid/) });
    }
  });
});
