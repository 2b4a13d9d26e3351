/** SRV discovery, asked of a small name server that answers as real ones do. */
import { createSocket, type Socket } from "node:dgram";
import { promises } from "node:dns";
import { discoverMembers, type LookUp } from "../../../../../lib/datastore/etcd/settings.ts";

interface Record {
  readonly port: number;
  readonly target: string;
  readonly priority: number;
}

let server: Socket;
let lookUp: LookUp;
const records = new Map<string, readonly Record[]>();

beforeAll(async () => {
  server = createSocket("udp4", (query, from) => server.send(answerTo(query), from.port, from.address));
  await new Promise<void>((done) => server.bind(0, "127.0.0.1", done));
  const resolver = new promises.Resolver();
  resolver.setServers([`127.0.0.1:${server.address().port}`]);
  lookUp = (name) => resolver.resolveSrv(name);
});
afterAll(() => {
  server.close();
});
beforeEach(() => records.clear());

/** RFC 1035, section 4, and RFC 2782: the question repeated, then a record for each target; no such name where there is none. */
function answerTo(query: Buffer): Buffer {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString("ascii", at + 1, at + 1 + length));
    at += length + 1;
  }
  const question = query.subarray(12, at + 5);
  const found = records.get(labels.join(".")) ?? [];
  const header = Buffer.alloc(12);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(found.length === 0 ? 0x8183 : 0x8180, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(found.length, 6);
  return Buffer.concat([header, question, ...found.map(recordOf)]);
}

function recordOf({ port, target, priority }: Record): Buffer {
  const name = Buffer.concat([...target.split(".").map((label) => Buffer.from([label.length, ...Buffer.from(label)])), Buffer.from([0])]);
  const fixed = Buffer.alloc(18);
  // A pointer to the question's name, type SRV, class IN, 60 s.
  fixed.writeUInt16BE(0xc00c, 0);
  fixed.writeUInt16BE(33, 2);
  fixed.writeUInt16BE(1, 4);
  fixed.writeUInt32BE(60, 6);
  fixed.writeUInt16BE(6 + name.length, 10);
  fixed.writeUInt16BE(priority, 12);
  fixed.writeUInt16BE(0, 14);
  fixed.writeUInt16BE(port, 16);
  return Buffer.concat([fixed, name]);
}

describe("SRV discovery", () => {
  it("finds members with TLS and without, those with TLS first, each kind by priority", async () => {
    records.set("_etcd-client-ssl._tcp.example.org", [
      { port: 2379, target: "b.example.org", priority: 20 },
      { port: 2379, target: "a.example.org", priority: 10 },
    ]);
    records.set("_etcd-client._tcp.example.org", [{ port: 4001, target: "c.example.org", priority: 0 }]);
    const found = await discoverMembers("example.org", lookUp);
    expect(found.map(({ url }) => url)).toEqual(["https://a.example.org:2379", "https://b.example.org:2379", "http://c.example.org:4001"]);
  });

  // The resolver remembers answers: each test has a domain of its own.
  it("is content with one of the two services", async () => {
    records.set("_etcd-client._tcp.example.com", [{ port: 2379, target: "c.example.com", priority: 0 }]);
    expect((await discoverMembers("example.com", lookUp)).map(({ url }) => url)).toEqual(["http://c.example.com:2379"]);
  });

  it("says which names it has asked for when nobody knows them", async () => {
    await expect(discoverMembers("example.net", lookUp)).rejects.toThrow(
      /no SRV record of example.net names a member \(_etcd-client-ssl\._tcp\.example\.net: .*; _etcd-client\._tcp\.example\.net: /,
    );
  });
});
