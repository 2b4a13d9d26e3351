import { blockCodec, handleCodec } from "../../../../../lib/datastore/calico/block.ts";
import { LEGACY_GROUP } from "../../../../../lib/datastore/calico/codec.ts";
import { configurationCodec } from "../../../../../lib/datastore/calico/pool.ts";
import type { DatastoreError } from "../../../../../lib/datastore/errors.ts";
import { ResourceApi } from "../../../../../lib/datastore/kubernetes/resource-api.ts";
import { ResourceCollection } from "../../../../../lib/datastore/kubernetes/resource-collection.ts";
import type { Handle } from "../../../../../lib/datastore/resources.ts";
import { type Exchange, ScriptedClient } from "../../../../support/scripted-api-client.ts";

const ALL = `/apis/${LEGACY_GROUP}/ipamhandles`;
const ONE = `${ALL}/net.c1`;
const HANDLE: Handle = { id: "net.c1", blocks: { "10.40.0.8/29": 1 } };

/** The handle as the server has it. */
function stored(resourceVersion = "5", spec: object = {}, metadata: object = {}) {
  return {
    apiVersion: LEGACY_GROUP,
    kind: "IPAMHandle",
    metadata: { name: "net.c1", uid: "u1", resourceVersion, managedFields: [], ...metadata },
    spec: { handleID: "net.c1", block: HANDLE.blocks, deleted: false, ...spec },
  };
}
const marked = (resourceVersion: string) => stored(resourceVersion, { deleted: true });
const CONFLICT = { status: 409, reason: "Conflict" };
const EXISTS = { status: 409, reason: "AlreadyExists" };
const MISSING = { status: 404, reason: "NotFound" };

function collection(...script: readonly Exchange[]) {
  const client = new ScriptedClient(...script);
  const damaged: DatastoreError[] = [];
  const api = new ResourceApi(client, async () => LEGACY_GROUP);
  return { client, damaged, handles: new ResourceCollection(api, handleCodec, (error) => damaged.push(error)) };
}

/** A collection that has read the handle at revision u1/5. */
async function knowing(...script: readonly Exchange[]) {
  const subject = collection([`GET ${ONE}`, stored()], ...script);
  await subject.handles.get("net.c1");
  subject.client.asked.length = 0;
  return subject;
}

describe("a custom resource", () => {
  it("that is new is decoded when somebody wants to know what the server made of it", async () => {
    const { value, revision } = await collection([`POST ${ALL}`, stored("7")]).handles.create("net.c1", HANDLE);
    expect({ value, revision }).toEqual({ value: HANDLE, revision: "u1/7" });
  });

  it.each(["nonsense", "[]", '{"metadata":{"name":"net.c1"},"spec":{}}'])(
    "that is new fails nobody before that when the answer cannot be read: %s",
    async (answer) => {
      const created = await collection([`POST ${ALL}`, answer]).handles.create("net.c1", HANDLE);
      expect(() => created.revision).toThrow(expect.objectContaining({ name: "DatastoreError", failure: "invalid" }));
    },
  );

  it("that comes from another store is made with the labels, the annotations and the fields that it had there", async () => {
    const { client, handles } = collection([`POST ${ALL}`, stored("7")], [`POST ${ALL}`, stored("8")]);
    await handles.createWith("net.c1", HANDLE, { spec: { newField: 1 }, labels: { "x.org/l": "1" }, annotations: { "x.org/a": "2" } });
    await handles.create("net.c1", HANDLE);
    const spec = { block: HANDLE.blocks, deleted: false, handleID: "net.c1" };
    const head = { apiVersion: LEGACY_GROUP, kind: "IPAMHandle" };
    expect(client.sent(0)).toEqual({
      ...head,
      metadata: { name: "net.c1", labels: { "x.org/l": "1" }, annotations: { "x.org/a": "2" } },
      spec: { ...spec, newField: 1 },
    });
    expect(client.sent(1)).toEqual({ ...head, metadata: { name: "net.c1" }, spec });
  });

  it("is one request to read, write and remove, each write with the two preconditions of the revision", async () => {
    const { client, handles } = collection([`GET ${ONE}`, stored()], [`PUT ${ONE}`, stored("6")], [`DELETE ${ONE}`, { kind: "Status" }]);
    expect(await handles.get("net.c1")).toEqual({ value: HANDLE, revision: "u1/5" });
    expect((await handles.update("net.c1", HANDLE, "u1/5")).revision).toBe("u1/6");
    await handles.delete("net.c1", "u1/6");
    expect(client.left).toEqual([]);
    const metadata = { name: "net.c1", uid: "u1", resourceVersion: "5" };
    const spec = { block: HANDLE.blocks, deleted: false, handleID: "net.c1" };
    expect(client.sent(1)).toEqual({ apiVersion: LEGACY_GROUP, kind: "IPAMHandle", metadata, spec });
    expect(client.sent(2)).toEqual({ apiVersion: "v1", kind: "DeleteOptions", preconditions: { uid: "u1", resourceVersion: "6" } });
  });

  it("that cannot have such a name is missing, and cannot be written, without a request", async () => {
    const { client, handles } = collection();
    expect(await handles.get("net.a_1")).toBeUndefined();
    const refusal = { failure: "invalid", message: expect.stringContaining("IPAMHandle(net.a_1) cannot be stored") };
    await expect(handles.create("net.a_1", HANDLE)).rejects.toMatchObject(refusal);
    await expect(handles.update("net.a_1", HANDLE, "u1/5")).rejects.toMatchObject(refusal);
    await expect(handles.delete("net.a_1", "u1/5")).rejects.toMatchObject(refusal);
    expect(client.asked).toEqual([]);
  });

  it.each([
    ["401", { status: 401 }, "unauthorized"],
    ["403", { status: 403, reason: "Forbidden" }, "unauthorized"],
    ["422", { status: 422, reason: "Invalid" }, "invalid"],
    ["429", { status: 429 }, "unavailable"],
    ["500", { status: 500 }, "unavailable"],
    ["no answer", { status: 0 }, "unavailable"],
  ])("answered with %s is told apart", async (_, answer, failure) => {
    const { handles } = await knowing(
      [`GET ${ONE}`, answer],
      [`PUT ${ONE}`, answer],
      [`DELETE ${ONE}`, answer],
      [`GET ${ALL}?limit=500`, answer],
    );
    await expect(handles.get("net.c1")).rejects.toMatchObject({ failure });
    await expect(handles.update("net.c1", HANDLE, "u1/5")).rejects.toMatchObject({ failure });
    await expect(handles.delete("net.c1", "u1/5")).rejects.toMatchObject({ failure });
    await expect(handles.list()).rejects.toMatchObject({ failure });
  });

  it("that is another one by now is a conflict, and one that is gone is missing", async () => {
    const other = { ...CONFLICT, explanation: "Precondition failed: UID in precondition: u1, UID in object meta: u2" };
    const { handles } = await knowing([`PUT ${ONE}`, other], [`DELETE ${ONE}`, other], [`PUT ${ONE}`, MISSING], [`DELETE ${ONE}`, MISSING]);
    await expect(handles.update("net.c1", HANDLE, "u1/5")).rejects.toMatchObject({ failure: "conflict" });
    await expect(handles.delete("net.c1", "u1/5")).rejects.toMatchObject({ failure: "conflict" });
    await expect(handles.update("net.c1", HANDLE, "u1/5")).rejects.toMatchObject({ failure: "not-found" });
    await expect(handles.delete("net.c1", "u1/5")).rejects.toMatchObject({ failure: "not-found" });
  });

  it.each([["no JSON"], ["[]"], [{ metadata: { name: "net.c1" }, spec: {} }], [{ ...stored(), spec: "none" }]])(
    "answered with %p is refused",
    async (answer) => {
      await expect(collection([`GET ${ONE}`, answer]).handles.get("net.c1")).rejects.toMatchObject({
        failure: "invalid",
        message: expect.stringMatching(/^IPAMHandle\(.*\) cannot be read/),
      });
    },
  );

  it("is written back with what it had beside the model", async () => {
    const labels = { "x.org/l": "1" };
    const foreign = { ...stored("5", { newField: 1 }, { labels, finalizers: ["x.org/f"], generation: 3 }), status: { seen: true } };
    const { client, handles } = collection([`GET ${ONE}`, foreign], [`PUT ${ONE}`, stored("6")]);
    await handles.get("net.c1");
    await handles.update("net.c1", HANDLE, "u1/5");
    expect(client.sent(1)).toMatchObject({ metadata: { labels, finalizers: ["x.org/f"] }, spec: { newField: 1 }, status: { seen: true } });
    expect(client.sent(1)).not.toHaveProperty("metadata.generation");
  });

  it("whose revision another client has read is read once more, so that nothing of it is lost", async () => {
    const foreign = stored("5", { newField: 1 }, { labels: { "x.org/l": "1" } });
    const { client, handles } = collection([`GET ${ONE}`, foreign], [`PUT ${ONE}`, stored("6")]);
    await handles.update("net.c1", HANDLE, "u1/5");
    expect(client.sent(1)).toMatchObject({ metadata: { labels: { "x.org/l": "1" } }, spec: { newField: 1 } });
    const later = collection([`GET ${ONE}`, stored("6")], [`GET ${ONE}`, MISSING]);
    await expect(later.handles.update("net.c1", HANDLE, "u1/5")).rejects.toMatchObject({ failure: "conflict" });
    await expect(later.handles.update("net.c1", HANDLE, "u1/5")).rejects.toMatchObject({ failure: "not-found" });
    expect(later.client.left).toEqual([]);
  });

  it("is not remembered for ever: of many that were read, those read last are", async () => {
    const many = Array.from({ length: 5000 }, (_, index) => stored("5", { newField: index }, { name: `net.c${index}` }));
    const last = `${ALL}/net.c4999`;
    const { client, handles } = collection(
      [`GET ${ALL}?limit=500`, { metadata: {}, items: many }],
      [`PUT ${last}`, stored("6", {}, { name: "net.c4999" })],
      [`GET ${ALL}/net.c0`, many[0] ?? {}],
      [`PUT ${ALL}/net.c0`, stored("6", {}, { name: "net.c0" })],
    );
    await handles.list();
    await handles.update("net.c4999", { ...HANDLE, id: "net.c4999" }, "u1/5");
    expect(client.sent(1)).toMatchObject({ spec: { newField: 4999 } });
    await handles.update("net.c0", { ...HANDLE, id: "net.c0" }, "u1/5");
    expect(client.sent(3)).toMatchObject({ spec: { newField: 0 } });
  });
});

describe("a write whose answer was lost", () => {
  const lost = { status: 0, isRepetition: true };

  it.each([
    ["the repetition says that it exists", { ...EXISTS, isRepetition: true }],
    ["nothing was heard at all", lost],
    ["the server failed in the middle", { status: 504, isRepetition: true }],
  ])("has made the object when it is what was sent, and %s", async (_, answer) => {
    const { handles } = collection([`POST ${ALL}`, answer], [`GET ${ONE}`, stored("7")]);
    expect(await handles.create("net.c1", HANDLE)).toEqual({ value: HANDLE, revision: "u1/7" });
  });

  it("has made nothing when there is nothing, or something else", async () => {
    const nothing = collection([`POST ${ALL}`, lost], [`GET ${ONE}`, MISSING]);
    await expect(nothing.handles.create("net.c1", HANDLE)).rejects.toMatchObject({ failure: "unavailable" });
    const other = collection(
      [`POST ${ALL}`, { ...EXISTS, isRepetition: true }],
      [`GET ${ONE}`, stored("7", { block: { "10.40.0.8/29": 2 } })],
    );
    await expect(other.handles.create("net.c1", HANDLE)).rejects.toMatchObject({ failure: "already-exists" });
  });

  it("has changed the object when it is what was sent, and the same object", async () => {
    const next = { ...HANDLE, blocks: { "10.40.0.8/29": 2 } };
    const done = await knowing([`PUT ${ONE}`, { ...CONFLICT, isRepetition: true }], [`GET ${ONE}`, stored("6", { block: next.blocks })]);
    expect(await done.handles.update("net.c1", next, "u1/5")).toEqual({ value: next, revision: "u1/6" });
    const anew = await knowing(
      [`PUT ${ONE}`, { ...CONFLICT, isRepetition: true }],
      [`GET ${ONE}`, stored("6", { block: next.blocks }, { uid: "u2" })],
    );
    await expect(anew.handles.update("net.c1", next, "u1/5")).rejects.toMatchObject({ failure: "conflict" });
    const marking = await knowing(
      [`PUT ${ONE}`, { ...CONFLICT, isRepetition: true }],
      [`GET ${ONE}`, stored("6", { block: next.blocks, deleted: true })],
    );
    await expect(marking.handles.update("net.c1", next, "u1/5")).rejects.toMatchObject({ failure: "conflict" });
  });

  it("has removed the object when it is gone", async () => {
    await collection([`DELETE ${ONE}`, { ...MISSING, isRepetition: true }]).handles.delete("net.c1", "u1/5");
    await collection([`DELETE ${ONE}`, lost], [`GET ${ONE}`, MISSING]).handles.delete("net.c1", "u1/5");
    const there = collection([`DELETE ${ONE}`, lost], [`GET ${ONE}`, stored()]);
    await expect(there.handles.delete("net.c1", "u1/5")).rejects.toMatchObject({ failure: "unavailable" });
  });

  it("fails as it failed when what became of it cannot be found out, after a short look", async () => {
    const { client, handles } = await knowing([`PUT ${ONE}`, lost], [`GET ${ONE}`, { status: 403 }]);
    await expect(handles.update("net.c1", HANDLE, "u1/5")).rejects.toMatchObject({
      failure: "unavailable",
      message: expect.stringContaining("PUT"),
    });
    expect(client.asked[1]?.timeoutMs).toBeLessThanOrEqual(5000);
  });

  it("is not looked for when the server answered the first time", async () => {
    const { client, handles } = await knowing([`PUT ${ONE}`, CONFLICT], [`DELETE ${ONE}`, MISSING]);
    await expect(handles.update("net.c1", HANDLE, "u1/5")).rejects.toMatchObject({ failure: "conflict" });
    await expect(handles.delete("net.c1", "u1/5")).rejects.toMatchObject({ failure: "not-found" });
    expect(client.left).toEqual([]);
  });
});

describe("an object that is marked as deleted", () => {
  const preconditions = { uid: "u1", resourceVersion: "5" };

  it.each([
    ["done", { kind: "Status" }],
    ["done by somebody else", MISSING],
    ["changed by somebody else", CONFLICT],
    ["forbidden", { status: 403, reason: "Forbidden" }],
  ])("is absent, its removal being %s", async (_, answer) => {
    const { client, handles } = collection([`GET ${ONE}`, marked("5")], [`DELETE ${ONE}`, answer]);
    expect(await handles.get("net.c1")).toBeUndefined();
    expect(client.sent(1)).toMatchObject({ preconditions });
  });

  it("gives way to one that is created", async () => {
    const { handles } = collection(
      [`POST ${ALL}`, EXISTS],
      [`GET ${ONE}`, marked("5")],
      [`DELETE ${ONE}`, { kind: "Status" }],
      [`POST ${ALL}`, stored("8", {}, { uid: "u2" })],
    );
    expect((await handles.create("net.c1", HANDLE)).revision).toBe("u2/8");
  });

  it("gives way when it has gone by itself", async () => {
    const { handles } = collection([`POST ${ALL}`, EXISTS], [`GET ${ONE}`, MISSING], [`POST ${ALL}`, stored("8", {}, { uid: "u2" })]);
    expect((await handles.create("net.c1", HANDLE)).revision).toBe("u2/8");
  });

  it("does not keep a create busy for ever", async () => {
    const round: Exchange[] = [
      [`POST ${ALL}`, EXISTS],
      [`GET ${ONE}`, marked("5")],
      [`DELETE ${ONE}`, CONFLICT],
    ];
    const { client, handles } = collection(...round, ...round, ...round);
    await expect(handles.create("net.c1", HANDLE)).rejects.toMatchObject({ failure: "already-exists" });
    expect(client.left).toEqual([]);
  });
});

describe("F9: a word that is not known", () => {
  it("is used as Calico uses it, and told to whoever logs", async () => {
    const path = `/apis/${LEGACY_GROUP}/ipamconfigs/default`;
    const spec = { kubeVirtVMAddressPersistence: "Sometimes", strictAffinity: true };
    const answer = { metadata: { name: "default", uid: "u1", resourceVersion: "5" }, spec };
    const damaged: DatastoreError[] = [];
    const api = new ResourceApi(new ScriptedClient([`GET ${path}`, answer]), async () => LEGACY_GROUP);
    const configurations = new ResourceCollection(api, configurationCodec, (error) => damaged.push(error));
    expect((await configurations.get("default"))?.value).toMatchObject(spec);
    expect(damaged.map(({ message }) => message)).toEqual([
      'IPAMConfig(default): kubeVirtVMAddressPersistence "Sometimes" is not known, and counts as Enabled',
    ]);
  });
});

describe("a block whose addresses cannot be read", () => {
  const path = `/apis/${LEGACY_GROUP}/ipamblocks`;
  const block = {
    metadata: { name: "10-40-0-8-29", uid: "u1", resourceVersion: "5" },
    spec: { cidr: "10.40.0.8/29", affinity: "host:worker-1", allocations: "none", unallocated: [0], sequenceNumber: 1 },
  };
  const blocks = (...script: readonly Exchange[]) =>
    new ResourceCollection(new ResourceApi(new ScriptedClient(...script), async () => LEGACY_GROUP), blockCodec);

  it("is among those of a list, and refused when somebody looks into it", async () => {
    const [listed] = await blocks([`GET ${path}?limit=500`, { metadata: {}, items: [block] }]).list();
    expect(listed?.value).toMatchObject({ cidr: "10.40.0.8/29", affinity: { type: "host", name: "worker-1" } });
    expect(() => listed?.value.allocations).toThrow(expect.objectContaining({ failure: "invalid" }));
  });

  it("is refused at once when it is read by itself", async () => {
    await expect(blocks([`GET ${path}/10-40-0-8-29`, block]).get("10.40.0.8/29")).rejects.toMatchObject({ failure: "invalid" });
  });
});

describe("a list", () => {
  const FIRST = `GET ${ALL}?limit=500`;
  const item = (name: string, spec: object = {}) => stored("5", { handleID: name, ...spec }, { name });

  it("is read page by page, leaving out what is marked or damaged", async () => {
    const { handles, damaged } = collection(
      [FIRST, { metadata: { continue: "a/b=" }, items: [item("net.c1"), item("net.c2", { deleted: true })] }],
      [
        `${FIRST}&continue=a%2Fb%3D`,
        { metadata: {}, items: [item("net.c3", { block: 7 }), { ...item("net.c4"), spec: 7 }, item("net.c5")] },
      ],
    );
    expect((await handles.list()).map(({ value }) => value.id)).toEqual(["net.c1", "net.c5"]);
    expect(damaged.map(({ message }) => message)).toEqual([
      expect.stringContaining("IPAMHandle(net.c3)"),
      expect.stringContaining("IPAMHandle(net.c4)"),
    ]);
  });

  it("that may be old comes from the server's memory, whole", async () => {
    const list = { metadata: { resourceVersion: "9" }, items: [item("net.c1"), item("net.c2", { deleted: true })] };
    const { client, handles } = collection(
      [`GET ${ALL}?resourceVersion=0`, list],
      [`GET ${ALL}?labelSelector=a%3Db&resourceVersion=0`, list],
      [FIRST, list],
    );
    expect((await handles.list({ mayBeOld: true })).map(({ value }) => value.id)).toEqual(["net.c1"]);
    expect(await handles.listSelected("a=b", { mayBeOld: true })).toHaveLength(1);
    expect(await handles.list({ mayBeOld: false })).toHaveLength(1);
    expect(client.left).toEqual([]);
  });

  it("is begun anew when its pages have expired, but not for ever", async () => {
    const expired: Exchange[] = [
      [FIRST, { metadata: { continue: "x" }, items: [item("net.old")] }],
      [`${FIRST}&continue=x`, { status: 410, reason: "Expired" }],
    ];
    const { handles } = collection(...expired, [FIRST, { metadata: {}, items: [item("net.new")] }]);
    expect((await handles.list()).map(({ value }) => value.id)).toEqual(["net.new"]);
    await expect(collection(...expired, ...expired, ...expired).handles.list()).rejects.toMatchObject({ name: "DatastoreError" });
  });

  it("of a kind that the server does not have says what to look at", async () => {
    await expect(collection([FIRST, MISSING]).handles.list()).rejects.toMatchObject({
      failure: "not-found",
      message: expect.stringContaining("crd.projectcalico.org/v1 (are Calico's CRDs installed"),
    });
  });

  it("that is no list is refused", async () => {
    for (const answer of ["<html>", { items: "none" }]) {
      await expect(collection([FIRST, answer]).handles.list()).rejects.toMatchObject({ failure: "invalid" });
    }
  });
});
