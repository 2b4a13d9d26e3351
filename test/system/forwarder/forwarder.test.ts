/** The forwarder by itself: what it says to an agent, what it does with each answer, and when it becomes the program (docs/project/forwarder.md). */
import { spawnSync } from "node:child_process";
import { closeSync, openSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decodeCall } from "../../../handover/decode-frame.ts";
import { entryOf } from "../../../lib/errors/error-catalogue.ts";
import { answerOf, ForwarderFolder } from "../../support/forwarder.ts";
import { BIN_DIR, HAS_FORWARDER } from "../../support/node.ts";

const FORWARDER = join(BIN_DIR, "tortie");
const MOST_CALL = 1 << 20;

async function folderWith(answer: (socket: Socket, call: Buffer) => void): Promise<ForwarderFolder> {
  const folder = new ForwarderFolder(FORWARDER);
  await folder.listen(answer);
  return folder;
}

(HAS_FORWARDER ? describe : describe.skip)("The forwarder", () => {
  it("sends variables and standard input as they are, with the sandbox that it holds open", async () => {
    let held: string | undefined;
    await using folder = await folderWith((socket, call) => {
      const { sandbox } = decodeCall(call);
      const pid = readFileSync(join(folder.dir, "pid"), "utf8").trim();
      held = readFileSync(`/proc/${pid}/fd/${sandbox?.fd}`, "utf8");
      socket.end(answerOf(200, "{}"));
    });
    const sandbox = join(folder.dir, "sandbox");
    writeFileSync(sandbox, "the sandbox");
    const env = { ...folder.variables, CNI_NETNS: sandbox, ODD: "a=b \u{1f431}\n", EMPTY: "" };
    const stdin = Buffer.from([0xef, 0xbb, 0xbf, 0x7b, 0xff, 0x00, 0x7d]);
    const around = ["/bin/sh", "-c", `echo $$ >${folder.dir}/pid; exec "$@"`, "sh"];
    expect(await folder.run({ env, stdin, around })).toEqual({ exit: 0, stdout: "{}", stderr: "" });
    const { dev, ino } = statSync(sandbox, { bigint: true });
    expect(folder.calls.map((call) => decodeCall(call))).toEqual([
      expect.objectContaining({
        flags: 0,
        deadlineMs: 0,
        sandbox: { dev, ino, fd: expect.any(Number) },
        env: expect.objectContaining(env),
      }),
    ]);
    expect(folder.calls.map((call) => [...decodeCall(call).stdin])).toEqual([[...stdin]]);
    expect(held).toBe("the sandbox");
  });

  it.each([
    [200, 0],
    [400, 1],
    [500, 1],
    [507, 1],
  ])("prints an answer of status %i and exits with %i", async (status, exit) => {
    await using folder = await folderWith((socket) => socket.end(answerOf(status, '{"msg":"x"}')));
    expect(await folder.run()).toEqual({ exit, stdout: '{"msg":"x"}', stderr: "" });
  });

  it("takes an answer that comes byte by byte, and one of a megabyte", async () => {
    const large = "x".repeat(1 << 20);
    const answers = [answerOf(200, "slow"), answerOf(200, large)];
    await using folder = await folderWith(async (socket) => {
      const bytes = answers.shift() ?? new Uint8Array();
      if (bytes.length > 100) return void socket.end(bytes);
      for (const byte of bytes) {
        socket.write(Uint8Array.of(byte));
        await Bun.sleep(2);
      }
    });
    expect((await folder.run()).stdout).toBe("slow");
    expect((await folder.run()).stdout).toBe(large);
  });

  it("tells the agent whether the IPAM plugins of CNI_PATH are its program", async () => {
    await using folder = await folderWith((socket) => socket.end(answerOf(200, "")));
    const { dir, variables } = folder;
    const foreign = join(dir, "foreign");
    await Bun.$`mkdir ${foreign} && cp /bin/true ${foreign}/tortie-ipam && ln ${dir}/tortie-main ${dir}/tortie-ipam && touch ${foreign}/calico-ipam && ln -s tortie-main ${dir}/calico-ipam`;
    const flags = async (path: string) => {
      await folder.run({ env: { ...variables, CNI_PATH: path } });
      return folder.calls.map((call) => decodeCall(call).flags).at(-1);
    };
    expect(await flags(dir)).toBe(4 + 8);
    // A file that may not be executed is none, as for the program.
    expect(await flags(`${foreign}::${dir}`)).toBe(8);
    expect(await flags("/nowhere")).toBe(0);
  });

  const FOREIGN = Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n");
  const changed = (at: number, ...bytes: number[]) => {
    const answer = Buffer.from(answerOf(200, "{}"));
    answer.set(bytes, at);
    return answer;
  };
  it.each<[string, Uint8Array]>([
    ["do it yourself", answerOf(421, "")],
    ["busy", answerOf(503, '{"retry-after-ms":5}')],
    ["another version", changed(4, 2, 0)],
    ["another protocol", FOREIGN],
    ["an answer that is cut off", answerOf(200, "{}").subarray(0, 21)],
    ["a header that is cut off", answerOf(200, "{}").subarray(0, 7)],
    ["nothing", new Uint8Array()],
    ["a length of four gigabytes", changed(8, 0xff, 0xff, 0xff, 0xff)],
  ])("becomes the program after %s", async (_, answer) => {
    await using folder = await folderWith((socket) => socket.end(answer));
    const stdin = '{"name":"net1"}';
    expect(await folder.run({ stdin })).toMatchObject({ exit: 0, stdout: `program: \n${stdin.length}\n` });
    expect(readFileSync(folder.seenFile, "utf8")).toBe(stdin);
  });

  it("becomes the program where no agent listens, for people, and for a version", async () => {
    await using folder = new ForwarderFolder(FORWARDER);
    const { variables } = folder;
    const { CNI_COMMAND: _, ...withoutCommand } = variables;
    expect((await folder.run()).stdout).toBe("program: \n2\n");
    expect((await folder.run({ args: ["-v", "x"] })).stdout).toBe("program: -v x\n2\n");
    expect((await folder.run({ env: withoutCommand })).stdout).toBe("program: \n2\n");
    expect((await folder.run({ env: { ...variables, CNI_COMMAND: "VERSION" } })).stdout).toBe("program: \n2\n");
    expect((await folder.run({ env: { ...variables, TORTIE_SOCK: `/${"x".repeat(200)}/s` } })).stdout).toBe("program: \n2\n");
    expect((await folder.run({ env: { ...variables, TORTIE_SOCK: "no-path" } })).stdout).toBe("program: \n2\n");
  });

  it.each([0, 1, MOST_CALL - 1, MOST_CALL + 1, 3 * MOST_CALL + 7])("gives the program a standard input of %i bytes whole", async (size) => {
    await using folder = await folderWith((socket) => socket.end(answerOf(421, "")));
    const stdin = Buffer.alloc(size, "0123456789abcdef\n");
    expect((await folder.run({ stdin })).stdout).toBe(`program: \n${size}\n`);
    expect(readFileSync(folder.seenFile).equals(stdin)).toBe(true);
  });

  it("becomes the program where the environment is longer than a call", async () => {
    await using folder = await folderWith((socket) => socket.end(answerOf(200, "")));
    const long = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`V${i}`, "x".repeat(100_000)]));
    expect((await folder.run({ env: { ...folder.variables, ...long } })).stdout).toBe("program: \n2\n");
    expect(folder.calls).toEqual([]);
  });

  it("waits for standard input that does not block", async () => {
    await using folder = await folderWith((socket, call) => socket.end(answerOf(200, String(decodeCall(call).stdin.length))));
    const around = [
      "/usr/bin/python3",
      "-c",
      "import os,sys,time\nr,w=os.pipe()\nos.set_blocking(r,False)\nif os.fork()==0:\n  os.close(r)\n  for _ in range(3): time.sleep(.05); os.write(w,b'abc')\n  os._exit(0)\nos.close(w)\nos.dup2(r,0)\nos.execv(sys.argv[1],sys.argv[1:])",
    ];
    expect(await folder.run({ around })).toEqual({ exit: 0, stdout: "9", stderr: "" });
  });

  it.each(["<&-", ">&-", "2>&-"])("loses nothing where a standard stream is closed (%s)", async (redirection) => {
    await using folder = await folderWith((socket) => socket.end(answerOf(200, "answer")));
    const run = await folder.run({ around: ["/bin/sh", "-c", `exec "$@" ${redirection}`, "sh"] });
    // A closed stream's number may be the connection's: the program deals with it, as ever.
    expect(folder.calls).toEqual([]);
    expect(run.stdout).not.toContain("answer");
  });

  it("prints on standard error where nobody reads its output", async () => {
    await using folder = await folderWith((socket) => setTimeout(() => socket.end(answerOf(200, "answer")), 100));
    const around = ["/bin/bash", "-c", `"$@" | true; exit "\${PIPESTATUS[0]}"`, "bash"];
    expect(await folder.run({ around })).toEqual({ exit: 1, stdout: "", stderr: expect.stringMatching(/^answer/) });
  });

  it("lets the program wait, on the same connection, for an agent that says nothing for two seconds", async () => {
    const program = `#!/usr/bin/python3
import os, socket, stat, sys
option = sys.argv[1]
assert option.startswith("--agent-call="), option
one = socket.socket(fileno=int(option.split("=")[1]))
one.setblocking(True)
answer = one.recv(100)
sandboxes = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
print(answer[20:].decode(), sys.stdin.read(), any(path.endswith("/sandbox") for path in sandboxes))
`;
    await using folder = new ForwarderFolder(FORWARDER, program);
    await folder.listen((socket) => setTimeout(() => socket.end(answerOf(200, "late answer")), 2_500));
    const sandbox = join(folder.dir, "sandbox");
    closeSync(openSync(sandbox, "w"));
    const run = await folder.run({ env: { ...folder.variables, CNI_NETNS: sandbox }, stdin: "{1}" });
    expect(run).toEqual({ exit: 0, stdout: "late answer {1} True\n", stderr: "" });
    expect(folder.calls).toHaveLength(1);
  });

  it("gives an answer that drips two seconds in all, then becomes the program", async () => {
    const whole = answerOf(200, "x".repeat(100));
    const dripping = new Set<NodeJS.Timeout>();
    await using folder = await folderWith((socket) => {
      let at = 0;
      const timer = setInterval(() => socket.write(whole.subarray(at, ++at)), 500);
      dripping.add(timer);
      socket.on("close", () => clearInterval(timer));
    });
    const began = performance.now();
    const { stdout } = await folder.run();
    expect({ stdout, isLate: performance.now() - began > 20_000 }).toEqual({ stdout: expect.stringContaining("program: "), isLate: false });
    for (const timer of dripping) clearInterval(timer);
  });

  it("leaves a deleted working directory, where its program would not start, and no other one", async () => {
    const deleted = join(tmpdir(), `tortie-deleted-${process.pid}`);
    const run = async (directory: string, command: string) => {
      const script = `mkdir -p ${directory} && cd ${directory} && ${command} && exec "$@"`;
      await using folder = new ForwarderFolder(FORWARDER, '#!/bin/sh\necho "in $(readlink /proc/self/cwd)"\n');
      return (await folder.run({ around: ["/bin/sh", "-c", script, "sh"] })).stdout;
    };
    expect(await run(deleted, `rmdir ${deleted}`)).toBe("in /\n");
    expect(await run(deleted, "true")).toBe(`in ${deleted}\n`);
    const script = `cd ${deleted} && rmdir ${deleted} && exec ${FORWARDER}`;
    const real = spawnSync("/bin/sh", ["-c", script], {
      env: { CNI_COMMAND: "VERSION" },
      input: '{"cniVersion":"1.0.0"}',
      encoding: "utf8",
    });
    expect({ exit: real.status, stderr: real.stderr, stdout: real.stdout }).toEqual({
      exit: 0,
      stderr: "",
      stdout: expect.stringContaining("supportedVersions"),
    });
  });

  it("finds its program after it was replaced itself", async () => {
    await using folder = await folderWith((socket) => {
      renameSync(join(folder.dir, "next"), folder.file);
      socket.end(answerOf(421, ""));
    });
    writeFileSync(join(folder.dir, "next"), "", { mode: 0o755 });
    expect((await folder.run()).stdout).toBe("program: \n2\n");
  });

  it("fails as a plugin does where its program is not there", async () => {
    await using folder = new ForwarderFolder(FORWARDER);
    renameSync(`${folder.file}-main`, join(folder.dir, "elsewhere"));
    const { exit, stdout } = await folder.run();
    expect([exit, JSON.parse(stdout)]).toEqual([
      1,
      {
        code: 999,
        msg: `${folder.file}-main: execve: No such file or directory`,
        details: `program-missing: ${entryOf("program-missing").next}`,
      },
    ]);
  });

  it("makes no system call but those of its page, and at most 25", async () => {
    await using folder = await folderWith((socket) => socket.end(answerOf(200, "{}")));
    await Bun.$`ln ${folder.file}-main ${folder.dir}/tortie-ipam && ln ${folder.file}-main ${folder.dir}/calico-ipam`;
    const trace = join(folder.dir, "trace");
    const around = ["/usr/bin/strace", "-f", "-o", trace];
    expect((await folder.run({ env: { ...folder.variables, CNI_NETNS: "/proc/self/ns/net" }, around })).exit).toBe(0);
    const made = readFileSync(trace, "utf8")
      .split("\n")
      .flatMap((line) => /^\d+ +(\w+)\(/.exec(line)?.[1] ?? []);
    expect(made.length).toBeLessThanOrEqual(25);
    const page = readFileSync("docs/project/forwarder.md", "utf8");
    const listed = new Set([...page.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name));
    expect(made.filter((name) => !listed.has(name))).toEqual([]);
  });
});
