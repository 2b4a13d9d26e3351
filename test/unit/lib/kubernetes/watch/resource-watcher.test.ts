/** The watch of one collection against a server whose answers the test writes, on a clock that the test moves. */

import { type Fields, field, isNumber, section } from "../../../../../lib/json/decode.ts";
import { WatchError } from "../../../../../lib/kubernetes/watch/feed.ts";
import { ResourceWatcher } from "../../../../../lib/kubernetes/watch/informers.ts";
import { KubernetesFeed, type Selection, type WatchSource } from "../../../../../lib/kubernetes/watch/kubernetes-feed.ts";
import type { CacheChange } from "../../../../../lib/kubernetes/watch/resource-cache.ts";
import { FakeClock, settled } from "../../../../support/fake-clock.ts";
import { ending, fresh } from "../../../../support/fixtures.ts";

const SIZES: Selection<number> = {
  name: "sizes",
  path: "/apis/example.com/v1/sizes",
  labelSelector: "of=me",
  decode: (object) => field(section(object, "spec"), "size", isNumber),
};

const size = (name: string, version: number, value: unknown = version): Fields => ({
  metadata: { name, resourceVersion: String(version) },
  spec: { size: value },
});

const listOf = (version: number, items: readonly Fields[], next = "") =>
  JSON.stringify({ metadata: { resourceVersion: String(version), ...(next && { continue: next }) }, items });

/** A server that answers with what the test has put in line, and refuses when there is nothing. */
class ScriptedSource implements WatchSource {
  readonly asked: string[] = [];
  readonly lists: (string | Error)[] = [];
  readonly watches: (readonly string[] | Error)[] = [];
  /** No watch begins before. */
  answering: Promise<void> | undefined;
  /** Ends the watch that is open. */
  end: (error?: Error) => void = () => {};
  /** Sends bytes over the watch that is open. */
  send: (text: string | Uint8Array) => void = () => {};

  async list(target: string): Promise<string> {
    this.asked.push(target);
    const answer = this.lists.shift() ?? new WatchError("no list", 503);
    if (answer instanceof Error) throw answer;
    return answer;
  }

  async watch(target: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    this.asked.push(target);
    await this.answering;
    const answer = this.watches.shift() ?? new WatchError("no watch", 503);
    if (answer instanceof Error) throw answer;
    return new ReadableStream<Uint8Array>({
      start: (controller) => {
        const encoder = new TextEncoder();
        this.send = (text) => controller.enqueue(typeof text === "string" ? encoder.encode(text) : text);
        this.end = (error) => (error === undefined ? controller.close() : controller.error(error));
        signal.addEventListener("abort", () => controller.error(new Error("aborted")));
        for (const line of answer) this.send(`${line}\n`);
      },
    });
  }
}

const event = (type: string, object: unknown) => JSON.stringify({ type, object });

const clock = fresh(() => new FakeClock());
const source = fresh(() => new ScriptedSource());
let problems: string[];
let changes: CacheChange<number>[];
let silences: number;

interface Beginning {
  readonly lists?: readonly string[];
  readonly watches?: readonly (readonly string[])[];
  readonly selection?: Partial<Selection<number>>;
}

/** @param beginning what the server answers first */
function begin({ lists = [], watches = [], selection }: Beginning = {}): ResourceWatcher<number> {
  source.lists.push(...lists);
  source.watches.push(...watches);
  const watcher = new ResourceWatcher(new KubernetesFeed({ ...SIZES, ...selection }, source, clock), {
    clock,
    onProblem: (problem) => problems.push(problem),
    onSilence: () => silences++,
  });
  watcher.onChange((change) => changes.push(change));
  ending({ [Symbol.asyncDispose]: () => watcher.stop() });
  watcher.start();
  return watcher;
}

/** Between two tries; a watch that is open waits for more than the longest of them. */
function pauses(): readonly number[] {
  return clock.pauses.filter((pause) => pause <= 10_000);
}

beforeEach(() => {
  problems = [];
  changes = [];
  silences = 0;
});

describe("a watch", () => {
  it("lists in pages from the server's memory, and goes on from the list's version", async () => {
    const watcher = begin({ lists: [listOf(7, [size("a", 3)], "more"), listOf(7, [size("b", 5)])], watches: [[]] });
    await watcher.untilSynced();
    await settled();
    expect(watcher.list()).toEqual([3, 5]);
    const selector = "/apis/example.com/v1/sizes?labelSelector=of%3Dme";
    expect(source.asked).toEqual([
      `${selector}&resourceVersion=0`,
      `${selector}&resourceVersion=0&continue=more`,
      `${selector}&watch=true&allowWatchBookmarks=true&timeoutSeconds=450&resourceVersion=7`,
    ]);
    expect(watcher.state).toEqual({ name: "sizes", isSynced: true, lostSince: undefined, followedSince: 0, problem: undefined });
  });

  it("that never begins is asked for with longer and longer pauses, however long each refusal takes", async () => {
    begin({ lists: [listOf(1, [])] });
    for (let refusal = 0; refusal < 3; refusal++) {
      const gate = Promise.withResolvers<void>();
      source.answering = gate.promise;
      await clock.advance(12_000);
      gate.resolve();
      await settled();
    }
    expect(pauses()).toEqual([...pauses()].sort((one, other) => one - other));
    expect(new Set(pauses()).size).toBe(3);
  });

  it("takes events in pieces of any size, and many in one", async () => {
    const watcher = begin({ lists: [listOf(1, [])], watches: [[]] });
    await settled();
    const text = `${event("ADDED", size("ä", 2))}\n${event("MODIFIED", size("ä", 3, 30))}\n${event("ADDED", size("b", 4))}\n`;
    const bytes = Buffer.from(text);
    // Single bytes, so that a cut falls into each character of two bytes too.
    for (const byte of bytes) source.send(Uint8Array.of(byte));
    await settled();
    expect([watcher.get("ä"), watcher.get("b")]).toEqual([30, 4]);
    expect(changes.map(({ before, after }) => [before, after])).toEqual([
      [undefined, 2],
      [2, 30],
      [undefined, 4],
    ]);
  });

  it("continues after a bookmark where the bookmark says", async () => {
    begin({ lists: [listOf(1, [size("a", 1)])], watches: [[event("BOOKMARK", { metadata: { resourceVersion: "90" } })], []] });
    await settled();
    await clock.advance(5_000);
    source.end();
    await settled();
    expect(source.asked.at(-1)).toContain("resourceVersion=90");
    expect(pauses()).toEqual([]);
  });

  it("lists anew, consistently, when the server has forgotten its place, and tells of what went", async () => {
    const watcher = begin({
      lists: [listOf(1, [size("a", 1), size("b", 1)]), listOf(9, [size("b", 1), size("c", 8)])],
      watches: [[event("ERROR", { code: 410, message: "too old" })], []],
    });
    await clock.advance(1_000);
    expect(watcher.list()).toEqual([1, 8]);
    expect(changes.slice(2)).toEqual([
      { key: "c", before: undefined, after: 8 },
      { key: "a", before: 1, after: undefined },
    ]);
    expect(source.asked.filter((path) => !path.includes("watch"))[1]).toContain("limit=500");
    expect(problems).toEqual([]);
  });

  it("asks again after pauses that grow to 10 s, and says a problem once", async () => {
    begin();
    await clock.advance(60_000);
    expect(clock.pauses.slice(0, 8)).toEqual([200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
    expect(problems).toEqual(["sizes: no list"]);
  });

  it("does not ask in a loop where watches end as soon as they begin", async () => {
    begin({ lists: [listOf(1, [])], watches: [[], [], [], []] });
    for (const pause of [200, 400, 800]) {
      await settled();
      source.end();
      await clock.advance(pause);
    }
    // Nothing was refused: each of the four watches was asked for, and three have ended.
    expect(source.asked.filter((path) => path.includes("watch=true"))).toHaveLength(4);
    expect([pauses(), problems]).toEqual([[200, 400, 800], []]);
  });

  it("G5: is not usable without its watch, and keeps what it has", async () => {
    const watcher = begin({ lists: [listOf(1, [size("a", 1)])], watches: [[]] });
    expect(watcher.isUsable).toBe(false);
    await clock.advance(100_000);
    expect(watcher.isUsable).toBe(true);
    source.end(new Error("cut"));
    await settled();
    expect([watcher.isUsable, watcher.state.lostSince, watcher.state.followedSince]).toEqual([false, 100_000, undefined]);
    expect(watcher.list()).toEqual([1]);
    source.watches.push([]);
    await clock.advance(1_000);
    expect([watcher.isUsable, watcher.state.lostSince]).toEqual([true, undefined]);
    expect(watcher.state.followedSince).toBeGreaterThan(100_000);
  });

  it("G5: is usable while its watch is renewed in order, for 2 s, and has been followed all the time then", async () => {
    const watcher = begin({ lists: [listOf(1, [size("a", 1)])], watches: [[]] });
    await clock.advance(100_000);
    const [late, prompt] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    source.answering = prompt.promise;
    source.watches.push([], []);
    source.end();
    await settled();
    expect([watcher.isUsable, watcher.state.followedSince]).toEqual([true, undefined]);
    await clock.advance(1_999);
    prompt.resolve();
    await settled();
    expect([watcher.isUsable, watcher.state.followedSince]).toEqual([true, 0]);

    await clock.advance(100_000);
    source.answering = late.promise;
    source.end();
    await clock.advance(2_000);
    expect(watcher.isUsable).toBe(false);
    late.resolve();
    await settled();
    expect([watcher.isUsable, watcher.state.followedSince]).toEqual([true, clock.now()]);
  });

  it("G5: ends on this side when nothing came for 15 s more than the server was asked for, however often it was heard of before", async () => {
    const watcher = begin({ lists: [listOf(1, [size("a", 1)])], watches: [[]], selection: { heartbeatSeconds: 30 } });
    await clock.advance(40_000);
    source.send(`${event("BOOKMARK", { metadata: { resourceVersion: "9" } })}\n`);
    await clock.advance(44_999);
    expect([watcher.isUsable, silences, problems]).toEqual([true, 0, []]);
    await clock.advance(1);
    expect([watcher.isUsable, watcher.state.followedSince, silences]).toEqual([false, undefined, 1]);
    expect(problems[0]).toBe("sizes: nothing came for 45 s: the connection is taken for dead");
    source.watches.push([]);
    await clock.advance(1_000);
    expect(source.asked.at(-1)).toContain("resourceVersion=9");
    expect(watcher.isUsable).toBe(true);
  });

  it("that breaks off says nothing of the connections of the others, the heartbeat's neither", async () => {
    begin({ lists: [listOf(1, [])], watches: [[]], selection: { heartbeatSeconds: 30 } });
    await settled();
    source.end(new Error("reset"));
    await settled();
    expect([silences, problems]).toEqual([0, ["sizes: the watch broke off (reset)"]]);
  });

  it("G5: ends a silent one that is no heartbeat as well, and has the others asked for anew", async () => {
    const watcher = begin({ lists: [listOf(1, [])], watches: [[]] });
    await clock.advance(464_999);
    expect([watcher.isUsable, silences]).toEqual([true, 0]);
    await clock.advance(1);
    expect([watcher.isUsable, silences]).toEqual([false, 1]);
  });

  it("G5: ends one whose body does not listen to its signal, and one whose answer never begins", async () => {
    const never = () => Promise.withResolvers<never>().promise;
    const deaf: WatchSource = {
      list: async () => listOf(1, []),
      watch: async () => ({ [Symbol.asyncIterator]: () => ({ next: never, return: never }) }),
    };
    const mute: WatchSource = { ...deaf, watch: never };
    for (const silent of [deaf, mute]) {
      const feed = new KubernetesFeed({ ...SIZES, heartbeatSeconds: 30 }, silent, clock);
      const sink = { put: () => undefined, delete: () => undefined, reached: () => undefined };
      const ended = feed.follow("1", sink, () => undefined, new AbortController().signal).catch((error: unknown) => error);
      await clock.advance(45_000);
      expect(await ended).toMatchObject({ name: "SilenceError", status: 0 });
    }
  });

  it("leaves out an object that it cannot read, names it, and has it again when it is mended", async () => {
    const watcher = begin({
      lists: [listOf(2, [size("bad", 1, "large"), size("good", 2)])],
      watches: [[event("MODIFIED", size("bad", 3, 3))]],
    });
    await settled();
    expect(problems).toEqual(["sizes: bad cannot be read: size is missing or of the wrong type"]);
    expect(watcher.list()).toEqual([3, 2]);
  });

  it("goes on when a listener fails", async () => {
    const watcher = begin({ lists: [listOf(2, [size("a", 1), size("b", 2)])], watches: [[]] });
    watcher.onChange(() => {
      throw new Error("mine");
    });
    await settled();
    expect(watcher.list()).toEqual([1, 2]);
    expect(problems).toEqual(["sizes: a listener failed: mine", "sizes: a listener failed: mine"]);
  });

  it("prepares the text of lists and events before numbers are lost", async () => {
    const digits = "1801439850948198443";
    const decode = (object: Fields) => Number(String(section(object, "spec").size).at(-1));
    const prepare = (json: string) => json.replaceAll(/"size":(\d+)/g, '"size":"$1"');
    const watcher = begin({
      lists: [`{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a","resourceVersion":"1"},"spec":{"size":${digits}}}]}`],
      watches: [[event("ADDED", size("b", 2)).replace('"size":2', `"size":${digits}`)]],
      selection: { decode, prepare },
    });
    await settled();
    expect(watcher.list()).toEqual([3, 3]);
  });

  it("tells of a silent server when its heartbeat cannot be renewed, not when it is refused", async () => {
    begin({ lists: [listOf(1, [])], watches: [[]], selection: { heartbeatSeconds: 30 } });
    await clock.advance(2_000);
    expect(source.asked.at(-1)).toContain("timeoutSeconds=30");
    source.watches.push(new WatchError("busy", 429), new Error("timeout"));
    source.end();
    await clock.advance(100);
    expect(silences).toBe(0);
    await clock.advance(1_000);
    expect(silences).toBe(1);
  });

  it("ends while it waits for a list, a watch or a pause", async () => {
    const watcher = begin();
    await settled();
    await watcher.stop();
    expect(source.asked).toHaveLength(1);
    await expect(watcher.untilSynced(AbortSignal.abort(new Error("enough")))).rejects.toThrow("enough");
  });
});
