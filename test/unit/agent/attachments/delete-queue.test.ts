import { mkdirSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DeleteQueue, type DeleteQueueParts } from "../../../../agent/attachments/agent-away.ts";
import type { CniCall } from "../../../../handover/call.ts";
import { decodeCall } from "../../../../handover/call-body.ts";
import { DeleteQueueFiles } from "../../../../handover/left-files.ts";
import { fileKey } from "../../../../lib/cni/attachment-id.ts";
import type { Clock } from "../../../../lib/system/waiting.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";
import { until } from "../../../support/kubernetes/until.ts";

const parent = fresh(() => new TemporaryDirectory());
let directory: string;
beforeEach(() => {
  directory = join(parent.path, "deletequeue");
});

const body = (containerId: string) => ({ protocol: 1, plugin: "t", containerId, ifname: "eth0", stdin: '{"name":"net1"}' });
const callOf = (containerId: string) => decodeCall(body(containerId), "DEL");
const keyOf = (containerId: string) => fileKey({ network: "net1", containerId, ifname: "eth0" });
const attachment = (containerId: string) => ({ network: "net1", containerId, ifname: "eth0" });

class ManualClock implements Clock {
  time = 1_000;
  now = () => this.time;
  date = () => new Date(this.time);
  random = () => 0.5;
  sleep = async () => {};
}

interface World {
  readonly queue: DeleteQueue;
  readonly files: DeleteQueueFiles;
  readonly clock: ManualClock;
  /** Container ids, in the order in which their DELs were served. */
  readonly served: string[];
  readonly lines: string[];
  /** Status of the next answers, by container id. */
  readonly answers: Map<string, number>;
}

function world(change: Partial<DeleteQueueParts> = {}): World {
  const files = new DeleteQueueFiles(directory);
  const clock = new ManualClock();
  const served: string[] = [];
  const lines: string[] = [];
  const answers = new Map<string, number>();
  const log = { info: (line: string) => lines.push(line), error: (line: string) => lines.push(line) };
  const serve = async ({ env: { CNI_CONTAINERID: containerId = "" } }: CniCall) => {
    served.push(containerId);
    return { status: answers.get(containerId) ?? 200, body: "why" };
  };
  const queue = new DeleteQueue({ files, clock, log, serve, addedAt: () => undefined, ...change });
  return { queue, files, clock, served, lines, answers };
}

async function put(files: DeleteQueueFiles, containerId: string): Promise<void> {
  expect(await files.write(keyOf(containerId), callOf(containerId), false)).toBe(true);
}

const left = () => readdirSync(directory).filter((name) => name !== "lock" && name !== "bad");

describe("the queue of DELs", () => {
  it("is drained oldest first, and each file goes with its DEL", async () => {
    const { queue, files, served } = world();
    for (const [at, id] of ["c", "a", "b"].entries()) {
      await put(files, id);
      utimesSync(join(directory, `${keyOf(id)}.json`), at + 1, at + 1);
    }
    await queue.drain();
    expect(served).toEqual(["c", "a", "b"]);
    expect(left()).toEqual([]);
  });

  it("holds one file an attachment, whole or not at all", async () => {
    const { files } = world();
    await put(files, "a");
    await put(files, "a");
    expect(left()).toEqual([`${keyOf("a")}.json`]);
  });

  it("takes no more than its limit, but a DEL that waits already", async () => {
    const files = new DeleteQueueFiles(directory, 3);
    for (const id of ["a", "c", "d"]) await put(files, id);
    expect(await files.write(keyOf("b"), callOf("b"), false)).toBe(false);
    expect(await files.write(keyOf("a"), callOf("a"), false)).toBe(true);
  });

  it("A-D03: sets torn, empty and foreign files aside, reports them, and drains the others", async () => {
    const { queue, files, served, lines, answers } = world();
    await put(files, "good");
    await put(files, "refused");
    answers.set("refused", 400);
    const name = (id: string) => `${keyOf(id)}.json`;
    writeFileSync(join(directory, name("empty")), "");
    writeFileSync(join(directory, name("torn")), JSON.stringify(body("torn")).slice(0, 20));
    writeFileSync(join(directory, name("other")), JSON.stringify(body("somebody")));
    writeFileSync(join(directory, "notes.txt"), "not ours");
    const temporary = `${name("young")}.1.tmp`;
    writeFileSync(join(directory, temporary), "{");
    await queue.drain();
    expect(served.sort()).toEqual(["good", "refused"]);
    expect(left()).toEqual([temporary]);
    const bad = readdirSync(join(directory, "bad")).map((one) => one.replace(/\.\d+$/, ""));
    expect(bad.sort()).toEqual([name("empty"), name("torn"), name("other"), name("refused"), "notes.txt"].sort());
    expect(lines.filter((line) => line.includes("/bad/"))).toHaveLength(5);
  });

  it("repeats a DEL that failed, later and later, and keeps its file", async () => {
    const { queue, files, served, answers, clock } = world();
    await put(files, "a");
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
    const { queue, files, served, answers, clock } = world();
    const pauseAfterNext = async () => {
      const before = served.length;
      for (; served.length === before; clock.time += 100) await queue.drain();
      const start = clock.time;
      for (; served.length === before + 1; clock.time += 100) await queue.drain();
      return clock.time - start;
    };
    await put(files, "a");
    answers.set("a", 500);
    const first = await pauseAfterNext();
    expect(await pauseAfterNext()).toBeGreaterThan(first * 1.5);
    answers.delete("a");
    clock.time += 100_000;
    await queue.drain();
    expect(left()).toEqual([]);
    await put(files, "a");
    answers.set("a", 500);
    expect(await pauseAfterNext()).toBe(first);
  });

  it("A-D04: carries out the DEL of an attachment when its ADD comes, and fails the ADD when that fails", async () => {
    const { queue, files, served, answers } = world();
    await put(files, "a");
    answers.set("a", 500);
    await expect(queue.carryOutFor(attachment("a"))).rejects.toMatchObject({ word: "queued-delete-failed", code: 11 });
    answers.delete("a");
    await queue.carryOutFor(attachment("a"));
    await queue.carryOutFor(attachment("unknown"));
    expect(served).toEqual(["a", "a"]);
    expect(left()).toEqual([]);
  });

  it("A-D04: drops a DEL whose attachment was added later", async () => {
    const { queue, files, served } = world({ addedAt: () => ({ wallMs: Date.now() + 60_000, bootMs: undefined }) });
    await put(files, "a");
    await queue.drain();
    expect(served).toEqual([]);
    expect(left()).toEqual([]);
  });

  it("carries out a DEL whose attachment was added before it", async () => {
    const { queue, files, served } = world({ addedAt: () => ({ wallMs: 1, bootMs: undefined }) });
    await put(files, "a");
    await queue.drain();
    expect(served).toEqual(["a"]);
  });

  it("G19: goes by the clock that nobody sets: a DEL behind its ADD is carried out, and one before it dropped", async () => {
    const added = { wallMs: Date.now() + 3_600_000, bootMs: 5_000 };
    const { queue, files, served } = world({ addedAt: () => added });
    files.makeDirectory();
    const queueAt = (queuedBootMs: number) =>
      writeFileSync(join(directory, `${keyOf("a")}.json`), JSON.stringify({ ...body("a"), queuedBootMs }));
    queueAt(4_999);
    await queue.drain();
    expect([served, left()]).toEqual([[], []]);
    queueAt(5_000);
    await queue.drain();
    expect([served, left()]).toEqual([["a"], []]);
  });

  it("carries a DEL out once, however many ask for it at a time", async () => {
    const { queue, files, served } = world();
    await put(files, "a");
    await Promise.all([queue.drain(), queue.carryOutFor(attachment("a")), queue.carryOutFor(attachment("a"))]);
    expect(served).toEqual(["a"]);
  });

  it("forgets the failures of a DEL that was done, dropped by a person, or set aside", async () => {
    const { queue, files, served, answers, clock } = world();
    const failed = async (id: string) => {
      await put(files, id);
      answers.set(id, 500);
      await queue.drain();
      await queue.drain();
    };
    for (const id of ["done", "dropped", "aside"]) await failed(id);
    expect(served).toEqual(["done", "dropped", "aside"]);
    answers.set("done", 200);
    answers.set("aside", 400);
    rmSync(join(directory, `${keyOf("dropped")}.json`));
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
    })(directory);
    const { queue, served, lines } = world({ files });
    await put(files, "a");
    await queue.drain();
    expect([served, lines]).toEqual([[], []]);
  });

  it("keeps a newer DEL that was queued while an older one was carried out", async () => {
    const { files } = world();
    await put(files, "a");
    const older = files.find(keyOf("a"));
    await put(files, "a");
    if (older !== undefined) await files.remove(older);
    expect(left()).toHaveLength(1);
  });

  it("A-D02: carries out what appears while the agent lives", async () => {
    const { queue, files, served } = world();
    mkdirSync(directory, { recursive: true });
    queue.start();
    await put(files, "late");
    await until("the DEL is served", async () => served.includes("late"));
    await until("the file is gone", async () => left().length === 0);
    await queue.stop();
  });
});
