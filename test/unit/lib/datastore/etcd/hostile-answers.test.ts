/** What comes back from something that is no etcd, or no honest one: a clear error, within limits, and nothing of it believed. */
import { EtcdClient } from "../../../../../lib/datastore/etcd/etcd-client.ts";
import { etcdDatastore } from "../../../../../lib/datastore/etcd/etcd-datastore.ts";
import { KeyValueStore } from "../../../../../lib/datastore/etcd/key-value-store.ts";
import { closing } from "../../../../support/closing.ts";
import { settingsOf } from "../../../../support/etcd/no-etcd.ts";
import { fresh } from "../../../../support/fixtures.ts";
import { type Reply, TlsServer } from "../../../../support/tls-server.ts";

const KEY = "/calico/ipam/v2/handle/net.c1";
const HANDLE = { id: "net.c1", blocks: { "10.60.0.0/26": 1 } };
const HEADER = { cluster_id: "1", member_id: "2", revision: "9007199254740993", raft_term: "4" };
const pair = (changes: object = {}) => ({ key: btoa(KEY), value: btoa('{"block":{}}'), mod_revision: "7", ...changes });
const IMPATIENT = { request: 2_000, least: 2_000, firstPause: 1, longestPause: 1, refused: 20 };

/** One after the other; the last one for ever. */
let answers: readonly Reply[];
const server = fresh(() => new TlsServer((_, index) => answers[Math.min(index, answers.length - 1)] ?? "close", { keyPair: undefined }));

const saying = (body: string | object): Reply => ({ status: 200, body: typeof body === "string" ? body : JSON.stringify(body) });
const head = (...lines: readonly string[]) => `HTTP/1.1 200 OK\r\n${["Content-Type: application/json", ...lines].join("\r\n")}\r\n\r\n`;
const settings = () => settingsOf(`http://127.0.0.1:${server.port}`);

/** The error of a read, or a text where there is none. */
async function failureOf(read: (store: KeyValueStore) => Promise<unknown>): Promise<unknown> {
  const client = closing(new EtcdClient(settings(), { limits: IMPATIENT }));
  return read(new KeyValueStore(client)).then(
    (answer) => `it was believed: ${JSON.stringify(answer)}`,
    (error: unknown) => error,
  );
}

const NESTED = `{"header":${JSON.stringify(HEADER)},"kvs":${"[".repeat(200_000)}${"]".repeat(200_000)}}`;

describe("An answer to a read", () => {
  it.each<[string, string | object]>([
    ["is empty", ""],
    ["is no JSON", "<html>welcome</html>"],
    ["ends in the middle", `{"header":${JSON.stringify(HEADER)},"kvs":[{"key":"`],
    ["is a list", []],
    ["is null", "null"],
    ["is nested deeper than any stack", NESTED],
    ["has no header", { kvs: [pair()], count: "1" }],
    ["has a revision that is a number beyond 2^53", `{"header":{"revision":9007199254740993},"kvs":[${JSON.stringify(pair())}]}`],
    ["has a revision that is none", { header: { ...HEADER, revision: "1e3" } }],
    ["has pairs that are no list", { header: HEADER, kvs: "all" }],
    ["has a pair that is no object", { header: HEADER, kvs: [1] }],
    ["has a pair without its revision", { header: HEADER, kvs: [{ key: btoa(KEY), value: btoa("{}") }] }],
    ["has a pair whose revision is a number", { header: HEADER, kvs: [pair({ mod_revision: 7 })] }],
    [
      "has a pair whose revision is a number beyond 2^53",
      `{"header":${JSON.stringify(HEADER)},"kvs":[{"key":"${btoa(KEY)}","mod_revision":9007199254740993}]}`,
    ],
    ["has a value that is no base64", { header: HEADER, kvs: [pair({ value: "%%%" })] }],
    ["has a value of another type", { header: HEADER, kvs: [pair({ value: { a: 1 } })] }],
    ["is about another key", { header: HEADER, kvs: [pair({ key: btoa("/calico/ipam/v2/handle/net.c2") })] }],
  ])("that %s is refused, naming the member, at the first try", async (_, body) => {
    answers = [saying(body)];
    expect(await failureOf((store) => store.get(KEY))).toMatchObject({
      name: "EtcdError",
      message: expect.stringMatching(/^etcd http:\/\/127\.0\.0\.1:\d+\/v3\/kv\/range: the answer is not understood: /),
    });
    expect(server.requests).toHaveLength(1);
  });

  it("that lists keys which nobody asked for is refused", async () => {
    answers = [saying({ header: HEADER, kvs: [pair(), pair({ key: btoa("/other") })] })];
    expect(await failureOf((store) => store.list("/calico/ipam/v2/handle/"))).toMatchObject({ message: expect.stringContaining("/other") });
  });

  it("that always promises more, and has nothing new, ends", async () => {
    const more = saying({ header: HEADER, kvs: [pair()], more: true });
    answers = [more, more, saying({ header: HEADER })];
    expect(await failureOf((store) => store.list("/calico/ipam/v2/handle/"))).toMatchObject({
      message: expect.stringContaining("not understood"),
    });
    expect(server.requests).toHaveLength(2);
  });

  it("keeps a revision beyond 2^53 as it is", async () => {
    answers = [saying({ header: HEADER, kvs: [pair({ mod_revision: "9007199254740993" })] })];
    const client = closing(new EtcdClient(settings()));
    expect(await new KeyValueStore(client).get(KEY)).toMatchObject({ modRevision: "9007199254740993" });
  });

  it("that is announced as larger than memory is refused before it is read", async () => {
    answers = [{ raw: `${head(`Content-Length: ${10 ** 12}`)}{}` }];
    expect(await failureOf((store) => store.get(KEY))).toMatchObject({ message: expect.stringContaining("its body is larger than") });
    expect(server.requests).toHaveLength(1);
  });

  it("that breaks off is asked for again", async () => {
    answers = [{ raw: `${head("Content-Length: 1000")}xxxxxxxxxx`, close: true }, saying({ header: HEADER })];
    const client = closing(new EtcdClient(settings()));
    expect(await new KeyValueStore(client).get(KEY)).toBeUndefined();
    expect(server.requests).toHaveLength(2);
  });

  it("that is compressed without being asked to is refused", async () => {
    const body = Bun.gzipSync(JSON.stringify({ header: HEADER }));
    answers = [{ raw: Buffer.concat([Buffer.from(head("Content-Encoding: gzip", `Content-Length: ${body.length}`)), body]) }];
    expect(await failureOf((store) => store.get(KEY))).toMatchObject({ message: expect.stringContaining("gzip") });
  });
});

describe("An answer to a write", () => {
  it.each<[string, object]>([
    ["is nothing", {}],
    ["says that it was done, and not at which revision", { succeeded: true }],
    ["says that it was done at no revision", { header: { revision: "0" }, succeeded: true }],
    ["says neither yes nor no", { header: HEADER, succeeded: "yes" }],
    ["says that it was not done, and not what is there", { header: HEADER }],
    ["has another key there", { header: HEADER, responses: [{ response_range: { kvs: [pair({ key: btoa("/other") })] } }] }],
  ])("that %s is refused", async (_, body) => {
    answers = [saying(body)];
    for (const write of [
      (store: KeyValueStore) => store.create(KEY, "1"),
      (store: KeyValueStore) => store.update(KEY, "1", "7"),
      (store: KeyValueStore) => store.delete(KEY, "7"),
    ]) {
      expect(await failureOf(write)).toMatchObject({
        name: "EtcdError",
        message: expect.stringContaining("the answer is not understood: "),
      });
    }
  });

  it("is told by the datastore as a store that is not available, with the object's key", async () => {
    answers = [saying({ ok: true })];
    await using datastore = etcdDatastore(settings(), { limits: IMPATIENT });
    await expect(datastore.handles.create(HANDLE.id, HANDLE)).rejects.toMatchObject({
      failure: "unavailable",
      message: expect.stringMatching(/^etcd .*not understood.* \(IPAMHandle\(\/calico\/ipam\/v2\/handle\/net\.c1\)\)$/),
    });
  });
});
