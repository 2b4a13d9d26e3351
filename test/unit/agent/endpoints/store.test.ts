import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RecordStore } from "../../../../agent/endpoints/store.ts";
import { decodeRecord, encodeRecord } from "../../../../handover/record.ts";
import { desiredFor } from "../../../support/desired-state.ts";
import { recordOf } from "../../../support/endpoint-record.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const dir = fresh(() => new TemporaryDirectory());

const { sandbox: _, ...DUAL_STACK } = desiredFor(
  { name: "pod", netnsPath: "/run/netns/pod" },
  {
    addresses: ["10.60.0.5/32", "fd00::5/128"],
    mac: "02:00:5e:10:00:01",
    neighbours: [{ address: "169.254.1.1", mac: "ee:ee:ee:ee:ee:ee" }],
    owner: { workload: "default/web" },
  },
);

describe("an endpoint record", () => {
  it("comes back as it was written, with the desired state and a result of any text", () => {
    const record = recordOf(17, {
      phase: "adding:dataplane",
      pod: "default/web",
      podUID: "u-1",
      netns: { path: "/run/netns/pod", dev: "4", ino: "4026532288" },
      hostInterface: { name: "cali1", index: 12, alias: "tortie:net1/cid1/eth0" },
      podMac: "02:00:5e:10:00:01",
      linkKind: "veth",
      addresses: [{ address: "10.60.0.5", family: 4, grant: "block", handle: "net1.cid1", sequence: "1812345678901234567" }],
      desired: DUAL_STACK,
      request: { digest: "d", cniVersion: "1.1.0", configDigest: "c" },
      result: '{\n    "cniVersion": "1.1.0",\n    "ips": []\n}\n',
      labels: { "k8s:app": "web" },
      object: { uid: "o-1", resourceVersion: "7" },
      traceparent: "00-1-2-01",
      committedAt: "2026-01-01T00:00:02Z",
    });
    expect(decodeRecord(encodeRecord(record))).toEqual(record);
  });

  it("keeps members and numbers that this version does not know", () => {
    const text = encodeRecord(recordOf(17)).replace("{", '{"newer": {"counter": 1812345678901234567}, ');
    const again = encodeRecord({ ...decodeRecord(text), phase: "deleting:begun" });
    expect(again).toContain('"newer":{"counter":1812345678901234567}');
    expect(decodeRecord(again).phase).toBe("deleting:begun");
  });

  it.each([
    ["nothing at all", ""],
    ["a record that is cut", encodeRecord(recordOf(17)).slice(0, 80)],
    ["a newer format", encodeRecord(recordOf(17)).replace('"format":1', '"format":2')],
    ["a list", "[]"],
    ["an unknown phase", encodeRecord(recordOf(17)).replace('"phase":"ready"', '"phase":"adding:magic"')],
  ])("is refused when the file holds %s", (_, text) => {
    expect(() => decodeRecord(text)).toThrow();
  });
});

describe("the record store", () => {
  const store = fresh(() => new RecordStore(dir.path));

  it("keeps each record in a directory of its own that only root may read", () => {
    store.create(recordOf(17));
    expect(statSync(join(dir.path, "17")).mode & 0o777).toBe(0o700);
    expect(statSync(join(dir.path, "17", "endpoint.json")).mode & 0o777).toBe(0o600);
    expect(store.read(17)).toEqual({ id: 17, kind: "record", record: recordOf(17) });
  });

  it("refuses an id that has a directory", () => {
    store.create(recordOf(17));
    expect(() => store.create(recordOf(17))).toThrow(/EEXIST/);
  });

  it("A-R03: replaces a record whole: what a killed write left is not looked at", () => {
    store.create(recordOf(17));
    store.write(recordOf(17, { phase: "deleting:begun" }));
    writeFileSync(join(dir.path, "17", "endpoint.json.tmp"), "{");
    expect(store.read(17)).toMatchObject({ record: { phase: "deleting:begun" } });
  });

  it("lists what can be read and says of the rest why not", () => {
    store.create(recordOf(9));
    store.create(recordOf(2));
    mkdirSync(join(dir.path, "3"));
    store.create(recordOf(4));
    writeFileSync(store.recordFile(4), "");
    store.create(recordOf(5));
    writeFileSync(store.recordFile(5), readFileSync(store.recordFile(9)));
    const stored = store.ids().map((id) => store.read(id));
    expect(stored.map((one) => [one.id, one.kind === "unreadable" ? one.reason : one.kind])).toEqual([
      [2, "record"],
      [3, "empty"],
      [4, expect.any(String)],
      [5, "it is the record of endpoint 9"],
      [9, "record"],
    ]);
  });

  it("keeps the newest 256 directories of endpoints that are gone, and the newest 10 that are bad, of an earlier process too", () => {
    let store = new RecordStore(dir.path);
    for (let time = 1; time <= 300; time++) {
      if (time % 50 === 0) store = new RecordStore(dir.path);
      store.create(recordOf(1));
      store.retire(1, time);
    }
    for (let time = 1; time <= 12; time++) {
      store.create(recordOf(2));
      expect(store.setAsideBad(2, 1000 + time)).toBe(join(dir.path, "bad", `2-${1000 + time}`));
    }
    const gone = readdirSync(join(dir.path, "gone"));
    expect(gone).toHaveLength(256);
    expect(gone).toContain("1-300");
    expect(gone).not.toContain("1-44");
    const bad = Array.from({ length: 10 }, (_, index) => `2-${1003 + index}`);
    expect(readdirSync(join(dir.path, "bad")).sort()).toEqual(bad);
    expect(readdirSync(join(dir.path, "gone", "1-300"))).toEqual(["endpoint.json"]);
    expect(store.ids()).toEqual([]);
  });

  it("tells two apart that were put aside in one millisecond", () => {
    for (const id of [4, 4]) {
      store.create(recordOf(id));
      store.retire(id, 1000);
    }
    expect(readdirSync(join(dir.path, "gone")).sort()).toEqual(["4-1000", "4-1000.1"]);
  });

  it("finds endpoints by the names of their directories, whatever else lies there", () => {
    for (const name of ["gone", "04", "123456", "5_other", "7_next", "x"]) mkdirSync(join(dir.path, name));
    store.create(recordOf(7));
    expect([store.ids(), store.has(7), store.has(5)]).toEqual([[7], true, false]);
    store.discard(7);
    expect([store.ids(), store.has(7)]).toEqual([[], false]);
  });

  it("finds none where there is no place for them yet, and fails where that cannot be read", () => {
    expect(new RecordStore(join(dir.path, "nothing")).ids()).toEqual([]);
    writeFileSync(join(dir.path, "file"), "");
    expect(() => new RecordStore(join(dir.path, "file")).ids()).toThrow(expect.objectContaining({ code: "ENOTDIR" }));
  });
});
