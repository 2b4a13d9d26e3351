import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { EndpointManager } from "../../../../agent/endpoints/manager.ts";
import type { BuildReport } from "../../../../agent/endpoints/mending.ts";
import { RecordStore } from "../../../../agent/endpoints/store.ts";
import type { EndpointRecord } from "../../../../handover/record.ts";
import { Tasks } from "../../../../lib/resident/tasks.ts";
import { NEVER } from "../../../../lib/system/waiting.ts";
import { recordOf } from "../../../support/endpoint-record.ts";
import { FakeClock, settled } from "../../../support/fake-clock.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const directory = fresh(() => new TemporaryDirectory());

const clock = fresh(() => new FakeClock());
const store = fresh(() => new RecordStore(directory.path));
let errors: string[];
let builds: BuildReport[];
beforeEach(() => {
  errors = [];
  builds = [];
});

function managerOf(mend: () => Promise<void> = async () => {}, maxEndpoints?: number): EndpointManager {
  return new EndpointManager({
    store,
    bootId: "boot-1",
    maxEndpoints,
    clock,
    controllers: new Tasks({ clock }),
    mend,
    log: { error: (message) => errors.push(message) },
    onBuilt: (report) => builds.push(report),
  });
}

const manager = fresh(() => managerOf());

function begin(manager: EndpointManager, containerId = "cid1", changes: Partial<EndpointRecord> = {}) {
  const { netns, podInterface, linkForm, attachment, addresses, pod } = recordOf(0, changes);
  return manager.begin({ netns, podInterface, linkForm, attachment: { ...attachment, containerId }, addresses, pod });
}

async function added(manager: EndpointManager, containerId = "cid1", changes: Partial<EndpointRecord> = {}): Promise<EndpointRecord> {
  const record = await begin(manager, containerId, changes);
  return manager.commit({ ...(await manager.build(record, NEVER)), ...changes });
}

/** What never ends, whatever its signal says. */
const hanging = () => new Promise<never>(() => {});

describe("an endpoint from its first record to its last", () => {
  it("is journalled first, seen when it is built, ready when it is committed", async () => {
    const record = await begin(manager);
    expect(store.read(record.id)).toMatchObject({ kind: "record", record: { phase: "creating" } });
    expect(manager.endpoints()).toEqual([]);
    expect(() => manager.named(String(record.id))).toThrow("endpoint not found");

    await manager.commit(await manager.build(record, NEVER));

    const endpoint = manager.named(`attachment:cid1:eth0`);
    expect([endpoint.state, endpoint.record.phase]).toEqual(["ready", "ready"]);
    expect(store.read(record.id)).toMatchObject({ record: { phase: "ready", committedAt: expect.any(String) } });
  });

  it("leaves no trace but in gone/ when it is removed, and its id rests", async () => {
    const record = await added(manager);
    const events: string[] = [];
    manager.onChange((event) => events.push(event));
    await manager.remove(await manager.write({ ...record, phase: "deleting:begun" }));
    expect(manager.endpoints()).toEqual([]);
    expect(store.ids()).toEqual([]);
    const [gone = ""] = readdirSync(join(directory.path, "gone"));
    expect(readdirSync(join(directory.path, "gone", gone)).sort()).toEqual(["endpoint.json", "log.jsonl"]);
    expect(readFileSync(join(directory.path, "gone", gone, "log.jsonl"), "utf8")).toContain("Endpoint is removed");
    expect((await begin(manager)).id).not.toBe(record.id);
    expect(events).toEqual(["removing", "gone"]);
  });

  it("leaves no trace at all when its ADD is taken back", async () => {
    await manager.discard(await begin(manager));
    expect(readdirSync(directory.path)).toEqual([]);
    expect(manager.list()).toEqual([]);
  });

  it("A-L03: has its removal put off after 10 s while its build hangs at the link, and removed when that has ended", async () => {
    const build = Promise.withResolvers<void>();
    const manager = managerOf(() => build.promise);
    const record = await added(manager);
    manager.finishBy(async (known) => manager.remove(await manager.write(known)));
    manager.get(record.id)?.mending.trigger({ level: 2, reason: "by a test" });
    await settled();
    expect(manager.get(record.id)?.state).toBe("regenerating");

    let thrown: unknown;
    const removal = manager.write({ ...record, phase: "deleting:begun" }).catch((error: unknown) => {
      thrown = error;
    });
    await clock.advance(9_999);
    expect(thrown).toBeUndefined();
    await clock.advance(1);
    await removal;
    expect(thrown).toMatchObject({ word: "link-delete-timeout" });
    expect(errors[0]).toContain("its build does not end");
    build.resolve();
    await clock.advance(60_000);
    expect(manager.list()).toEqual([]);
  });

  it("is not added when its first build takes longer than 45 s, or nobody waits any more", async () => {
    const manager = managerOf(hanging);
    /** The links have just been made: only somebody else's wish has them compared in the first build. */
    const building = (record: EndpointRecord, signal = NEVER) => {
      const built = manager.build(record, signal);
      manager.get(record.id)?.mending.trigger({ level: 1, reason: "by a test" });
      return built;
    };
    const late = expect(building(await begin(manager, "late"))).rejects.toMatchObject({ word: "build-timeout" });
    await clock.advance(45_000);
    await late;
    const controller = new AbortController();
    const gone = expect(building(await begin(manager, "gone"), controller.signal)).rejects.toThrow("caller gone");
    controller.abort(new Error("caller gone"));
    await gone;
  });

  it("is removed again and again until nothing is left", async () => {
    const record = await added(manager);
    let tries = 0;
    manager.finishBy(async (known) => {
      if (++tries < 4) throw new Error("the store is away");
      await manager.remove(known);
    });
    const deleting = await manager.write({ ...record, phase: "deleting:begun" });
    await manager.retry(deleting, new Error("the store is away"));
    expect(manager.get(record.id)?.state).toBe("disconnecting");
    expect(existsSync(join(directory.path, String(record.id), "endpoint.json"))).toBe(true);
    await clock.advance(60_000);
    expect(tries).toBe(4);
    expect(manager.list()).toEqual([]);
    await clock.advance(600_000);
    expect(tries).toBe(4);
  });

  it("is removed again when a try has left it without an error", async () => {
    const left = recordOf(1, { phase: "deleting:link" });
    store.create(left);
    manager.restore(left);
    let tries = 0;
    manager.finishBy(async () => {
      if (++tries === 3) await manager.remove(left);
    });
    await clock.advance(60_000);
    expect([tries, manager.list()]).toEqual([3, []]);
  });

  it("that was there before the agent gets an id, a record on disk and a build, and is told of", async () => {
    const told: string[] = [];
    manager.onChange((event) => told.push(event));
    const { id: _, phase: __, bootId: ___, createdAt: ____, updatedAt: _____, ...found } = recordOf(0, { pod: "default/web" });
    const { id } = manager.takeOver({ ...found, takenOver: "with-arguments" });
    await settled();
    expect(manager.named("pod-name:default/web")).toMatchObject({ id, state: "ready" });
    expect(store.read(id)).toMatchObject({ record: { id, bootId: "boot-1", phase: "ready", takenOver: "with-arguments" } });
    expect(told).toEqual(["adopted"]);
  });
});

describe("an endpoint that another process left", () => {
  it("has its id and its names when it is restored, whatever comes after it", async () => {
    const manager = managerOf(undefined, 2);
    manager.restore(recordOf(1, { pod: "default/web" }));
    expect(manager.named("pod-name:default/web")).toMatchObject({ id: 1, state: "restoring" });
    expect((await begin(manager)).id).toBe(2);
    await expect(begin(manager, "third")).rejects.toMatchObject({ word: "endpoint-ids-exhausted" });
  });

  it("and whose record cannot be read keeps its id from being given for a minute", async () => {
    const manager = managerOf(undefined, 1);
    manager.rest(1);
    await expect(begin(manager)).rejects.toMatchObject({ word: "endpoint-ids-exhausted" });
    await clock.advance(60_000);
    expect((await begin(manager)).id).toBe(1);
  });
});

describe("an id", () => {
  it("rests and is given again when its first record cannot be written", async () => {
    const manager = managerOf(undefined, 1);
    const create = jest.spyOn(RecordStore.prototype, "create").mockImplementation(() => {
      throw new Error("disk full");
    });
    await expect(begin(manager)).rejects.toThrow("disk full");
    await clock.advance(60_000);
    create.mockRestore();
    expect((await begin(manager)).id).toBe(1);
  });
});

describe("an endpoint", () => {
  it("is found by name from its first build on", async () => {
    await manager.build(await begin(manager), NEVER);
    expect(manager.named("attachment:cid1:eth0").state).toBe("waiting-for-identity");
  });

  it("can be committed without a build, and tells those who listen, whatever one of them throws", async () => {
    const events: string[] = [];
    manager.onChange(() => {
      throw new Error("deaf");
    });
    manager.onChange((event, { id }) => events.push(`${event} ${id}`));
    const record = await manager.commit(await begin(manager));
    expect(manager.named("attachment:cid1:eth0").state).toBe("ready");
    await manager.discard(await begin(manager, "cid2"));
    await manager.remove(record);
    expect(events).toEqual([`ready ${record.id}`, "removing 2", "gone 2", `removing ${record.id}`, `gone ${record.id}`]);
    expect(errors).toContain(`endpoint ${record.id}: deaf`);
  });

  it("has no name any more once its removal has begun, and none is begun twice", async () => {
    const record = await added(manager, "cid1", { pod: "default/web" });
    const events: string[] = [];
    manager.onChange((event) => events.push(event));
    await manager.write({ ...record, phase: "adding:build" });
    expect(events).toEqual([]);
    await manager.write({ ...record, phase: "deleting:begun" });
    await manager.write({ ...record, phase: "deleting:link" });
    expect(() => manager.named("pod-name:default/web")).toThrow(expect.objectContaining({ word: "endpoint-unknown" }));
    expect(events).toEqual(["removing"]);
  });
});

describe("names of endpoints", () => {
  it("A-P02: of each kind lead to the endpoint; an unknown prefix and a bad value are refused", async () => {
    const { id } = await added(manager, "cid1", {
      pod: "default/web",
      addresses: [
        { address: "10.0.0.5", family: 4, grant: "block" },
        { address: "fd00::5", family: 6, grant: "block" },
      ],
    });
    const hexadecimal = `0x${id.toString(16)}`;
    const names = [`${id}`, `local:${id}`, `cilium-local:${hexadecimal}`, "container-id:cid1", "attachment:cid1:eth0"];
    names.push("cni-attachment-id:cid1:eth0", "pod-name:default/web", "pod-name:default:web", "ipv4:10.0.0.5", "ipv6:fd00:0::5");
    expect(names.map((name) => [name, manager.named(name).id])).toEqual(names.map((name) => [name, id]));
    expect(() => manager.named("docker-endpoint:x")).toThrow('unknown endpoint ID prefix "docker-endpoint"');
    for (const bad of ["65536", "x", "-1", "ipv4:fd00::5", "pod-name:web", "attachment:cid1"]) {
      expect(() => manager.named(bad)).toThrow(expect.objectContaining({ word: "endpoint-name-invalid" }));
    }
    for (const absent of ["65535", "container-id:cid", "pod-name:default/we", "ipv4:10.0.0.6"]) {
      expect(() => manager.named(absent)).toThrow(expect.objectContaining({ word: "endpoint-unknown" }));
    }
  });

  it("lead to the newer sandbox of a pod when the older one is removed, and are ambiguous until then", async () => {
    const older = await added(manager, "older", { pod: "default/web" });
    const newer = await added(manager, "newer", { pod: "default/web" });
    expect(() => manager.named("pod-name:default/web")).toThrow(
      /is the name of 2 endpoints: .*attachment:older:eth0.*attachment:newer:eth0/,
    );
    await manager.remove(older);
    expect(manager.named("pod-name:default/web").id).toBe(newer.id);
  });
});
