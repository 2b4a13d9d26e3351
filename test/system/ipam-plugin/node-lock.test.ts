/** What is seen of a call that waits for the lock of its node, which another process holds. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { holdLock } from "../../support/lock-holder-process.ts";
import { BIN_DIR, Node } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";
import { injecting } from "../../support/strace.ts";

interface Waiting {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
  /** The line on standard error that says what is waited for, as soon as it is there. */
  readonly waitingLine: Promise<string>;
  readonly ended: Promise<{ readonly exit: number | null; readonly stdout: string; readonly stderr: string }>;
}

/** An ADD of the IPAM plugin that has been begun. */
function begin(node: Node, change: Readonly<Record<string, unknown>>): Waiting {
  const env = { CNI_COMMAND: "ADD", CNI_CONTAINERID: "c1", CNI_NETNS: "/run/netns/x", CNI_IFNAME: "eth0", CNI_PATH: BIN_DIR };
  const child = spawn(join(BIN_DIR, "tortie-ipam"), [], { env, stdio: ["pipe", "pipe", "pipe"] });
  child.stdin.end(JSON.stringify(localConf(node, change)));
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (bytes: Buffer) => {
    stdout += bytes.toString();
  });
  const waitingLine = new Promise<string>((resolve) => {
    child.stderr.on("data", (bytes: Buffer) => {
      stderr += bytes.toString();
      const [line] = /^.*waiting for.*$/m.exec(stderr) ?? [];
      if (line !== undefined) resolve(line);
    });
  });
  const ended = new Promise<Awaited<Waiting["ended"]>>((resolve) => {
    child.on("close", (exit) => resolve({ exit, stdout, stderr }));
  });
  return { child, waitingLine, ended };
}

/** Of a file, once it has `text`. */
async function contentWith(text: string, path: string): Promise<string> {
  while (!existsSync(path) || !readFileSync(path, "utf8").includes(text)) await Bun.sleep(5);
  return readFileSync(path, "utf8");
}

describe("M4: a call that waits for the lock of its node", () => {
  const node = fresh(Node.create);

  it("says so at once on standard error and in the log, with the process that holds it", async () => {
    const lock = join(node.dir, "ipam.lock");
    const log = join(node.dir, "cni.log");
    const holder = await holdLock(lock, 60);
    const waiting = begin(node, { log_file_path: log });

    const line = await waiting.waitingLine;

    expect(line).toContain(`waiting for ${lock}, held by pid ${holder.pid} (sleep)`);
    expect(line).toContain(`pid=${waiting.child.pid}`);
    expect(await contentWith("waiting for", log)).toContain(`${line}\n`);
    expect(waiting.child.exitCode).toBeNull();
    holder.kill("SIGKILL");
    expect(await waiting.ended).toMatchObject({ exit: 0, stdout: expect.stringContaining("10.244.") });
  });

  it("leaves that line behind when its runtime kills it", async () => {
    const log = join(node.dir, "cni.log");
    const holder = await holdLock(join(node.dir, "ipam.lock"), 60);
    const waiting = begin(node, { log_file_path: log });
    await contentWith("waiting for", log);
    waiting.child.kill("SIGTERM");
    await waiting.ended;
    expect(readFileSync(log, "utf8")).toContain(`held by pid ${holder.pid} (sleep)`);
    holder.kill("SIGKILL");
  });

  it("ends with a word of its own before its runtime would kill it, and has taken nothing", async () => {
    const holder = await holdLock(join(node.dir, "ipam.lock"), 60);
    const { exit, stdout } = await begin(node, { ipam_lock_timeout_seconds: 1 }).ended;
    expect(exit).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ code: 11, details: expect.stringContaining("node-lock-timeout") });
    expect(JSON.parse(stdout).msg).toContain(`held by pid ${holder.pid} (sleep)`);
    holder.kill("SIGKILL");
    if (existsSync(node.datastorePath)) expect(await readStore(node)).toMatchObject({ allocated: [], handles: [] });
  });

  it("says nothing when the lock is free", async () => {
    const { exit, stderr } = await begin(node, {}).ended;
    expect(exit).toBe(0);
    expect(stderr).not.toContain("waiting for");
  });
});

describe("L12: a flock(2) that fails", () => {
  /** An ADD whose first flock(2) ends as strace says. @returns its log */
  async function addWith(fault: string): Promise<string> {
    await using node = await Node.create();
    // The datastore is there already, so the first lock is the node's.
    expect(
      await node.cni("ADD", { plugin: "tortie-ipam", containerId: "earlier", netns: "/run/netns/x", conf: localConf(node) }),
    ).toMatchObject({ exit: 0 });
    const env = { CNI_COMMAND: "ADD", CNI_CONTAINERID: "c1", CNI_NETNS: "/run/netns/x", CNI_IFNAME: "eth0", CNI_PATH: BIN_DIR };
    const strace = injecting("flock", `error=${fault}:when=1`);
    const run = await node.run([...strace, join(BIN_DIR, "tortie-ipam")], { env, stdin: JSON.stringify(localConf(node)) });
    expect(run.exit).toBe(0);
    return run.stderr;
  }

  it("is tried again when a signal interrupted it", async () => {
    expect(await addWith("EINTR")).not.toContain("lock");
  });

  it("is not taken for a lock that somebody holds, or that is held: the call goes on without, and says so", async () => {
    const log = await addWith("ENOLCK");
    expect(log).toContain("going on without the lock of this node");
    expect(log).not.toContain("waiting for");
  });
});
