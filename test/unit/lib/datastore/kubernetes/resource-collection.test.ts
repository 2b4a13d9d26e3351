import type { DatastoreError } from "../../../../../lib/datastore/datastore.ts";
import { handleCodec } from "../../../../../lib/datastore/kubernetes/codecs/handle-codec.ts";
import { LEGACY_GROUP } from "../../../../../lib/datastore/kubernetes/group.ts";
import { ResourceApi } from "../../../../../lib/datastore/kubernetes/resource-api.ts";
import { ResourceCollection } from "../../../../../lib/datastore/kubernetes/resource-collection.ts";
import type { Handle } from "../../../../../lib/datastore/resources.ts";
import { turns } from "../../../../../lib/system/turns.ts";
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

  it("is written by what was made ready, once that is called and not before", async () => {
    const { client, handles } = collection([`PUT ${ONE}`, stored("6")], [`PUT ${ONE}`, CONFLICT], [`PUT ${ONE}`, "no object"]);
    const write = await handles.prepareUpdate("net.c1", HANDLE, "u1/5");
    const late = await handles.prepareUpdate("net.c1", HANDLE, "u1/5");
    const unread = await handles.prepareUpdate("net.c1", HANDLE, "u1/6");
    expect(client.asked).toEqual([]);
    expect((await write())().revision).toBe("u1/6");
    await expect(late()).rejects.toMatchObject({ failure: "conflict" });
    // What nobody asks for is not looked into.
    await unread();
    expect(client.sent(0)).toMatchObject({ metadata: { uid: "u1", resourceVersion: "5" }, spec: { block: HANDLE.blocks } });
    expect(client.left).toEqual([]);
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
    const { handles } = collection(
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
    const { handles } = collection([`PUT ${ONE}`, other], [`DELETE ${ONE}`, other], [`PUT ${ONE}`, MISSING], [`DELETE ${ONE}`, MISSING]);
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

  it("is written back with what it had beside the model, but only over the revision that had it", async () => {
    const labels = { "x.org/l": "1" };
    const foreign = { ...stored("5", { newField: 1 }, { labels, finalizers: ["x.org/f"], generation: 3 }), status: { seen: true } };
    const { client, handles } = collection([`GET ${ONE}`, foreign], [`PUT ${ONE}`, stored("6")], [`PUT ${ONE}`, CONFLICT]);
    await handles.get("net.c1");
    await handles.update("net.c1", HANDLE, "u1/5");
    expect(client.sent(1)).toMatchObject({ metadata: { labels, finalizers: ["x.org/f"] }, spec: { newField: 1 }, status: { seen: true } });
    expect(client.sent(1)).not.toHaveProperty("metadata.generation");
    await expect(handles.update("net.c1", HANDLE, "u1/5")).rejects.toMatchObject({ failure: "conflict" });
    expect(client.sent(2)).toEqual({ ...stored(), metadata: { name: "net.c1", uid: "u1", resourceVersion: "5" } });
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
    const done = collection([`PUT ${ONE}`, { ...CONFLICT, isRepetition: true }], [`GET ${ONE}`, stored("6", { block: next.blocks })]);
    expect(await done.handles.update("net.c1", next, "u1/5")).toEqual({ value: next, revision: "u1/6" });
    const anew = collection(
      [`PUT ${ONE}`, { ...CONFLICT, isRepetition: true }],
      [`GET ${ONE}`, stored("6", { block: next.blocks }, { uid: "u2" })],
    );
    await expect(anew.handles.update("net.c1", next, "u1/5")).rejects.toMatchObject({ failure: "conflict" });
    const marking = collection(
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
    const { client, handles } = collection([`PUT ${ONE}`, lost], [`GET ${ONE}`, { status: 403 }]);
    await expect(handles.update("net.c1", HANDLE, "u1/5")).rejects.toMatchObject({
      failure: "unavailable",
      message: expect.stringContaining("PUT"),
    });
    expect(client.asked[1]?.timeoutMs).toBeLessThanOrEqual(5000);
  });

  it("is not looked for when the server answered the first time", async () => {
    const { client, handles } = collection([`PUT ${ONE}`, CONFLICT], [`DELETE ${ONE}`, MISSING]);
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

describe("an object that is asked for ahead", () => {
  it("is asked for at once and once, and the next reader has that answer, the one after it a new one", async () => {
    const { client, handles } = collection([`GET ${ONE}`, stored("5")], [`GET ${ONE}`, stored("6")]);
    handles.ahead("net.c1");
    handles.ahead("net.c1");
    await turns(1);
    expect(client.asked).toHaveLength(1);
    expect((await handles.get("net.c1"))?.revision).toBe("u1/5");
    expect(client.asked).toHaveLength(1);
    expect((await handles.get("net.c1"))?.revision).toBe("u1/6");
    expect(client.asked).toHaveLength(2);
  });

  it("and is missing is missing for its reader", async () => {
    const { client, handles } = collection([`GET ${ONE}`, MISSING], [`GET ${ONE}`, stored("6")]);
    handles.ahead("net.c1");
    expect(await handles.get("net.c1")).toBeUndefined();
    expect(await handles.get("net.c1")).toEqual({ value: HANDLE, revision: "u1/6" });
    expect(client.left).toEqual([]);
  });

  it.each([
    ["the server refuses it", { status: 403, reason: "Forbidden" }, "unauthorized"],
    ["the server is away", { status: 0 }, "unavailable"],
    ["it is damaged", { metadata: { name: "net.c1" }, spec: {} }, "invalid"],
  ])("fails for its reader, and for nobody else: %s", async (_, answer, failure) => {
    const { handles } = collection([`GET ${ONE}`, answer], [`GET ${ONE}`, stored("6")]);
    handles.ahead("net.c1");
    await turns(2);
    await expect(handles.get("net.c1")).rejects.toMatchObject({ failure, message: expect.stringContaining("IPAMHandle(net.c1)") });
    expect(await handles.get("net.c1")).toMatchObject({ revision: "u1/6" });
  });

  it("and marked deleted is removed on the way when it is read, not before", async () => {
    const { client, handles } = collection([`GET ${ONE}`, marked("5")], [`DELETE ${ONE}`, { kind: "Status" }]);
    handles.ahead("net.c1");
    await turns(2);
    expect(client.left).toEqual([`DELETE ${ONE}`]);
    expect(await handles.get("net.c1")).toBeUndefined();
    expect(client.left).toEqual([]);
  });

  it.each<[string, Exchange, (handles: ResourceCollection<string, Handle>) => Promise<unknown>]>([
    ["made", [`POST ${ALL}`, stored("6")], (handles) => handles.create("net.c1", HANDLE)],
    ["written", [`PUT ${ONE}`, stored("6")], (handles) => handles.update("net.c1", HANDLE, "u1/5")],
    ["removed", [`DELETE ${ONE}`, { kind: "Status" }], (handles) => handles.delete("net.c1", "u1/5")],
    ["written in vain", [`PUT ${ONE}`, CONFLICT], (handles) => handles.update("net.c1", HANDLE, "u1/5").catch(() => {})],
  ])("is asked for again when it was %s in between", async (_, exchange, write) => {
    const { client, handles } = collection([`GET ${ONE}`, stored("5")], exchange, [`GET ${ONE}`, stored("7")]);
    handles.ahead("net.c1");
    await turns(1);
    await write(handles);
    expect(await handles.get("net.c1")).toMatchObject({ revision: "u1/7" });
    expect(client.left).toEqual([]);
  });

  it("is not forgotten when another one is written", async () => {
    const { client, handles } = collection([`GET ${ONE}`, stored("5")], [`DELETE ${ALL}/net.c2`, { kind: "Status" }]);
    handles.ahead("net.c1");
    await turns(1);
    await handles.delete("net.c2", "u2/1");
    expect(await handles.get("net.c1")).toMatchObject({ revision: "u1/5" });
    expect(client.left).toEqual([]);
  });

  it("costs nothing when there can be no such object", async () => {
    const { client, handles } = collection();
    handles.ahead("net.a_1");
    await turns(2);
    expect(await handles.get("net.a_1")).toBeUndefined();
    expect(client.asked).toEqual([]);
  });
});
