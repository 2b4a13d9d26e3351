/** The fork in the road against a scripted server: for what a real agent does not do on request (A§3.10, A§11.3). */
import { statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { type CallFrame, FLAGS, FRAME_VERSION } from "../../../../handover/call-frame.ts";
import { callLength, decodeCall, encodeAnswer } from "../../../../handover/decode-frame.ts";
import { readBootId } from "../../../../handover/run-directory.ts";
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

/** Leaves what an agent of this boot has written. */
function wasThere(phase: string): void {
  writeFileSync(join(directory.path, "agent.json"), JSON.stringify({ bootId: readBootId(), version: "1", ipam: "blocks", phase }));
}

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async function call(
  command: string,
  keys: Readonly<Record<string, unknown>> = {},
  text?: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Way> {
  const conf = {
    name: "net1",
    cniVersion: "1.1.0",
    agent: "require",
    agent_socket: join(directory.path, "tortie.sock"),
    log_level: "error",
    ...keys,
  };
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

  it("fails, or is queued, when an agent answers in a version that is not known", async () => {
    await serve((socket) => {
      const newer = Buffer.from(encodeAnswer({ status: 200, body: "{}" }));
      newer.writeUInt16LE(FRAME_VERSION + 1, 4);
      socket.end(newer);
    });
    expect(printed(await call("ADD"))).toEqual({
      exit: 1,
      output: expect.stringMatching(/the agent answered with status 421(.|\n)*agent-unreachable/),
    });
    expect(printed(await call("DEL"))).toBe("unplug");
  });

  it("is sent again when the connection is lost, at most three times", async () => {
    await serve(cut, hangUp, say("HTTP/1.1 200 OK\r\n\r\n{}"), answer(200, "{}"));
    expect(printed(await call("ADD"))).toEqual({ exit: 0, output: "{}" });
    expect(requests).toHaveLength(4);
  });

  it("fails with an agent that loses every connection", async () => {
    await serve(hangUp);
    expect(printed(await call("ADD"))).toEqual({ exit: 1, output: expect.stringContaining("agent-unreachable") });
    expect(requests).toHaveLength(4);
  });

  it("waits as long as a busy agent says, and is asked again", async () => {
    await serve(answer(503, '{"code": 11, "retry-after-ms": 1}'), answer(503, "{}"), answer(200, "{}"));
    expect(printed(await call("ADD"))).toEqual({ exit: 0, output: "{}" });
    expect(requests).toHaveLength(3);
  });

  it("prints what an agent says that stays busy, but queues a DEL", async () => {
    await serve(answer(503, '{"code": 11, "retry-after-ms": 1}'));
    expect(printed(await call("ADD", { agent_wait_seconds: 0 }))).toEqual({ exit: 1, output: '{"code": 11, "retry-after-ms": 1}' });
    expect(printed(await call("DEL"))).toBe("unplug");
    expect(printed(await call("STATUS"))).toEqual({ exit: 0, output: "" });
  });

  it("fails with agent-timeout when no answer comes in time", async () => {
    await serve(silent);
    expect(printed(await call("ADD", { agent_timeout_seconds: 2 }))).toEqual({ exit: 1, output: expect.stringContaining("agent-timeout") });
  });

  it("prints any other refusal, STATUS too", async () => {
    await serve(answer(400, '{"word":"call-invalid"}'), answer(500, '{"code": 50}'));
    expect(printed(await call("ADD"))).toMatchObject({ exit: 1 });
    expect(printed(await call("STATUS"))).toEqual({ exit: 1, output: '{"code": 50}' });
  });
});

describe("a call without an agent", () => {
  it.each([
    ["without the key", { agent: undefined }],
    ["with agent: off", { agent: "off" }],
  ])("is the plugin's own in a list %s, whatever is there", async (_, keys) => {
    wasThere("ready");
    await serve(answer(200, "{}"));
    for (const command of ["ADD", "DEL", "CHECK", "GC", "STATUS"]) expect(printed(await call(command, keys))).toBe("here");
    expect(requests).toHaveLength(0);
  });

  it.each(["stopped", "ready", ""])(
    "unplugs a DEL at once, lets STATUS succeed, and fails the others with code 11 (phase %j)",
    async (phase) => {
      if (phase !== "") wasThere(phase);
      const keys = { agent_wait_seconds: 1 };
      const begun = performance.now();
      expect(printed(await call("DEL", keys))).toBe("unplug");
      expect(printed(await call("STATUS", keys))).toEqual({ exit: 0, output: "" });
      const known = phase === "" ? "none was started since this machine booted" : `its last phase is .*${phase}`;
      const refusal = {
        exit: 1,
        output: expect.stringMatching(new RegExp(`"code": 11(.|\\n)*${known}(.|\\n)*agent-unreachable: .*DaemonSet.*systemctl`)),
      };
      expect(printed(await call("GC", keys))).toEqual(refusal);
      expect(performance.now() - begun).toBeLessThan(1000);
      for (const command of ["ADD", "CHECK"]) expect(printed(await call(command, keys))).toEqual(refusal);
      expect(performance.now() - begun).toBeGreaterThan(2000);
    },
  );

  it("is told by a file of another boot that there was none", async () => {
    writeFileSync(join(directory.path, "agent.json"), JSON.stringify({ bootId: "another", phase: "ready", ipam: "blocks" }));
    expect(printed(await call("ADD", { agent_wait_seconds: 0 }))).toMatchObject({ output: expect.stringContaining("none was started") });
  });

  it.each(["ADD", "CHECK"])("is heard of when its socket appears while %s waits", async (command) => {
    const waiting = call(command);
    await serve(answer(200, "{}"));
    expect(printed(await waiting)).toEqual({ exit: 0, output: "{}" });
  });

  it("leaves a sandbox that is not there to the agent to judge", async () => {
    await serve(answer(200, "{}"));
    for (const command of ["ADD", "DEL"]) await call(command, {}, undefined, { CNI_NETNS: "/nowhere" });
    expect(requests.map(({ sandbox }) => sandbox)).toEqual([undefined, undefined]);
  });
});

describe("what the plugin says itself, without asking", () => {
  it.each<[string, Record<string, unknown>, string | undefined]>([
    ["ADD", { agent: "always" }, undefined],
    ["ADD", { agent: "auto" }, undefined],
    ["STATUS", { agent_wait_seconds: 201 }, undefined],
    ["DEL", { agent: 1 }, undefined],
    ["DEL", {}, "{"],
    ["DEL", {}, "[]"],
    ["ADD", { agent_timeout_seconds: "9" }, undefined],
    ["NONSENSE", {}, undefined],
  ])("%s with %j %s", async (command, keys, text) => {
    await serve(answer(200, "{}"));
    expect(printed(await call(command, keys, text))).toBe("here");
    expect(requests).toHaveLength(0);
  });

  it("refuses an ADD that is too long for the agent, and queues its DEL", async () => {
    await serve(answer(200, "{}"));
    const keys = { agent_wait_seconds: 0 };
    for (const long of [{ keys: { ...keys, filler: "x".repeat(1 << 20) } }, { keys, env: { LONG: "x".repeat(1 << 20) } }]) {
      expect(printed(await call("ADD", long.keys, undefined, long.env))).toMatchObject({
        output: expect.stringContaining("more than 1 MiB"),
      });
      expect(printed(await call("DEL", long.keys, undefined, long.env))).toBe("unplug");
    }
    expect(requests).toHaveLength(0);
  });

  it("goes by the defaults where only ADD would refuse the value", async () => {
    await serve(answer(200, ""));
    expect(printed(await call("DEL", { agent_wait_seconds: 999 }))).toEqual({ exit: 0, output: "" });
  });
});
