/** What the runtime's process hands down: its environment, its memory policy, and readers of pipes that have stopped. */
import { closeSync, constants, existsSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { holdLock } from "../../support/lock-holder-process.ts";
import { BIN_DIR, Node } from "../../support/node.ts";

const node = fresh(Node.create);

describe("L10: a variable that changes the JavaScript runtime", () => {
  it.each([
    ["BUN_OPTIONS", "--smol"],
    ["BUN_OPTIONS", "--version"],
    ["BUN_JSC_useConcurrentGC", "0"],
    ["BUN_CONFIG_VERBOSE_FETCH", "1"],
  ])("%s is refused by the plugins, and nothing is touched", async (name, value) => {
    const pod = await node.addPod();
    for (const plugin of ["tortie", "tortie-ipam"]) {
      const run = await node.cni("ADD", { plugin, pod, conf: localConf(node), env: { [name]: value } });
      expect(run).toMatchObject({ exit: 1, json: { code: 999, details: expect.stringMatching(/^runtime-variable: /) } });
      expect(run.json).toMatchObject({ msg: expect.stringContaining(name) });
    }
    await node.expectClean();
    expect(existsSync(node.datastorePath)).toBe(false);
  });

  it.each(["tortie", "tortie-main", "tortie-ipam"])("R12: does not make Bun of %s", async (plugin) => {
    const pod = await node.addPod();
    for (const command of ["ADD", "DEL"]) {
      const run = await node.cni(command, { plugin, pod, conf: localConf(node), env: { BUN_BE_BUN: "1" } });
      expect(run).toMatchObject({ exit: 0, stdout: command === "ADD" ? expect.stringContaining('"ips"') : "" });
    }
  });

  it("R12: does not make Bun of tortiectl, nor loads a file before it", async () => {
    const file = join(node.dir, "first.js");
    writeFileSync(file, `require("node:fs").writeFileSync(${JSON.stringify(`${file}.done`)}, "")`);
    const tortiectl = [join(BIN_DIR, "tortiectl"), "--version"];
    expect(await node.run(tortiectl, { env: { BUN_BE_BUN: "1" } })).toEqual(await node.run(tortiectl, { env: {} }));
    await node.run(tortiectl, { env: { BUN_OPTIONS: `--preload=${file}` } });
    expect(existsSync(`${file}.done`)).toBe(false);
  });

  it("is refused by tortiectl", async () => {
    const run = await node.run([join(BIN_DIR, "tortiectl"), "ipam", "show"], { env: { BUN_OPTIONS: "--smol" } });
    expect(run).toMatchObject({ exit: 1, stdout: "", stderr: expect.stringContaining("BUN_OPTIONS") });
  });
});

describe("L14: a runtime that denies memory which is written and executed", () => {
  const denied = (program: string) => [process.execPath, "test/support/programs/deny-write-execute.ts", join(BIN_DIR, program)];

  it.each(["tortie", "tortie-ipam"])("gets the version of %s", async (program) => {
    const run = await node.run([...denied(program), "-v"]);
    expect(run).toMatchObject({ exit: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/), stderr: "" });
  });

  it.each(["tortie", "tortie-ipam"])("gets one error object from %s that says what is missing", async (program) => {
    const pod = await node.addPod();
    const env = { CNI_COMMAND: "ADD", CNI_CONTAINERID: "cid1", CNI_NETNS: pod.netnsPath, CNI_IFNAME: "eth0", CNI_PATH: BIN_DIR };
    const run = await node.run(denied(program), { env, stdin: JSON.stringify(localConf(node)) });
    expect(run.exit).toBe(1);
    expect(JSON.parse(run.stdout)).toMatchObject({ code: 999, details: expect.stringMatching(/^platform-unsupported: /) });
    // No excerpt of the program's source.
    expect(run.stderr).not.toContain("dlopen(");
  });
});

describe("M4, an operation that is killed", () => {
  it("has left a line that it began, in the log file and on standard error", async () => {
    const log = join(node.dir, "cni.log");
    const conf = localConf(node, { log_file_path: log });
    using _holder = await holdLock(`${node.dir}/ipam.lock`, 60);

    const run = await node.cni("ADD", { pod: await node.addPod(), conf, timeoutMs: 1_500 });

    expect(run).toMatchObject({ signal: "SIGKILL", stdout: "", stderr: expect.stringContaining("info ADD begins command=ADD") });
    expect(readFileSync(log, "utf8")).toContain("info ADD begins command=ADD network=net1 container=cid1 interface=eth0");
  });
});

describe("L9: a log file that is a FIFO whose reader has stopped", () => {
  it("does not hold an operation up, and standard error says that lines are dropped", async () => {
    const path = join(node.dir, "fifo");
    await node.run(["mkfifo", path]);
    const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
    try {
      expect(() => {
        for (;;) writeSync(fd, Buffer.alloc(1));
      }).toThrow("EAGAIN");
      const run = await node.cni("ADD", { pod: await node.addPod(), conf: localConf(node, { log_file_path: path }) });
      expect(run).toMatchObject({ exit: 0, stderr: expect.stringContaining(`cannot write the log file ${path}`) });
    } finally {
      closeSync(fd);
    }
  });
});
