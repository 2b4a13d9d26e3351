/** The fork in the road against a scripted server: for what a real agent does not do on request (A§3.10, A§11.3). */
import { existsSync, readFileSync, statSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { type CallFrame, FLAGS, FRAME_VERSION } from "../../../../handover/call-frame.ts";
import { callLength, decodeCall, encodeAnswer } from "../../../../handover/decode-frame.ts";
import { readBootId } from "../../../../handover/run-directory.ts";
import { tryLockFile } from "../../../../lib/system/flock.ts";
import { forward, type Way } from "../../../../main-plugin/to-agent/fork.ts";
import { ending, fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

/** What the server does with one connection, once the whole request is there. */
type Step = (socket: Socket) => void;

const directory = fresh(() => new TemporaryDirectory());
let requests: CallFrame[];

beforeEach(() => {
  requests = [];
});

const answer =
  (status: number, body: string): Step =>
  (socket) =>
    socket.end(encodeAnswer({ status, body }));
const cut: Step = (socket) => socket.end(encodeAnswer({ status: 200, body: '{"a": 1}' }).subarray(0, -1));
const hangUp: Step = (socket) => socket.destroy();
const say =
  (text: string): Step =>
  (socket) =>
    socket.end(text);
/** Each byte by itself. */
const drip =
  (body: string): Step =>
  (socket) => {
    const bytes = encodeAnswer({ status: 200, body });
    const next = (at: number): void => void (at < bytes.length && socket.write(bytes.subarray(at, at + 1), () => next(at + 1)));
    next(0);
  };
const silent: Step = () => {};

/** The n-th connection gets the n-th step, and every later one the last. */
async function serve(...steps: readonly Step[]): Promise<void> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on("error", () => {});
    let received = Buffer.alloc(0);
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (callLength(received) !== received.length) return;
      requests.push(decodeCall(received));
      (steps[requests.length - 1] ?? steps.at(-1) ?? silent)(socket);
    });
  });
  await new Promise<void>((done) => server.listen(join(directory.path, "cni.sock"), done));
  ending({
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      await new Promise((done) => server.close(done));
    },
  });
}

function wasThere({ ipam = "blocks", phase = "ready", ageSeconds = 0 } = {}): void {
  const path = join(directory.path, "agent.json");
  writeFileSync(path, JSON.stringify({ bootId: readBootId(), version: "1", ipam, phase }));
  const written = Date.now() / 1000 - ageSeconds;
  utimesSync(path, written, written);
}

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async function call(
  command: string,
  keys: Readonly<Record<string, unknown>> = {},
  text?: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Way> {
  const conf = { name: "net1", cniVersion: "1.1.0", agent_socket: join(directory.path, "tortie.sock"), log_level: "error", ...keys };
  const stdin = new TextEncoder().encode(text ?? JSON.stringify(conf));
  const cni = { CNI_COMMAND: command, CNI_CONTAINERID: "c1", CNI_IFNAME: "eth0", CNI_NETNS: "/proc/self/ns/net", CNI_PATH: "/a:/b" };
  return forward({ ...cni, CALICO_KUBECONFIG: "/k", TRACEPARENT, ...env }, "1.2.3", () => stdin);
}

const printed = (way: Way) => (way.kind === "answered" ? { exit: way.exit, output: new TextDecoder().decode(way.output) } : way.kind);

describe("a call to the agent", () => {
  it("is one call as the contract has it, and its answer is printed as it is", async () => {
    await serve(answer(200, '{"é": 1}'));
    expect(printed(await call("ADD"))).toEqual({ exit: 0, output: '{"é": 1}' });
    const [{ stdin, ...frame }] = requests as [CallFrame];
    expect(frame).toEqual({
      flags: FLAGS.isJudged,
      plugin: "1.2.3",
      deadlineMs: 90_000,
      sandbox: { dev: expect.any(BigInt), ino: statSync("/proc/self/ns/net", { bigint: true }).ino, fd: expect.any(Number) },
      env: {
        CNI_COMMAND: "ADD",
        CNI_CONTAINERID: "c1",
        CNI_IFNAME: "eth0",
        CNI_NETNS: "/proc/self/ns/net",
        CNI_PATH: "/a:/b",
        CALICO_KUBECONFIG: "/k",
        TRACEPARENT,
      },
    });
    expect(JSON.parse(new TextDecoder().decode(stdin))).toMatchObject({ name: "net1" });
  });

  it("says that the IPAM plugin is the caller's own file, and of no other", async () => {
    await serve(answer(200, ""));
    for (const name of ["tortie-ipam", "other"]) symlinkSync(name === "other" ? "/bin/true" : process.execPath, join(directory.path, name));
    const own: unknown[] = [];
    for (const type of ["tortie-ipam", "other", "missing", ""]) {
      await call("DEL", { ipam: { type } }, undefined, { CNI_PATH: `/a:${directory.path}` });
      own.push(((requests.at(-1)?.flags ?? 0) & FLAGS.ownIpam) !== 0);
    }
    expect(own).toEqual([true, false, false, false]);
  });

  it("prints an error of the agent and fails", async () => {
    await serve(answer(500, '{"code": 999}'));
    expect(printed(await call("DEL"))).toEqual({ exit: 1, output: '{"code": 999}' });
  });

  it("reads an answer that comes byte by byte", async () => {
    await serve(drip("é0123456789"));
    expect(printed(await call("ADD"))).toEqual({ exit: 0, output: "é0123456789" });
  });

  it("is served by the plugin when a newer agent answers in a version of its own", async () => {
    wasThere();
    await serve((socket) => {
      const newer = Buffer.from(encodeAnswer({ status: 200, body: "{}" }));
      newer.writeUInt16LE(FRAME_VERSION + 1, 4);
      socket.end(newer);
    });
    expect(printed(await call("ADD"))).toBe("agent-away");
  });

  it("is sent again when the connection is lost, at most three times", async () => {
    await serve(cut, hangUp, say("HTTP/1.1 200 OK\r\n\r\n{}"), answer(200, "{}"));
    expect(printed(await call("ADD"))).toEqual({ exit: 0, output: "{}" });
    expect(requests).toHaveLength(4);
  });

  it("is served beside an agent that loses every connection", async () => {
    wasThere();
    await serve(hangUp);
    expect(printed(await call("ADD"))).toBe("agent-away");
    expect(requests).toHaveLength(4);
  });

  it("waits as long as a busy agent says, and is asked again", async () => {
    wasThere();
    await serve(answer(503, '{"code": 11, "retry-after-ms": 1}'), answer(503, "{}"), answer(200, "{}"));
    expect(printed(await call("ADD"))).toEqual({ exit: 0, output: "{}" });
    expect(requests).toHaveLength(3);
  });

  it("prints what a busy agent says where it is required and stays busy", async () => {
    wasThere();
    await serve(answer(503, '{"code": 11, "retry-after-ms": 1}'));
    expect(printed(await call("ADD", { agent: "require", agent_wait_seconds: 0 }))).toEqual({
      exit: 1,
      output: '{"code": 11, "retry-after-ms": 1}',
    });
  });

  it("fails with agent-timeout when no answer comes in time", async () => {
    await serve(silent);
    expect(printed(await call("ADD", { agent_timeout_seconds: 2 }))).toEqual({ exit: 1, output: expect.stringContaining("agent-timeout") });
  });

  it("is served by the plugin when the agent says so", async () => {
    wasThere();
    await serve(answer(421, '{"word":"delegate-elsewhere"}'));
    for (const command of ["ADD", "DEL", "CHECK", "GC"]) expect(printed(await call(command))).toBe("agent-away");
  });

  it("prints any other refusal, and whatever STATUS says", async () => {
    await serve(answer(400, '{"word":"call-invalid"}'), answer(503, '{"code": 50}'));
    expect(printed(await call("ADD"))).toMatchObject({ exit: 1 });
    expect(printed(await call("STATUS"))).toEqual({ exit: 1, output: '{"code": 50}' });
  });
});

describe("a call without an agent", () => {
  it.each([
    ["an agent that was never there", {}],
    ["agent: off", { agent: "off" }],
  ])("is the plugin's own: %s", async (_, keys) => {
    for (const command of ["ADD", "DEL", "CHECK", "GC", "STATUS"]) expect(printed(await call(command, keys))).toBe("no-agent");
  });

  it("is served beside an agent that was there, and a DEL is queued", async () => {
    wasThere();
    const keys = { agent_wait_seconds: 0 };
    for (const command of ["ADD", "CHECK", "GC", "STATUS"]) expect(printed(await call(command, keys))).toBe("agent-away");
    expect(printed(await call("DEL", keys))).toBe("agent-away-del");
    expect(printed(await call("DEL", { agent: "off" }))).toBe("agent-away");
  });

  it("W5: waits for no agent that was stopped, unless it requires the agent", async () => {
    const log = join(directory.path, "log");
    const keys = { agent_wait_seconds: 1, log_level: "info", log_file_path: log };
    const waited = () => existsSync(log) && readFileSync(log, "utf8").includes("waiting up to");
    for (const ipam of ["blocks", "host-scope"]) {
      wasThere({ phase: "stopped", ipam });
      for (const command of ["ADD", "CHECK", "GC", "STATUS"]) expect(printed(await call(command, keys))).toBe("agent-away");
      const del = ipam === "blocks" ? "agent-away" : "agent-away-del";
      for (const agent of ["auto", "require"]) expect(printed(await call("DEL", { ...keys, agent }))).toBe(del);
    }
    expect(waited()).toBe(false);

    expect(printed(await call("ADD", { ...keys, agent: "require" }))).toMatchObject({ exit: 1 });
    expect(waited()).toBe(true);
  });

  it("W5: waits for the next agent, which has the lock already", async () => {
    wasThere({ phase: "stopped" });
    using _ = tryLockFile(join(directory.path, "agent.lock"));
    const adding = call("ADD");
    await serve(answer(200, "{}"));
    expect(printed(await adding)).toEqual({ exit: 0, output: "{}" });
  });

  it("G11: queues no DEL for an agent that was stopped and not replaced, unless the addresses are the agent's own", async () => {
    wasThere({ phase: "stopped" });
    for (const agent of ["auto", "require"]) expect(await call("DEL", { agent })).toMatchObject({ kind: "agent-away", isLeft: true });
    wasThere({ phase: "stopped", ipam: "host-scope" });
    expect(printed(await call("DEL"))).toBe("agent-away-del");
    wasThere();
    expect(await call("CHECK")).toMatchObject({ kind: "agent-away", isLeft: false });
  });

  it("G11: queues no DEL for an agent that has been away for minutes", async () => {
    const keys = { agent_wait_seconds: 0 };
    wasThere({ ageSeconds: 290 });
    expect(printed(await call("DEL", keys))).toBe("agent-away-del");
    wasThere({ ageSeconds: 310 });
    expect(printed(await call("DEL", keys))).toBe("agent-away");
    using _ = tryLockFile(join(directory.path, "agent.lock"));
    expect(printed(await call("DEL", keys))).toBe("agent-away-del");
  });

  it("is told by a file of another boot that there is none", async () => {
    writeFileSync(join(directory.path, "agent.json"), JSON.stringify({ bootId: "another", phase: "ready", ipam: "blocks" }));
    for (const command of ["ADD", "DEL"]) expect(printed(await call(command))).toBe("no-agent");
  });

  it("fails an ADD that requires it with code 11, STATUS with code 50, and nothing else", async () => {
    const keys = { agent: "require", agent_wait_seconds: 0 };
    const text = async (command: string) => JSON.stringify(printed(await call(command, keys)));
    expect(await text("ADD")).toMatch(/code\\": 11.*agent-unreachable/);
    expect(await text("STATUS")).toMatch(/code\\": 50.*agent-unreachable/);
    for (const command of ["DEL", "CHECK", "GC"]) expect(printed(await call(command, keys))).toBe("no-agent");
  });

  it("is heard of when its socket appears", async () => {
    const adding = call("ADD", { agent: "require" });
    await serve(answer(200, "{}"));
    expect(printed(await adding)).toEqual({ exit: 0, output: "{}" });
  });
});

describe("what the plugin says itself, without asking", () => {
  it.each<[string, Record<string, unknown>, string | undefined]>([
    ["ADD", { agent: "always" }, undefined],
    ["STATUS", { agent_wait_seconds: 201 }, undefined],
    ["DEL", { agent: 1 }, undefined],
    ["DEL", {}, "{"],
    ["DEL", {}, "[]"],
    ["ADD", { agent_timeout_seconds: "9" }, undefined],
    ["NONSENSE", {}, undefined],
  ])("%s with %j %s", async (command, keys, text) => {
    await serve(answer(200, "{}"));
    expect(printed(await call(command, keys, text))).toBe("no-agent");
    expect(requests).toHaveLength(0);
  });

  it("a configuration that is too long for the agent", async () => {
    await serve(answer(200, "{}"));
    expect(printed(await call("ADD", { filler: "x".repeat(1 << 20) }))).toBe("no-agent");
    expect(printed(await call("ADD", {}, undefined, { LONG: "x".repeat(1 << 20) }))).toBe("no-agent");
    expect(requests).toHaveLength(0);
  });

  it("goes by the defaults where only ADD would refuse the value", async () => {
    await serve(answer(200, ""));
    expect(printed(await call("DEL", { AGENT: "always", agent_wait_seconds: 999 }))).toEqual({ exit: 0, output: "" });
  });
});
