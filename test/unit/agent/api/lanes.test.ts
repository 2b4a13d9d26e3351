import { errorAnswer } from "../../../../agent/api/error-answer.ts";
import { type CallService, LanedAttachments, READS, Reads, RUNNING, WAITING } from "../../../../agent/api/lanes.ts";
import type { Answer } from "../../../../agent/attachments/call.ts";
import { type CallCommand, type PreparedCall, prepareCall } from "../../../../handover/call.ts";
import { NEVER } from "../../../../lib/system/waiting.ts";
import { fresh } from "../../../support/fixtures.ts";

function callOf(command: CallCommand): PreparedCall {
  const env = { CNI_COMMAND: command, CNI_CONTAINERID: "c1", CNI_IFNAME: "eth0", CNI_NETNS: "/run/netns/a", CNI_PATH: "/a" };
  const call = prepareCall(env, () => Buffer.from('{"name": "net1"}'));
  if (call === undefined) throw new Error("the call is sound");
  return call;
}

const CONTEXT = { peer: { pid: 1, uid: 0, gid: 0, groups: [] }, signal: NEVER };

/** Answers when told to; `known` says which attachments there are. */
class Held implements CallService {
  readonly begun: string[] = [];
  readonly #open = Promise.withResolvers<Answer>();
  known = true;

  async serve({ command }: PreparedCall): Promise<Answer> {
    this.begun.push(command);
    return this.#open.promise;
  }

  isKnown(): boolean {
    return this.known;
  }

  release(): void {
    this.#open.resolve({ status: 200, body: "" });
  }
}

describe("The lanes of calls", () => {
  const service = fresh(() => new Held());
  const lanes = fresh(() => new LanedAttachments(service));

  it("A-P10: with 4200 ADDs queued the next ones get 503, Retry-After and CNI code 11, and DELs are served meanwhile", async () => {
    const adds = Array.from({ length: 4200 }, () =>
      lanes.serve(callOf("ADD"), CONTEXT).then(
        () => "served",
        (error: unknown) => error,
      ),
    );
    const next = await lanes.serve(callOf("ADD"), CONTEXT).catch((error: unknown) => error);

    expect(next).toMatchObject({ word: "agent-busy", code: 11 });
    expect(errorAnswer(next)).toMatchObject({
      status: 503,
      headers: { "Retry-After": "1" },
      body: { code: 11, word: "agent-busy", "retry-after-ms": expect.any(Number) },
    });
    expect(service.begun).toHaveLength(RUNNING);
    const del = lanes.serve(callOf("DEL"), CONTEXT);
    expect(service.begun.at(-1)).toBe("DEL");

    service.release();
    expect(await del).toEqual({ status: 200, body: "" });
    const outcomes = await Promise.all(adds);
    expect(outcomes.filter((outcome) => outcome === "served")).toHaveLength(RUNNING + WAITING);
  });

  it("serve a DEL of an attachment that nobody knows at once, however many wait", async () => {
    const known = Array.from({ length: RUNNING + 5 }, () => lanes.serve(callOf("DEL"), CONTEXT));
    service.known = false;
    const unknown = lanes.serve(callOf("DEL"), CONTEXT);
    expect(service.begun).toHaveLength(RUNNING + 1);
    service.release();
    await Promise.all([...known, unknown]);
  });

  it("are three: neither ADDs, DELs nor other calls wait for each other, however many there are", async () => {
    const verbs = ["ADD", "DEL", "CHECK"] as const;
    const calls = verbs.flatMap((verb) => Array.from({ length: RUNNING + 1 }, () => lanes.serve(callOf(verb), CONTEXT)));
    for (const verb of verbs) expect(service.begun.filter((begun) => begun === verb)).toHaveLength(RUNNING);
    service.release();
    await Promise.all(calls);
    expect(service.begun).toHaveLength(3 * (RUNNING + 1));
  });

  it("let 64 reads be under way at once, and tell more to come again", async () => {
    const reads = new Reads();
    const open = Promise.withResolvers<string>();
    const running = Array.from({ length: READS }, () => reads.run(() => open.promise));
    const refused = await reads.run(async () => "").catch((error: unknown) => error);
    expect(errorAnswer(refused)).toMatchObject({ status: 429, headers: { "Retry-After": "1" }, body: { word: "reads-limited" } });
    open.resolve("read");
    expect(new Set(await Promise.all(running))).toEqual(new Set(["read"]));
    expect(await reads.run(async () => "again")).toBe("again");
  });

  it("S16: begins one read a turn of the event loop, so that a call of a plugin comes between two of them", async () => {
    const reads = new Reads();
    const order: string[] = [];
    const all = Array.from({ length: 3 }, (_, index) => reads.run(async () => void order.push(`read ${index}`)));
    const plugin = new Promise<void>((done) => setImmediate(() => done(void order.push("call"))));
    await Promise.all([...all, plugin]);
    expect(order.indexOf("call")).toBeLessThan(order.indexOf("read 1"));
    expect(order).toHaveLength(4);
  });
});
