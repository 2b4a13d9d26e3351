import { closeSync, copyFileSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execaSync } from "execa";
import { delegateAdd, findPlugin, runDelegate } from "../../../../lib/cni/delegate.ts";
import { ForeignCniError, TortieError } from "../../../../lib/errors/errors.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";
import { isRunning } from "../../../support/kubernetes/process.ts";
import { until } from "../../../support/kubernetes/until.ts";

const base = fresh(() => new TemporaryDirectory());

/** A small real program, as in the recordings. */
function plugin(script: string): string {
  const path = join(base.path, "fake");
  writeFileSync(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return path;
}

const NETCONF = '{"name": "net1", "cniVersion": "1.0.0", "big": 12345678901234567890, "policy": {"k8s_auth_token": "s3cret"}}';

function call(options: { stdin?: string | Uint8Array; timeoutMs?: number; args?: string; env?: Record<string, string> } = {}) {
  const { stdin = NETCONF, timeoutMs = 20_000, env = {}, ...rest } = options;
  return {
    stdin: typeof stdin === "string" ? Buffer.from(stdin) : stdin,
    timeoutMs,
    env: { CNI_PATH: base.path, CNI_COMMAND: "?", ...env },
    ...rest,
  };
}

function del(executable: string, options: Parameters<typeof call>[0] = {}): Promise<Uint8Array> {
  return runDelegate(executable, { ...call(options), command: "DEL" });
}

async function failure(operation: Promise<unknown>): Promise<TortieError> {
  const error = await operation.then(
    () => new Error("did not fail"),
    (thrown: unknown) => thrown,
  );
  if (error instanceof TortieError) return error;
  throw error;
}

describe("a delegated call", () => {
  it("gets standard input byte for byte, our environment, and the operation's name", async () => {
    const path = plugin(`/bin/cat > ${base.path}/stdin; /usr/bin/env > ${base.path}/env; echo '{"ips": []}'`);
    await delegateAdd(path, call({ env: { CNI_ARGS: "a=b", KUBECONFIG: "/etc/k" }, args: "IgnoreUnknown=1;a=b" }), "1.0.0");
    expect(readFileSync(join(base.path, "stdin"), "utf8")).toBe(NETCONF);
    const lines = readFileSync(join(base.path, "env"), "utf8").split("\n");
    expect(lines).toEqual(
      expect.arrayContaining(["CNI_COMMAND=ADD", "CNI_ARGS=IgnoreUnknown=1;a=b", "KUBECONFIG=/etc/k", `CNI_PATH=${base.path}`]),
    );
  });

  it.each(["DEL", "CHECK", "STATUS", "GC"] as const)(
    "can be %s, whose output need not be JSON (recording delegate-garbage)",
    async (command) => {
      const path = plugin(`[ $CNI_COMMAND = ${command} ] || exit 5; echo nonsense`);
      expect(Buffer.from(await runDelegate(path, { ...call(), command })).toString()).toBe("nonsense\n");
    },
  );

  it("takes 5 MB of standard input, read or not", async () => {
    const stdin = new Uint8Array(5_000_000).fill(0x20);
    expect(
      Buffer.from(await runDelegate(plugin("/usr/bin/wc -c"), { ...call({ stdin }), command: "ADD" }))
        .toString()
        .trim(),
    ).toBe("5000000");
    expect(await runDelegate(plugin("exec 0<&-; exit 0"), { ...call({ stdin }), command: "DEL" })).toHaveLength(0);
  });

  it("hands the plugin's standard error on to ours", async () => {
    const script = `import { runDelegate } from ${JSON.stringify(join(process.cwd(), "lib/cni/delegate.ts"))};
      await runDelegate(${JSON.stringify(plugin("echo complaint >&2"))}, { stdin: new Uint8Array(), env: {}, timeoutMs: 5000, command: "DEL" });`;
    const child = execaSync(process.execPath, ["-e", script], { env: {}, extendEnv: false, stripFinalNewline: false });
    expect(child).toMatchObject({ stderr: "complaint\n", stdout: "", exitCode: 0 });
  });

  it("can be repeated while the executable is still being written", async () => {
    const path = join(base.path, "busy");
    copyFileSync("/bin/true", path);
    const writer = openSync(path, "r+");
    setTimeout(() => closeSync(writer), 250);
    const begin = performance.now();
    await del(path);
    expect(performance.now() - begin).toBeGreaterThan(200);
  });
});

describe("a delegate's result", () => {
  it("may be of any version, or of none (recordings delegate-old-version, delegate-newer-version, delegate-no-version)", async () => {
    const add = (output: string, configVersion: "1.0.0" | "0.2.0") => delegateAdd(plugin(`echo '${output}'`), call(), configVersion);
    const expected = { ips: [{ address: "10.60.0.5/26", gateway: "10.60.0.1" }] };
    expect(await add('{"cniVersion": "0.2.0", "ip4": {"ip": "10.60.0.5/26", "gateway": "10.60.0.1"}}', "1.0.0")).toMatchObject(expected);
    expect(await add('{"cniVersion": "1.1.0", "ips": [{"address": "10.60.0.5/26", "gateway": "10.60.0.1"}]}', "0.2.0")).toMatchObject(
      expected,
    );
    expect(await add('{"ips": [{"address": "10.60.0.5/26", "gateway": "10.60.0.1"}]}', "1.0.0")).toMatchObject(expected);
    expect(await add('{"ip4": {"ip": "10.60.0.5/26", "gateway": "10.60.0.1"}}', "0.2.0")).toMatchObject(expected);
  });

  it.each([
    ["nothing", "", "failed to unmarshal raw result", "delegate-output", "unexpected end of JSON input"],
    [
      "garbage",
      "echo nonsense",
      "failed to unmarshal raw result",
      "delegate-output",
      "invalid character 'o' in literal null (expecting 'u')",
    ],
    ["two objects", "echo '{}{}'", "failed to unmarshal raw result", "delegate-output", "after top-level value"],
    ["a list", "echo '[]'", "result of plugin", "result-invalid", "expected an object"],
    ["another version", `echo '{"cniVersion": "7"}'`, "result of plugin", "result-invalid", 'unsupported CNI result version "7"'],
    [
      "a bad address",
      `echo '{"ips": [{"address": "<nil>"}]}'`,
      "result of plugin",
      "result-invalid",
      "ips[0].address: invalid CIDR address: <nil>",
    ],
  ])("that is %s is an error of code 999 (recordings delegate-empty, delegate-garbage)", async (_, script, message, word, problem) => {
    const error = await failure(delegateAdd(plugin(script), call(), "1.0.0"));
    expect(error).toMatchObject({ word, code: 999, message: expect.stringContaining(message) });
    expect(error.message).toContain(problem);
    expect(error.message).toContain(`${base.path}/fake`);
  });
});

describe("a delegate's failure", () => {
  it("passes with code, message and details when it printed an error object (recording delegate-error)", async () => {
    for (const delegate of [(path: string) => delegateAdd(path, call(), "1.0.0"), (path: string) => del(path)]) {
      const error = await delegate(plugin(`echo '{"cniVersion": "1.0.0", "code":111,"msg":"no","details":"d"}'; exit 1`)).catch(
        (thrown: unknown) => thrown,
      );
      expect(error).toBeInstanceOf(ForeignCniError);
      expect(error).toMatchObject({ code: 111, message: "no", details: "d" });
    }
  });

  it.each([
    ["exits silently", "exit 3", "netplugin failed with no error message: exit status 3"],
    ["dies by a signal", "kill -SEGV $$", "netplugin failed with no error message: signal: SIGSEGV"],
    ["prints text", "echo it broke; exit 2", 'netplugin failed (exit status 2) but printed no error object, only "it broke"'],
    ["prints an object that is no error", "echo '{}'; exit 1", "but printed no error object, only 3 bytes"],
    ["prints code 0", `echo '{"code": 0, "msg": "fine"}'; exit 1`, "but printed no error object"],
    ["prints a code that is no number", `echo '{"code": "x", "msg": "fine"}'; exit 1`, "but printed no error object"],
    ["prints a result and an error", `echo '{"ips": []}{"code": 8, "msg": "x"}'; exit 1`, "but printed no error object"],
    ["prints nested brackets", "/usr/bin/yes [ | /usr/bin/head -c 1000000; exit 1", 'but printed no error object, only "["'],
  ])(
    "is one error of code 999 when it %s (recordings delegate-exit-silent, delegate-error-text, netns-own)",
    async (_, script, message) => {
      const error = await failure(del(plugin(script)));
      expect(error).toMatchObject({ word: "delegate-failed", code: 999, message: expect.stringContaining(message) });
      expect(error.message).toContain(`plugin ${base.path}/fake (DEL)`);
    },
  );

  it("never repeats the configuration that it echoes", async () => {
    const error = await failure(delegateAdd(plugin("echo -n 'bad configuration: '; /bin/cat; exit 1"), call(), "1.0.0"));
    expect(error.message).toContain("bad configuration:");
    expect(error.message).not.toContain("s3cret");
  });

  it.each([
    ["missing", "/nowhere/ipam", "ENOENT"],
    ["a directory", "/tmp", "EACCES"],
  ])("to start, because the file is %s, is told with its path", async (_, path, reason) => {
    const error = await failure(del(path));
    expect(error).toMatchObject({ word: "delegate-failed", code: 999, message: expect.stringContaining(`cannot run plugin ${path}: `) });
    expect(error.message).toContain(reason);
  });

  it("to start, because the file is no program, is told with its path", async () => {
    writeFileSync(join(base.path, "text"), "hello", { mode: 0o755 });
    const error = await failure(del(join(base.path, "text")));
    expect(error).toMatchObject({ word: "delegate-failed", message: expect.stringContaining(`cannot run plugin ${base.path}/text: `) });
    expect(error.message).toContain("ENOEXEC");
  });
});

// The limits are less than the delegates here sleep for, and more than any machine needs to stop them.
describe("a delegate out of bounds", () => {
  it("is killed with all that it started when it hangs", async () => {
    const path = plugin(`/bin/sleep 1000 & echo $! > ${base.path}/child; echo $$ > ${base.path}/self; wait`);
    const error = await failure(delegateAdd(path, call({ timeoutMs: 400 }), "1.0.0"));
    expect(error).toMatchObject({ word: "delegate-timeout", code: 999, message: `plugin ${path} (ADD) did not finish within 0.4 s` });
    const pids = ["child", "self"].map((name) => Number(readFileSync(join(base.path, name), "utf8")));
    await until("both are gone", () => !pids.some(isRunning), 5_000);
  }, 100_000);

  it("is killed when it hangs after it closed its output", async () => {
    expect(await failure(del(plugin("exec 1>&-; exec /bin/sleep 1000"), { timeoutMs: 400 }))).toMatchObject({
      word: "delegate-timeout",
    });
  }, 100_000);

  it("ignoring SIGTERM is killed all the same", async () => {
    expect(await failure(del(plugin("trap '' TERM; while :; do /bin/sleep 1; done"), { timeoutMs: 300 }))).toMatchObject({
      word: "delegate-timeout",
    });
  });

  it("is killed when it prints 100 MB, long before the end", async () => {
    const path = plugin(
      `echo $$ > ${base.path}/self; /usr/bin/head -c 100000000 /dev/zero; echo done > ${base.path}/done; /bin/sleep 1000`,
    );
    const error = await failure(delegateAdd(path, call(), "1.0.0"));
    expect(error).toMatchObject({
      word: "delegate-output",
      code: 999,
      message: `plugin ${path} printed more than 4194304 bytes and was stopped`,
    });
    const pid = Number(readFileSync(join(base.path, "self"), "utf8"));
    await until("it is gone", () => !isRunning(pid), 5_000);
    expect(() => readFileSync(join(base.path, "done"))).toThrow("ENOENT");
  }, 100_000);

  it("may leave a child behind that keeps the output open: its answer counts", async () => {
    const path = plugin(`/bin/sleep 1000 & echo $! > ${base.path}/child; echo '{"cniVersion": "1.0.0"}'`);
    expect(await delegateAdd(path, call(), "1.0.0")).toMatchObject({ ips: [] });
    process.kill(Number(readFileSync(join(base.path, "child"), "utf8")));
  }, 100_000);

  it("that stays busy for too long is reported with the time limit", async () => {
    const path = join(base.path, "busy");
    copyFileSync("/bin/true", path);
    const writer = openSync(path, "r+");
    const error = await failure(del(path, { timeoutMs: 300 }));
    closeSync(writer);
    expect(error).toMatchObject({ word: "delegate-timeout" });
  });
});

describe("the reference host-local plugin", () => {
  it("assigns, checks and releases an address", async () => {
    const path = findPlugin("host-local", "/nowhere:/usr/lib/cni");
    const ipam = { type: "host-local", dataDir: base.path, ranges: [[{ subnet: "10.80.0.0/24" }], [{ subnet: "dead:beef::/96" }]] };
    const env = { CNI_CONTAINERID: "c1", CNI_NETNS: "/run/netns/none", CNI_IFNAME: "eth0", CNI_PATH: "/usr/lib/cni" };
    const stdin = JSON.stringify({ cniVersion: "1.0.0", name: "net1", ipam });

    const result = await delegateAdd(path, call({ stdin, env }), "1.0.0");
    expect(result.ips).toEqual([
      { address: "10.80.0.2/24", gateway: "10.80.0.1" },
      { address: "dead:beef::2/96", gateway: "dead:beef::1" },
    ]);
    const repeated: unknown = await delegateAdd(path, call({ stdin, env }), "1.0.0").catch((thrown: unknown) => thrown);
    expect(repeated).toBeInstanceOf(ForeignCniError);
    expect(repeated).toMatchObject({ code: 999, message: expect.stringContaining("duplicate allocation is not allowed") });
    const prevResult = { cniVersion: "1.0.0", ips: result.ips };
    await runDelegate(path, {
      ...call({ stdin: JSON.stringify({ cniVersion: "1.0.0", name: "net1", ipam, prevResult }), env }),
      command: "CHECK",
    });
    expect(readFileSync(join(base.path, "net1/10.80.0.2"), "utf8")).toContain("c1");
    await del(path, { stdin, env });
    expect(() => readFileSync(join(base.path, "net1/10.80.0.2"))).toThrow("ENOENT");
  });
});
