import { mkdirSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DeleteQueue, type DeleteQueueParts } from "../../../../agent/attachments/delete-queue.ts";
import type { CniCall } from "../../../../handover/call.ts";
import { decodeCall } from "../../../../handover/call-body.ts";
import { DeleteQueueFiles } from "../../../../handover/delete-queue-files.ts";
import { readBootId } from "../../../../handover/run-directory.ts";
import { fileKey } from "../../../../lib/cni/attachment-id.ts";
import type { Clock } from "../../../../lib/system/waiting.ts";
import { recordOf } from "../../../support/endpoint-record.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";
import { until } from "../../../support/kubernetes/until.ts";

const parent = fresh(() => new TemporaryDirectory());
const directory = fresh(() => ({ path: join(parent.path, "deletequeue") }));

const body = (containerId: string, args = "") => ({
  protocol: 1,
  plugin: "t",
  containerId,
  ifname: "eth0",
  args,
  stdin: '{"name":"net1"}',
});
const callOf = (containerId: string, args?: string) => decodeCall(body(containerId, args), "DEL");
const keyOf = (containerId: string) => fileKey({ network: "net1", containerId, ifname: "eth0" });
const attachment = (containerId: string) => ({ network: "net1", containerId, ifname: "eth0" });

class ManualClock implements Clock {
  time = 1_000;
  now = () => this.time;
  date = () => new Date(this.time);
  random = () => 0.5;
  sleep = async () => {};
}

const files = fresh(() => new DeleteQueueFiles(directory.path));
const clock = fresh(() => new ManualClock());
/** Container ids, in the order in which their DELs were served. */
let served: string[];
let lines: string[];
/** Status of the next answers, by container id. */
let answers: Map<string, number>;
beforeEach(() => {
  served = [];
  lines = [];
  answers = new Map();
});

function queueOf(change: Partial<DeleteQueueParts> = {}): DeleteQueue {
  const log = { info: (line: string) => lines.push(line), error: (line: string) => lines.push(line) };
  const serve = async ({ env: { CNI_CONTAINERID: containerId = "" } }: CniCall) => {
    served.push(containerId);
    return { status: answers.get(containerId) ?? 200, body: "why" };
  };
  return new DeleteQueue({ files, clock, log, serve, find: () => undefined, ...change });
}

const queue = fresh(() => queueOf());

async function put(containerId: string, { into = files, args }: { into?: DeleteQueueFiles; args?: string } = {}): Promise<void> {
  expect(await into.write(keyOf(containerId), callOf(containerId, args))).toBe(true);
}

const left = () => readdirSync(directory.path).filter((name) => name !== "lock" && name !== "bad");

describe("the queue of DELs", () => {
  it("is drained oldest first, and each file goes with its DEL", async () => {
    for (const [at, id] of ["c", "a", "b"].entries()) {
      await put(id);
      utimesSync(join(directory.path, `${keyOf(id)}.json`), at + 1, at + 1);
    }
    await queue.drain();
    expect(served).toEqual(["c", "a", "b"]);
    expect(left()).toEqual([]);
  });

  it("holds one file an attachment, whole or not at all", async () => {
    await put("a");
    await put("a");
    expect(left()).toEqual([`${keyOf("a")}.json`]);
  });

  it("takes no more than its limit, but a DEL that waits already", async () => {
    const limited = new DeleteQueueFiles(directory.path, 3);
    for (const id of ["a", "c", "d"]) await put(id, { into: limited });
    expect(await limited.write(keyOf("b"), callOf("b"))).toBe(false);
    expect(await limited.write(keyOf("a"), callOf("a"))).toBe(true);
  });

  it("A-D03: sets torn, empty and foreign files aside, reports them, and drains the others", async () => {
    await put("good");
    await put("refused");
    answers.set("refused", 400);
    const name = (id: string) => `${keyOf(id)}.json`;
    writeFileSync(join(directory.path, name("empty")), "");
    writeFileSync(join(directory.path, name("torn")), JSON.stringify(body("torn")).slice(0, 20));
    writeFileSync(join(directory.path, name("other")), JSON.stringify(body("somebody")));
    writeFileSync(join(directory.path, "notes.txt"), "not ours");
    const temporary = `${name("young")}.1.tmp`;
    writeFileSync(join(directory.path, temporary), "{");
    await queue.drain();
    expect(served.sort()).toEqual(["good", "refused"]);
    expect(left()).toEqual([temporary]);
    const bad = readdirSync(join(directory.path, "bad")).map((one) => one.replace(/\.\d+$/, ""));
    expect(bad.sort()).toEqual([name("empty"), name("torn"), name("other"), name("refused"), "notes.txt"].sort());
    expect(lines.filter((line) => line.includes("/bad/"))).toHaveLength(5);
  });

  it("repeats a DEL that failed, later and later, and keeps its file", async () => {
    await put("a");
    answers.set("a", 500);
    const pauses: number[] = [];
    for (let failures = 0; failures < 8; failures++) {
      const before = served.length;
      const start = clock.time;
      for (; served.length === before; clock.time += 500) await queue.drain();
      pauses.push(Math.round((clock.time - start) / 1000));
    }
    expect(pauses.slice(1)).toEqual([1, 2, 4, 8, 16, 32, 60].map((one) => expect.closeTo(one, -0.5)));
    expect(left()).toHaveLength(1);
    answers.delete("a");
    clock.time += 100_000;
    await queue.drain();
    expect(left()).toEqual([]);
  });

  it("begins with the shortest pause again when a DEL of that attachment has succeeded meanwhile", async () => {
    const pauseAfterNext = async () => {
      const before = served.length;
      for (; served.length === before; clock.time += 100) await queue.drain();
      const start = clock.time;
      for (; served.length === before + 1; clock.time += 100) await queue.drain();
      return clock.time - start;
    };
    await put("a");
    answers.set("a", 500);
    const first = await pauseAfterNext();
    expect(await pauseAfterNext()).toBeGreaterThan(first * 1.5);
    answers.delete("a");
    clock.time += 100_000;
    await queue.drain();
    expect(left()).toEqual([]);
    await put("a");
    answers.set("a", 500);
    expect(await pauseAfterNext()).toBe(first);
  });

  it("A-D04: carries out the DEL of an attachment when its ADD comes, and fails the ADD when that fails", async () => {
    await put("a");
    answers.set("a", 500);
    await expect(queue.settle(attachment("a"), undefined)).rejects.toMatchObject({ word: "queued-delete-failed", code: 11 });
    answers.delete("a");
    await queue.settle(attachment("a"), undefined);
    await queue.settle(attachment("unknown"), undefined);
    expect(served).toEqual(["a", "a"]);
    expect(left()).toEqual([]);
  });

  it("carries out the DEL of a pod's earlier container before the pod's next ADD, and fails the ADD when that fails", async () => {
    const args = "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web";
    await put("old", { args });
    answers.set("old", 500);
    await expect(queue.settle(attachment("new"), "default/web")).rejects.toMatchObject({ word: "queued-delete-failed" });
    answers.delete("old");
    await queue.settle(attachment("new"), "default/web");
    expect([served, left()]).toEqual([["old", "old"], []]);
  });

  it("carries out the DELs of other pods before an ADD, and holds it up for none that fails", async () => {
    for (const id of ["one", "two"]) await put(id);
    answers.set("two", 500);
    await queue.settle(attachment("new"), "default/web");
    expect(served.sort()).toEqual(["one", "two"]);
    await queue.settle(attachment("newer"), "default/db");
    expect(served).toHaveLength(2);
  });

  it("enters no sandbox for a DEL of an earlier boot, whatever its path leads to now", async () => {
    files.makeDirectory();
    const netns = { path: "/proc/self/ns/net", dev: "4", ino: "4026531840" };
    writeFileSync(join(directory.path, `${keyOf("a")}.json`), JSON.stringify({ ...body("a"), netns, queuedBootMs: 1, bootId: "earlier" }));
    const calls: CniCall[] = [];
    const queue = queueOf({
      serve: async (call) => {
        calls.push(call);
        return { status: 200, body: "" };
      },
      find: () => recordOf(1, { committedAt: new Date(1).toISOString(), committedBootMs: 5_000 }),
    });
    await queue.drain();
    expect(calls).toMatchObject([{ netns: { path: "" }, env: { CNI_NETNS: "" } }]);
    expect(left()).toEqual([]);
  });

  it("A-D04: drops a DEL whose attachment was added later", async () => {
    const queue = queueOf({ find: () => recordOf(1, { committedAt: new Date(Date.now() + 60_000).toISOString() }) });
    await put("a");
    await queue.drain();
    expect(served).toEqual([]);
    expect(left()).toEqual([]);
  });

  it("carries out a DEL whose attachment was added before it", async () => {
    const queue = queueOf({ find: () => recordOf(1, { committedAt: new Date(1).toISOString() }) });
    await put("a");
    await queue.drain();
    expect(served).toEqual(["a"]);
  });

  it("G19: goes by the clock that nobody sets: a DEL behind its ADD is carried out, and one before it dropped", async () => {
    const record = recordOf(1, { committedAt: new Date(Date.now() + 3_600_000).toISOString(), committedBootMs: 5_000 });
    const queue = queueOf({ find: () => record });
    files.makeDirectory();
    const queueAt = (queuedBootMs: number) =>
      writeFileSync(join(directory.path, `${keyOf("a")}.json`), JSON.stringify({ ...body("a"), queuedBootMs, bootId: readBootId() }));
    queueAt(4_999);
    await queue.drain();
    expect([served, left()]).toEqual([[], []]);
    queueAt(5_000);
    await queue.drain();
    expect([served, left()]).toEqual([["a"], []]);
  });

  it("carries a DEL out once, however many ask for it at a time", async () => {
    await put("a");
    await Promise.all([queue.drain(), queue.settle(attachment("a"), undefined), queue.settle(attachment("a"), undefined)]);
    expect(served).toEqual(["a"]);
  });

  it("forgets the failures of a DEL that was done, dropped by a person, or set aside", async () => {
    const failed = async (id: string) => {
      await put(id);
      answers.set(id, 500);
      await queue.drain();
      await queue.drain();
    };
    for (const id of ["done", "dropped", "aside"]) await failed(id);
    expect(served).toEqual(["done", "dropped", "aside"]);
    answers.set("done", 200);
    answers.set("aside", 400);
    rmSync(join(directory.path, `${keyOf("dropped")}.json`));
    clock.time += 2_000;
    await queue.drain();
    expect(left()).toEqual([]);
    served.length = 0;

    for (const id of ["done", "dropped", "aside"]) await failed(id);
    expect(served).toEqual(["done", "dropped", "aside"]);
  });

  it("serves nothing for a file that is gone by the time it is read", async () => {
    const files = new (class extends DeleteQueueFiles {
      override read(): undefined {
        return undefined;
      }
    })(directory.path);
    const queue = queueOf({ files });
    await put("a");
    await queue.drain();
    expect([served, lines]).toEqual([[], []]);
  });

  it("keeps a newer DEL that was queued while an older one was carried out", async () => {
    await put("a");
    const older = files.find(keyOf("a"));
    await put("a");
    if (older !== undefined) await files.remove(older);
    expect(left()).toHaveLength(1);
  });

  it("A-D02: carries out what appears while the agent lives", async () => {
    mkdirSync(directory.path, { recursive: true });
    queue.start();
    await put("late");
    await until("the DEL is served", async () => served.includes("late"));
    await until("the file is gone", async () => left().length === 0);
    await queue.stop();
  });
});
