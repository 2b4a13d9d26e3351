/** The call socket over a real connection, with a service behind it that does what a test wants (A§11.3). */

import { statSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { type Served, serveCalls } from "../../../../agent/api/calls.ts";
import type { CallContext } from "../../../../agent/attachments/attachment-service.ts";
import type { Answer } from "../../../../agent/attachments/call.ts";
import type { PreparedCall } from "../../../../handover/call.ts";
import { decodeAnswer, encodeCall, FLAGS } from "../../../../handover/call-frame.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const DONE: Answer = { status: 200, body: "done", endpoint: 7, warnings: 2 };
const STDIN = '{"name": "net1", "cniVersion": "1.1.0", "agent": "require"}';

const directory = fresh(() => new TemporaryDirectory());
let server: Served | undefined;
let answered: string[];

beforeEach(() => {
  answered = [];
});
afterEach(() => server?.stop(0));

async function serve(work: (context: CallContext, call: PreparedCall) => Promise<Answer> = async () => DONE): Promise<void> {
  server = await serveCalls({
    socket: join(directory.path, "cni.sock"),
    directory: directory.path,
    service: { isKnown: () => false, serve: (call, context) => work(context, call) },
    onError: () => undefined,
    onAnswer: (command, status) => answered.push(`${command} ${status}`),
  });
}

interface Sent {
  readonly flags?: number;
  readonly deadlineMs?: number;
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
}

function message({ flags = FLAGS.isJudged, deadlineMs = 0, stdin = STDIN, env = {} }: Sent = {}): Uint8Array {
  const cni = { CNI_COMMAND: "DEL", CNI_CONTAINERID: "c1", CNI_IFNAME: "eth0", CNI_PATH: "/a" };
  const bytes = encodeCall({ flags, plugin: "0", deadlineMs, env: { ...cni, ...env }, stdin: Buffer.from(stdin) });
  if (bytes === undefined) throw new Error("too long");
  return bytes;
}

function open(): Socket {
  return connect(join(directory.path, "cni.sock")).on("error", () => undefined);
}

/** @returns status and output, as soon as they are there; "closed" for a connection that ends before */
function ask(bytes: Uint8Array): Promise<string> {
  return new Promise((done) => {
    const socket = open();
    let received = Buffer.alloc(0);
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      const answer = decodeAnswer(received);
      if (answer === undefined || answer === "foreign") return;
      done(`${answer.status} ${new TextDecoder().decode(answer.body)}`);
      socket.destroy();
    });
    socket.on("close", () => done("closed"));
    socket.write(bytes);
  });
}

describe("The call socket", () => {
  it("is root's alone, and gone when it has stopped", async () => {
    await serve();
    const { mode, uid } = statSync(join(directory.path, "cni.sock"));
    expect([mode & 0o777, uid]).toEqual([0o600, 0]);
    await server?.stop(0);
    expect(() => statSync(join(directory.path, "cni.sock"))).toThrow("ENOENT");
  });

  it("hands a call over as it came, and answers with its output", async () => {
    let seen: unknown;
    await serve(async ({ traceparent, peer }, { attachment, text, ownIpam, env }) => {
      seen = { traceparent, pid: peer.pid, attachment, text, ownIpam, env };
      return DONE;
    });
    expect(await ask(message({ flags: FLAGS.isJudged | FLAGS.ownIpam, env: { TRACEPARENT: "00-x", OTHER: "ü" } }))).toBe("200 done");
    expect(seen).toEqual({
      traceparent: "00-x",
      pid: process.pid,
      attachment: { network: "net1", containerId: "c1", ifname: "eth0" },
      text: STDIN,
      ownIpam: true,
      env: expect.objectContaining({ TRACEPARENT: "00-x", OTHER: "ü" }),
    });
    expect(answered).toEqual(["DEL 200"]);
  });

  it.each<[string, Sent]>([
    ["no agent", { stdin: '{"name": "net1"}' }],
    ["agent: off", { stdin: '{"name": "net1", "agent": "off"}' }],
    ["another agent's socket", { stdin: '{"name": "net1", "agent": "require", "agent_socket": "/elsewhere/tortie.sock"}' }],
    ["an IPAM plugin of another's", { stdin: '{"name": "net1", "agent": "require", "ipam": {"type": "host-local"}}' }],
    ["an unknown operation", { env: { CNI_COMMAND: "MAKE" } }],
    ["VERSION", { env: { CNI_COMMAND: "VERSION" } }],
    ["a missing variable", { env: { CNI_IFNAME: "" } }],
    ["a variable of the runtime", { env: { BUN_OPTIONS: "--x" } }],
    ["input that is no JSON", { stdin: "{" }],
    ["a sandbox that was not opened", { env: { CNI_COMMAND: "ADD", CNI_NETNS: "/nowhere" } }],
  ])("hands back to a caller that has not judged it: %s", async (_, sent) => {
    await serve();
    const env = { TORTIE_SOCK: join(directory.path, "tortie.sock"), ...sent.env };
    expect(await ask(message({ flags: 0, ...sent, env }))).toBe("421 ");
    expect(answered).toEqual([]);
  });

  it("serves a caller that has not judged it, by the facts that it says", async () => {
    const own: unknown[] = [];
    await serve(async (_, { ownIpam }) => {
      own.push(ownIpam);
      return DONE;
    });
    const env = { TORTIE_SOCK: join(directory.path, "tortie.sock") };
    for (const type of ["tortie-ipam", "calico-ipam", "tortie-host-scope"]) {
      const stdin = JSON.stringify({ name: "net1", agent: "require", ipam: { type } });
      for (const flags of [FLAGS.ownTortieIpam, FLAGS.ownCalicoIpam, FLAGS.ownIpam]) {
        expect(await ask(message({ flags, env, stdin }))).toBe("200 done");
      }
    }
    expect(own).toEqual([true, undefined, undefined, undefined, true, undefined, undefined, undefined, undefined]);
  });

  it.each<[string, (whole: Buffer) => Buffer]>([
    ["another version", (whole) => Buffer.concat([whole.subarray(0, 4), Buffer.of(9, 0)])],
    ["another magic", () => Buffer.from("POST /v1/cni/add HTTP/1.1\r\n")],
    ["a length of 4 GiB", (whole) => Buffer.concat([whole.subarray(0, 20), Buffer.of(255, 255, 255, 255), whole.subarray(24)])],
    ["something behind it", (whole) => Buffer.concat([whole, Buffer.from("x")])],
  ])("hands back %s, and goes on", async (_, change) => {
    await serve();
    expect(await ask(change(Buffer.from(message())))).toMatch(/^421 /);
    expect(await ask(message())).toBe("200 done");
  });

  it("S6: closes a connection whose call does not come", async () => {
    await serve();
    const whole = message();
    expect(await Promise.all([ask(new Uint8Array()), ask(whole.subarray(0, 20)), ask(whole.subarray(0, -1))])).toEqual(
      Array(3).fill("closed"),
    );
    expect(answered).toEqual([]);
  }, 30_000);

  it("aborts the call of a caller that is gone", async () => {
    const { promise: aborted, resolve } = Promise.withResolvers<unknown>();
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    await serve(({ signal }) => {
      begin();
      return new Promise((done) => {
        signal.addEventListener("abort", () => {
          resolve(signal.reason);
          done(DONE);
        });
      });
    });
    const socket = open();
    socket.write(message());
    await begun;
    socket.destroy();
    expect(await aborted).toMatchObject({ word: "caller-gone" });
  });

  it("waits for running calls when it stops, then aborts them and sends their answers", async () => {
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    await serve(({ signal }) => {
      begin();
      return new Promise((_, failed) => signal.addEventListener("abort", () => failed(signal.reason)));
    });
    const answer = ask(message());
    await begun;
    await server?.stop(50);
    expect(await answer).toMatch(/^503 .*agent-stopping.*retry-after-ms/);
    expect(answered).toEqual(["DEL 503"]);
  });

  it.each([1000, 2000])("seven:7: leaves time to work, and ends before the caller's %i ms", async (deadlineMs) => {
    const aborted: boolean[] = [];
    await serve(async ({ signal }) => {
      await Bun.sleep(20);
      aborted.push(signal.aborted);
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return DONE;
    });
    const late = Bun.sleep(deadlineMs).then(() => "late");
    expect(await Promise.race([ask(message({ deadlineMs })), late])).toBe("200 done");
    expect(aborted).toEqual([false]);
  });
});
