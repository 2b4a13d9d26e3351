/** `tortiectl cni` as the runtime of the CNI specification (section 3), seen by plugins that note how they are called. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fresh } from "../support/fixtures.ts";
import { BIN_DIR, Node, type RunResult } from "../support/node.ts";
import { RecordingPlugins } from "../support/recording-plugins.ts";

const RESULT = {
  cniVersion: "1.0.0",
  interfaces: [{ name: "eth0", mac: "0a:58:0a:f4:00:05", sandbox: "/run/netns/pod" }],
  ips: [{ address: "10.1.0.5/24", gateway: "10.1.0.1", interface: 0 }],
  dns: {},
};

const node = fresh(Node.create);
const pod = fresh(() => node.addPod());

/** Three in a chain; `first` answers ADD with RESULT, the others with what they are given. */
const plugins = fresh(() => {
  const made = new RecordingPlugins(join(node.dir, "plugins"));
  for (const plugin of ["first", "second", "third"]) {
    made.install(plugin);
    made.answer(plugin, "ADD", RESULT);
  }
  return made;
});

const cacheDir = () => join(node.dir, "cache");
const cached = () => readdirSync(join(cacheDir(), "results"));

function conflist(change: Readonly<Record<string, unknown>> = {}): string {
  const file = join(node.dir, "net.conflist");
  const chain = [
    { type: "first", own: 12345678901234567890n },
    { type: "second", capabilities: { portMappings: true, mac: false } },
    { type: "third", capabilities: { bandwidth: true, portMappings: true } },
  ];
  const text = JSON.stringify({ cniVersion: "1.0.0", name: "podnet", plugins: chain, ...change }, (_key, value) =>
    typeof value === "bigint" ? `bigint:${value}` : value,
  );
  writeFileSync(file, text.replaceAll(/"bigint:(\d+)"/g, "$1"));
  return file;
}

async function cni(verb: string, list: string, ...options: string[]): Promise<RunResult> {
  const sandbox = verb === "gc" || verb === "status" ? [] : [pod.netnsPath];
  const argv = [join(BIN_DIR, "tortiectl"), "cni", verb, list, ...sandbox, "--cni-path", plugins.dir, "--cache-dir", cacheDir()];
  return node.run([...argv, ...options], { env: { PATH: "/usr/bin:/bin", INHERITED: "yes" } });
}

describe("tortiectl cni add", () => {
  it("runs the chain in order, each plugin with name, cniVersion and the result of the one before", async () => {
    const second = { ...RESULT, ips: [], "x-extra": { big: 1 } };
    plugins.answer("second", "ADD", second);

    const run = await cni("add", conflist(), "--container-id", "cid7", "--ifname", "net3", "--json");

    expect(run).toMatchObject({ exit: 0, stderr: "" });
    expect(JSON.parse(run.stdout)).toEqual(RESULT);
    expect(plugins.order()).toEqual(["first ADD", "second ADD", "third ADD"]);
    const inputs = plugins.calls().map((call) => JSON.parse(call.stdin));
    expect(inputs[0]).toEqual({ cniVersion: "1.0.0", name: "podnet", type: "first", own: expect.any(Number) });
    expect(inputs[1]).toEqual({ cniVersion: "1.0.0", name: "podnet", type: "second", prevResult: RESULT });
    expect(inputs[2]).toEqual({ cniVersion: "1.0.0", name: "podnet", type: "third", prevResult: second });
  });

  it("gives every plugin the parameters of the attachment beside its own environment, and its configuration digit for digit", async () => {
    await cni("add", conflist(), "--container-id", "cid7", "--ifname", "net3", "--args", "K8S_POD_NAME=web;IgnoreUnknown=1");

    for (const call of plugins.calls()) {
      expect(call.env).toMatchObject({
        CNI_COMMAND: "ADD",
        CNI_CONTAINERID: "cid7",
        CNI_NETNS: pod.netnsPath,
        CNI_IFNAME: "net3",
        CNI_ARGS: "K8S_POD_NAME=web;IgnoreUnknown=1",
        CNI_PATH: plugins.dir,
        INHERITED: "yes",
      });
    }
    expect(plugins.calls()[0]?.stdin).toContain("12345678901234567890");
  });

  it("gives capability arguments only to the plugins that declare them, and says when nobody does", async () => {
    const run = await cni(
      "add",
      conflist(),
      ...["--port-mapping", "8080:80/tcp", "--port-mapping", "[::1]:53:5353/udp", "--bandwidth", "ingress=8M,ingressBurst=1M"],
      ...["--mac", "0a:58:0a:f4:00:05", "--capability-args", '{"portMappings": [], "bandwidth": {"egressRate": 1}}'],
    );

    expect(run.exit).toBe(0);
    expect(run.stderr).toBe("note: no plugin of podnet declares the capability mac: its argument reaches nobody\n");
    const portMappings = [
      { hostPort: 8080, containerPort: 80, protocol: "tcp" },
      { hostPort: 53, containerPort: 5353, protocol: "udp", hostIP: "::1" },
    ];
    const runtimeConfigs = plugins.calls().map((call) => JSON.parse(call.stdin).runtimeConfig);
    expect(runtimeConfigs).toEqual([undefined, { portMappings }, { portMappings, bandwidth: { ingressRate: 8e6, ingressBurst: 1e6 } }]);
  });

  it("takes a failed chain back with DEL of every plugin in reverse, and tells plugin, code, message and details", async () => {
    plugins.answer("second", "ADD", { cniVersion: "1.0.0", code: 11, msg: "try again later", details: "the pool is busy" }, 1);

    const run = await cni("add", conflist());

    expect(run).toMatchObject({ exit: 1, stdout: "" });
    expect(run.stderr).toBe(
      [
        "tortiectl: ADD of network podnet failed in plugin second (2 of 3)",
        "  code     11",
        "  message  try again later",
        "  details  the pool is busy",
        "  undone   DEL ran on every plugin of the chain",
        "",
      ].join("\n"),
    );
    expect(plugins.order()).toEqual(["first ADD", "second ADD", "third DEL", "second DEL", "first DEL"]);
    expect(plugins.calls().filter((call) => call.stdin.includes("prevResult") && call.command === "DEL")).toEqual([]);
    expect(() => cached()).toThrow("ENOENT");
  });

  it("goes on taking back when a DEL fails too, and reports both", async () => {
    plugins.answer("third", "ADD", { code: 7, msg: "no" }, 1);
    plugins.answer("second", "DEL", { code: 100, msg: "stuck" }, 1);

    const run = await cni("add", conflist());

    expect(plugins.order().slice(3)).toEqual(["third DEL", "second DEL", "first DEL"]);
    expect(run.stderr).toContain("failed in plugin third (3 of 3)");
    expect(run.stderr).toContain("undo     failed in second: stuck");
  });

  it("prints the plugin's error as JSON on request", async () => {
    plugins.answer("first", "ADD", { cniVersion: "1.0.0", code: 11, msg: "try again later", details: "busy" }, 1);

    const run = await cni("add", conflist(), "--json");

    expect(run).toMatchObject({ exit: 1, stderr: "" });
    expect(JSON.parse(run.stdout)).toEqual({ cniVersion: "1.0.0", code: 11, msg: "try again later", details: "busy", plugin: "first" });
  });

  it("keeps the plugins' log lines to itself, unless they are asked for or a plugin fails", async () => {
    writeFileSync(
      join(plugins.dir, "second"),
      '#!/bin/sh\necho "second at $CNI_COMMAND" >&2\n[ $CNI_COMMAND = DEL ] || echo \'{"cniVersion": "1.0.0"}\'\n',
    );

    const quiet = await cni("add", conflist(), "--container-id", "a");
    const loud = await cni("add", conflist(), "--container-id", "b", "-v");
    plugins.answer("third", "ADD", { code: 7, msg: "no" }, 1);
    const failed = await cni("add", conflist(), "--container-id", "c");

    expect([quiet.stderr, loud.stderr]).toEqual(["", "second at ADD\n"]);
    expect(failed.stderr).toMatch(/^second at ADD\nsecond at DEL\ntortiectl: /);
  });

  it("says whose crash it was", async () => {
    await cni("add", conflist());
    const third = join(plugins.dir, "third");
    writeFileSync(third, '#!/bin/sh\n[ $CNI_COMMAND = CHECK ] || exit 0\necho "panic: runtime error: nil pointer" >&2\nexit 2\n');
    const go = await cni("check", conflist());
    writeFileSync(third, "#!/bin/sh\n[ $CNI_COMMAND = CHECK ] || exit 0\nkill -SEGV $$\n");
    const signal = await cni("check", conflist());
    writeFileSync(third, '#!/bin/sh\n[ $CNI_COMMAND = CHECK ] || exit 0\necho "no panic" >&2\nexit 2\n');
    const other = await cni("check", conflist());

    expect(go.stderr).toContain(`message  ${third} crashed at CHECK (panic: runtime error: nil pointer)\n  details  plugin-crashed: `);
    expect(signal.stderr).toContain(`message  ${third} crashed at CHECK (signal: SIGSEGV)`);
    expect(other.stderr).toContain("delegate-failed");
    expect(other.stderr).not.toContain("crashed");
  });

  it("runs no plugin for a namespace that is not there, and says how to make it", async () => {
    const argv = ["cni", "add", conflist(), "nope-nope", "--cni-path", plugins.dir];

    const run = await node.run([join(BIN_DIR, "tortiectl"), ...argv]);

    expect(run).toMatchObject({ exit: 1, stdout: "" });
    expect(run.stderr).toBe(
      "tortiectl: there is no network namespace /run/netns/nope-nope\n  next  make it: ip netns add nope-nope (netns-missing)\n",
    );
    expect(plugins.calls()).toEqual([]);
  });

  it("runs no plugin when one of the list is missing, and names the one that was meant", async () => {
    const run = await cni("add", conflist({ plugins: [{ type: "first" }, { type: "secnd" }] }));

    expect(run).toMatchObject({ exit: 1, stdout: "" });
    expect(run.stderr).toContain(`there is no plugin "secnd" in ${plugins.dir}\n  next  did you mean "second"?`);
    expect(plugins.calls()).toEqual([]);
  });

  it("remarks what validate says of the list", async () => {
    plugins.install("tortie");
    plugins.answer("tortie", "ADD", RESULT);
    const list = conflist({ plugins: [{ type: "tortie", datastore_type: "local", mttu: 9000, ipam: { type: "static" } }] });

    const run = await cni("add", list);

    expect(run.exit).toBe(0);
    expect(run.stderr).toMatch(/^note: .*net\.conflist:1:\d+: warning key-unknown plugins\[0\]\.mttu: .*did you mean mtu\?\)\n$/);
  });

  it("prints for CHECK and DEL, which have no result, what holds for the attachment", async () => {
    const attachment = { network: "podnet", containerID: "cid7", ifname: "eth0", netns: pod.netnsPath };
    await cni("add", conflist(), "--container-id", "cid7");

    const checked = await cni("check", conflist(), "--container-id", "cid7", "--json");
    const deleted = await cni("del", conflist(), "--container-id", "cid7", "--json");
    const again = await cni("del", conflist(), "--container-id", "cid7", "--json");

    expect(JSON.parse(checked.stdout)).toEqual({ ...attachment, asMade: true });
    expect(JSON.parse(deleted.stdout)).toEqual({ ...attachment, detached: true, hadResult: true });
    expect(JSON.parse(again.stdout)).toEqual({ ...attachment, detached: true, hadResult: false });
  });

  it("refuses a second ADD of the same attachment without calling a plugin", async () => {
    await cni("add", conflist());

    const run = await cni("add", conflist());

    expect(run.exit).toBe(1);
    expect(run.stderr).toContain("(attachment-exists)");
    expect(plugins.order()).toHaveLength(3);
  });

  it("chains plugins that answer in another version through the version of the list", async () => {
    const old = { cniVersion: "0.3.1", interfaces: RESULT.interfaces, ips: [{ version: "4", ...RESULT.ips[0] }], dns: {} };
    plugins.answer("first", "ADD", old);

    const run = await cni("add", conflist());

    expect(run.exit).toBe(0);
    expect(JSON.parse(plugins.calls()[1]?.stdin ?? "").prevResult).toEqual({ ...RESULT, dns: undefined });
  });

  it("speaks the highest version that cniVersions offers and it knows", async () => {
    await cni("add", conflist({ cniVersions: ["0.4.0", "1.1.0", "9.0.0"] }));

    expect(plugins.calls().map((call) => JSON.parse(call.stdin).cniVersion)).toEqual(["1.1.0", "1.1.0", "1.1.0"]);
  });
});

describe("tortiectl cni del", () => {
  it("runs the chain in reverse with the result of the ADD and the arguments it was given, then forgets them", async () => {
    await cni("add", conflist(), "--port-mapping", "8080:80", "--args", "A=b=c;D=e");
    expect(cached()).toEqual([expect.stringMatching(/^podnet-[0-9a-f]{64}-eth0$/)]);

    const run = await cni("del", conflist());

    expect(run).toMatchObject({ exit: 0, stderr: "" });
    const calls = plugins.calls().slice(3);
    expect(calls.map(({ plugin, command }) => `${plugin} ${command}`)).toEqual(["third DEL", "second DEL", "first DEL"]);
    for (const call of calls) expect(JSON.parse(call.stdin).prevResult).toEqual(RESULT);
    expect(calls.map((call) => call.env.CNI_ARGS)).toEqual(["A=b=c;D=e", "A=b=c;D=e", "A=b=c;D=e"]);
    expect(calls.map((call) => JSON.parse(call.stdin).runtimeConfig?.portMappings?.[0].hostPort)).toEqual([8080, 8080, undefined]);
    expect(cached()).toEqual([]);
  });

  it("stops at the first failure and keeps the result, so that it can be repeated", async () => {
    await cni("add", conflist());
    plugins.answer("second", "DEL", { code: 11, msg: "not now" }, 1);

    const failed = await cni("del", conflist());
    plugins.answer("second", "DEL", "");
    const repeated = await cni("del", conflist());

    expect([failed.exit, repeated.exit]).toEqual([1, 0]);
    expect(plugins.order().slice(3)).toEqual(["third DEL", "second DEL", "third DEL", "second DEL", "first DEL"]);
    expect(JSON.parse(plugins.calls().at(-1)?.stdin ?? "").prevResult).toEqual(RESULT);
  });

  it("leaves CNI_NETNS empty when the namespace is gone", async () => {
    await cni("add", conflist());
    await node.removePod(pod);

    const run = await cni("del", conflist());

    expect(run.exit).toBe(0);
    expect(
      plugins
        .calls()
        .slice(3)
        .map((call) => call.env.CNI_NETNS),
    ).toEqual(["", "", ""]);
  });

  it("works without a result, and without one that is damaged", async () => {
    const without = await cni("del", conflist());
    await cni("add", conflist());
    writeFileSync(join(cacheDir(), "results", cached()[0] ?? ""), "{");

    const damaged = await cni("del", conflist());

    expect([without.exit, damaged.exit]).toEqual([0, 0]);
    expect(without.stdout).toContain("no result of an ADD was kept");
    expect(plugins.calls().filter((call) => call.command === "DEL" && call.stdin.includes("prevResult"))).toEqual([]);
    expect(cached()).toEqual([]);
  });

  it.each(["0.3.0", "0.3.1"])("gives no prevResult in CNI %s, which did not have it at DEL", async (cniVersion) => {
    await cni("add", conflist({ cniVersion }));

    await cni("del", conflist({ cniVersion }));

    expect(plugins.calls()[5]).toMatchObject({ plugin: "first", command: "DEL", stdin: expect.not.stringContaining("prevResult") });
  });
});

describe("tortiectl cni check", () => {
  it("asks every plugin in order with the result of the ADD", async () => {
    await cni("add", conflist());

    const run = await cni("check", conflist());

    expect(run.exit).toBe(0);
    expect(plugins.order().slice(3)).toEqual(["first CHECK", "second CHECK", "third CHECK"]);
    for (const call of plugins.calls().slice(3)) expect(JSON.parse(call.stdin).prevResult).toEqual(RESULT);
  });

  it("asks nobody without a result, with disableCheck, and before CNI 0.4.0", async () => {
    const unknown = await cni("check", conflist());
    const disabled = await cni("check", conflist({ disableCheck: true }));
    const old = await cni("check", conflist({ cniVersion: "0.3.1" }));

    expect([unknown, disabled, old].map((run) => run.exit)).toEqual([1, 1, 1]);
    expect(unknown.stderr).toContain("(attachment-unknown)");
    expect(disabled.stderr).toContain("(check-disabled)");
    expect(old.stderr).toContain("CHECK is known from CNI 0.4.0 on, cniVersion is 0.3.1");
    expect(plugins.calls()).toEqual([]);
  });
});

describe("tortiectl cni status", () => {
  it("shows every plugin's answer and exits 1 unless all are ready", async () => {
    const list = conflist({ cniVersion: "1.1.0" });
    const ready = await cni("status", list);
    plugins.answer("first", "STATUS", { cniVersion: "1.1.0", code: 50, msg: "no pool has room" }, 1);
    plugins.answer("third", "STATUS", { cniVersion: "1.1.0", code: 51, msg: "agent is down", details: "since noon" }, 1);

    const limited = await cni("status", list);

    expect(ready).toMatchObject({ exit: 0, stdout: "  first   ready\n  second  ready\n  third   ready\n" });
    expect(limited.exit).toBe(1);
    expect(limited.stdout).toBe(
      [
        "  first   not available: it cannot serve an ADD, code 50: no pool has room",
        "  second  ready",
        "  third   not available, and existing containers may have limited connectivity, code 51: agent is down",
        "          since noon",
        "",
      ].join("\n"),
    );
    expect(plugins.calls()[0]).toMatchObject({ stdin: expect.stringContaining('"cniVersion":"1.1.0"') });
    expect(
      Object.keys(plugins.calls()[0]?.env ?? {})
        .filter((name) => name.startsWith("CNI_"))
        .sort(),
    ).toEqual(["CNI_COMMAND", "CNI_PATH"]);
  });

  it("asks no plugin that does not know the list's version: its answer would be about something else", async () => {
    plugins.answer("second", "VERSION", { cniVersion: "1.0.0", supportedVersions: ["0.4.0", "1.0.0"] });
    plugins.answer("third", "VERSION", { cniVersion: "1.1.0", supportedVersions: ["1.0.0", "1.1.0"] });

    const run = await cni("status", conflist({ cniVersion: "1.1.0" }));
    const gc = await cni("gc", conflist({ cniVersion: "1.1.0" }));

    expect(run.exit).toBe(1);
    expect(run.stdout).toContain(
      "second  failed, code 1: second does not know CNI 1.1.0 of the list, only 0.4.0, 1.0.0: it was not asked\n",
    );
    expect(run.stdout).toContain("plugin-outdated: install a newer version of that plugin");
    expect(gc.stdout).toContain("second  failed, code 1: second does not know CNI 1.1.0");
    expect(plugins.order()).toEqual(["first STATUS", "third STATUS", "first GC", "third GC"]);
  });

  it("is refused before CNI 1.1.0, where a plugin could not answer", async () => {
    const run = await cni("status", conflist());

    expect(run.exit).toBe(1);
    expect(run.stderr).toContain("STATUS is known from CNI 1.1.0 on, cniVersion is 1.0.0");
    expect(plugins.calls()).toEqual([]);
  });
});

describe("tortiectl cni gc", () => {
  it("names the living attachments to every plugin, and removes those whose namespace is gone by DEL first", async () => {
    const list = conflist({ cniVersion: "1.1.0" });
    await cni("add", list, "--container-id", "alive");
    const gone = await node.addPod();
    const tortiectl = join(BIN_DIR, "tortiectl");
    const options = ["--cni-path", plugins.dir, "--cache-dir", cacheDir()];
    await node.run([tortiectl, "cni", "add", list, gone.netnsPath, "--container-id", "gone", ...options]);
    await node.removePod(gone);

    const run = await cni("gc", list);

    expect(run.exit).toBe(0);
    expect(run.stdout).toContain("network podnet: 1 living attachment, 1 stale\n  removed  eth0 of gone\n");
    const calls = plugins.calls().slice(6);
    expect(calls.map(({ plugin, command, env }) => `${plugin} ${command} ${env.CNI_CONTAINERID ?? ""}`)).toEqual([
      ...["third DEL gone", "second DEL gone", "first DEL gone"],
      ...["first GC ", "second GC ", "third GC "],
    ]);
    for (const call of calls.slice(3)) {
      expect(JSON.parse(call.stdin)["cni.dev/valid-attachments"]).toEqual([{ containerID: "alive", ifname: "eth0" }]);
    }
    expect(cached()).toEqual(["podnet-alive-eth0"]);
  });

  it("believes a given list of living attachments, and leaves other networks alone", async () => {
    const list = conflist({ cniVersion: "1.1.0" });
    await cni("add", list, "--container-id", "cid1");
    await cni("add", conflist({ cniVersion: "1.1.0", name: "podnet-blue" }), "--container-id", "cid2");

    const run = await cni("gc", conflist({ cniVersion: "1.1.0" }), "--valid", "cid9:eth0", "--json");

    expect(JSON.parse(run.stdout)).toMatchObject({
      valid: [{ containerID: "cid9", ifname: "eth0" }],
      stale: [{ containerID: "cid1", ifname: "eth0" }],
    });
    expect(cached()).toEqual(["podnet-blue-cid2-eth0"]);
    expect(JSON.parse(plugins.calls().at(-1)?.stdin ?? "")["cni.dev/valid-attachments"]).toEqual([{ containerID: "cid9", ifname: "eth0" }]);
  });

  it("does nothing with disableGC, and only the DELs before CNI 1.1.0", async () => {
    await cni("add", conflist());
    await node.removePod(pod);

    const disabled = await cni("gc", conflist({ disableGC: true }));
    const callsAfterDisabled = plugins.order().length;
    const old = await cni("gc", conflist());

    expect([disabled.exit, old.exit]).toEqual([0, 0]);
    expect(callsAfterDisabled).toBe(3);
    expect(plugins.order().slice(3)).toEqual(["third DEL", "second DEL", "first DEL"]);
  });

  it("asks the other plugins too when one fails, and exits 1", async () => {
    plugins.answer("first", "GC", { code: 11, msg: "locked" }, 1);

    const run = await cni("gc", conflist({ cniVersion: "1.1.0" }));

    expect(run.exit).toBe(1);
    expect(run.stdout).toContain("first   failed, code 11: locked");
    expect(plugins.order()).toEqual(["first GC", "second GC", "third GC"]);
  });
});

describe("the kept result", () => {
  it("has libcni's format, so that runtimes and tortiectl can read each other's", async () => {
    const list = conflist();
    await cni("add", list, "--container-id", "cid7", "--port-mapping", "8080:80", "--args", "A=b");

    expect(JSON.parse(readFileSync(join(cacheDir(), "results", "podnet-cid7-eth0"), "utf8"))).toEqual({
      kind: "cniCacheV1",
      containerId: "cid7",
      config: readFileSync(list).toString("base64"),
      ifName: "eth0",
      networkName: "podnet",
      netns: pod.netnsPath,
      cniArgs: [["A", "b"]],
      capabilityArgs: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }] },
      result: RESULT,
    });
  });
});

describe("a plugin that does not behave", () => {
  it.each([
    ["prints no result", "", 0],
    ["prints no JSON", "hello", 0],
    ["dies without a word", "", 3],
  ])("that %s fails the ADD by name, and the chain is taken back", async (_title, output, exit) => {
    plugins.answer("second", "ADD", output, exit);

    const run = await cni("add", conflist());

    expect(run.exit).toBe(1);
    expect(run.stderr).toContain("failed in plugin second (2 of 3)");
    expect(plugins.order().slice(2)).toEqual(["third DEL", "second DEL", "first DEL"]);
  });

  it("that hangs is stopped at the time limit", async () => {
    writeFileSync(join(plugins.dir, "third"), "#!/bin/sh\nsleep 60\n");

    const run = await cni("add", conflist(), "--timeout", "1");

    expect(run.exit).toBe(1);
    expect(run.stderr).toContain("failed in plugin third (3 of 3)");
    expect(plugins.order()).toEqual(["first ADD", "second ADD", "second DEL", "first DEL"]);
  });
});
