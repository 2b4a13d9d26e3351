/** A watch of etcd whose answers the test writes: what no member says, or says in its defence, changes nothing that is known. */

import { CODES, EtcdError } from "../../../../../lib/datastore/etcd/answers.ts";
import type { EtcdStream } from "../../../../../lib/datastore/etcd/etcd-client.ts";
import { allBelow, EtcdFeed, type KeySelection } from "../../../../../lib/datastore/etcd/etcd-feed.ts";
import type { Page } from "../../../../../lib/datastore/etcd/key-value-store.ts";
import { GoneError } from "../../../../../lib/kubernetes/watch/feed.ts";

const WORDS: KeySelection<string> = { name: "words", prefix: "/words/", nameOf: allBelow("/words/"), decode: ({ value }) => value };
const CREATED = { result: { header: { revision: "7" }, created: true } };

const event = (key: string, value: string, revision: unknown, type?: string) => ({
  ...(type === undefined ? {} : { type }),
  kv: { key: btoa(key), value: btoa(value), mod_revision: revision },
});
const events = (revision: unknown, ...all: readonly object[]) => ({ result: { header: { revision }, events: all } });

async function* pages(all: readonly Page[], error?: Error): AsyncGenerator<Page> {
  yield* all;
  if (error !== undefined) throw error;
}

/** What one watch from revision 7 on has told, and how it ended. */
async function follow(...answers: readonly (object | string)[]) {
  const told: unknown[] = [];
  const refused: number[] = [];
  const stream: EtcdStream = {
    bytes: new Blob(answers.map((answer) => `${typeof answer === "string" ? answer : JSON.stringify(answer)}\n`)).stream(),
    failed({ code, message }) {
      refused.push(code);
      return new EtcdError(message, { code, isRepetition: false });
    },
  };
  const asked: unknown[] = [];
  const feed = new EtcdFeed(WORDS, {
    store: { pages: () => pages([], new Error("no list is asked for")) },
    client: {
      stream: async (_path, request) => {
        asked.push(request);
        return stream;
      },
    },
  });
  const sink = {
    put: (key: string, version: string, decode: () => string) => void told.push(["put", key, version, decode()]),
    delete: (key: string) => void told.push(["delete", key]),
    reached: (version: string) => void told.push(["reached", version]),
  };
  const following = feed.follow("7", sink, () => told.push("begun"), new AbortController().signal);
  const ended: unknown = await following.catch((error: unknown) => error);
  return { told, ended, refused, asked };
}

describe("a watch of etcd", () => {
  it("begins behind the revision it is given, and goes on behind the last event, not behind the header", async () => {
    const { told, ended, asked } = await follow(
      CREATED,
      events("90", event("/words/a", "alpha", "8"), event("/words/b", "", "9", "DELETE")),
    );
    expect(asked).toEqual([
      { createRequest: { key: btoa("/words/"), rangeEnd: btoa("/words0"), startRevision: "8", progressNotify: true } },
    ]);
    expect(told).toEqual(["begun", ["put", "a", "8", "alpha"], ["delete", "b"], ["reached", "9"]]);
    expect(ended).toBeUndefined();
  });

  it("takes a notice without events for all that was up to then", async () => {
    expect((await follow(CREATED, events("40"))).told).toEqual(["begun", ["reached", "40"]]);
  });

  it("keeps revisions beyond 2^53 exact", async () => {
    const { told } = await follow(CREATED, events("9007199254740995", event("/words/a", "alpha", "9007199254740993")));
    expect(told).toEqual(["begun", ["put", "a", "9007199254740993", "alpha"], ["reached", "9007199254740993"]]);
  });

  it("tells nothing of a key that was not asked for", async () => {
    expect((await follow(CREATED, events("8", event("/other/a", "alpha", "8")))).told).toEqual(["begun", ["reached", "8"]]);
  });

  it.each([
    ["compacted", { result: { header: { revision: "90" }, canceled: true, compact_revision: "50" } }, /up to 50 have been compacted/],
    ["of an etcd that counts anew", { result: { header: { revision: "3" }, created: true } }, /at revision 3, and has been at 7/],
  ])("asks for a new list when its history is %s", async (_, answer, message) => {
    const { told, ended } = await follow(answer);
    expect(ended).toBeInstanceOf(GoneError);
    expect(ended).toMatchObject({ message: expect.stringMatching(message) });
    expect(told).toEqual([]);
  });

  it.each([
    ["has no right", { canceled: true, cancel_reason: "rpc error: code = PermissionDenied desc = no" }, CODES.permissionDenied],
    ["has an old token", { canceled: true, cancel_reason: "rpc error: code = Unauthenticated desc = no" }, CODES.unauthenticated],
    ["is ended for another reason", { canceled: true, cancel_reason: "mvcc: watcher overflow" }, CODES.unavailable],
    ["is ended for none", { canceled: true }, CODES.unavailable],
  ])("is refused when it %s", async (_, answer, code) => {
    const { ended, refused } = await follow({ result: { header: { revision: "7" }, ...answer } });
    expect(ended).toBeInstanceOf(EtcdError);
    expect(refused).toEqual([code]);
  });

  it("is refused when the gateway says so in the middle", async () => {
    const { told, refused } = await follow(CREATED, { error: { grpc_code: 14, http_code: 503, message: "etcdserver: no leader" } });
    expect(told).toEqual(["begun"]);
    expect(refused).toEqual([CODES.unavailable]);
  });

  it.each([
    ["no JSON", "<html>"],
    ["cut", '{"result":{"header":'],
    ["a list", "[]"],
    ["without a header", { result: { events: [event("/words/a", "alpha", "8")] } }],
    ["with a revision that is a number", events(8, event("/words/a", "alpha", "8"))],
    ["with a revision of a key that is none", events("8", event("/words/a", "alpha", "-8"))],
    ["with a key that is no base64", events("8", { kv: { key: "%", mod_revision: "8" } })],
    ["with events that are no list", { result: { header: { revision: "8" }, events: 8 } }],
  ])("ends at an answer that is %s, and tells nothing of it", async (_, answer) => {
    const { told, ended } = await follow(CREATED, answer, events("9", event("/words/b", "beta", "9")));
    expect(told).toEqual(["begun"]);
    expect(ended).toHaveProperty("message");
  });
});

/** What a list of these pages has put, and how it ended. */
async function list(all: readonly Page[], error?: Error) {
  const put: unknown[] = [];
  const source = { store: { pages: () => pages(all, error) }, client: { stream: () => Promise.reject(new Error("nothing is followed")) } };
  const listing = new EtcdFeed(WORDS, source).list({ put: (...[key, version, decode]) => void put.push([key, version, decode()]) });
  return { ended: await listing.catch((reason: unknown) => reason), put };
}

describe("a list from etcd", () => {
  const pair = (key: string) => ({ key: `/words/${key}`, value: `${key} as text`, modRevision: "3" });
  const first: Page = { pairs: [pair("a"), { ...pair("b"), key: "/other/b" }], revision: "7" };

  it("puts the pairs of each page, and is as of the revision of all", async () => {
    const { put, ended } = await list([first, { pairs: [pair("c")], revision: "7" }]);
    expect(put).toEqual([
      ["a", "3", "a as text"],
      ["c", "3", "c as text"],
    ]);
    expect(ended).toBe("7");
  });

  it.each([
    [
      "is begun again when etcd compacts its revision meanwhile",
      CODES.outOfRange,
      "etcdserver: mvcc: required revision has been compacted",
      GoneError,
    ],
    ["ends with whatever else etcd says", CODES.unavailable, "etcdserver: no leader", EtcdError],
  ])("%s", async (_, code, message, kind) => {
    const { ended } = await list([first], new EtcdError(message, { code, isRepetition: false }));
    expect(ended).toBeInstanceOf(kind);
    expect(ended).toMatchObject({ message: expect.stringContaining(message) });
  });
});
