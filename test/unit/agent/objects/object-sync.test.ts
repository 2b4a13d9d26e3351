/** Objects of endpoints, on an API server in memory: made, corrected, left to others, and deleted. */
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DeleteJobs } from "../../../../agent/objects/delete-jobs.ts";
import { decodeStored, type ObjectEndpoint } from "../../../../agent/objects/endpoint-object.ts";
import { ObjectApi } from "../../../../agent/objects/object-api.ts";
import { ObjectSync } from "../../../../agent/objects/object-sync.ts";
import { Leftovers } from "../../../../agent/objects/start.ts";
import type { NumberedLabels } from "../../../../agent/policy/identities/lookup.ts";
import type { RecordedObject } from "../../../../handover/record.ts";
import { ApiError, type HttpMethod } from "../../../../lib/kubernetes/api-client.ts";
import type { Pod } from "../../../../lib/kubernetes/objects.ts";
import { Tasks } from "../../../../lib/resident/tasks.ts";
import { NEVER } from "../../../../lib/system/waiting.ts";
import { ApiInMemory } from "../../../support/api-in-memory.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const ROOT = "/apis/tortie.dev/v1alpha1";
const WEB = `${ROOT}/namespaces/shop/tortieendpoints/web`;

const directory = fresh(() => new TemporaryDirectory());

class World implements AsyncDisposable {
  readonly directory = directory.path;
  readonly api = new ApiInMemory();
  readonly clock = new FakeClock();
  readonly controllers = new Tasks({ clock: this.clock });
  readonly endpoints: ObjectEndpoint[] = [];
  readonly pods = new Map<string, Pick<Pod, "uid" | "ports">>([["shop/web", { uid: "pod-1", ports: [] }]]);
  identity: NumberedLabels | undefined;
  readonly remembered: (readonly [number, RecordedObject])[] = [];
  /** "shop/web node2" where another node has made the object, "shop/web undefined" where that is over. */
  readonly foreign: string[] = [];
  readonly problems: string[] = [];
  /** The watch has not shown the object yet. */
  isBlind = false;
  readonly jobs: DeleteJobs;
  readonly sync: ObjectSync;
  readonly objects: ObjectApi;

  constructor() {
    const { clock, controllers, directory } = this;
    const ask =
      (method: HttpMethod) =>
      async ({ namespace, name, body }: { namespace: string; name?: string; body?: unknown }) => {
        const path = `${ROOT}/namespaces/${namespace}/tortieendpoints${name === undefined ? "" : `/${name}`}`;
        try {
          return JSON.parse(await this.api.request({ method, path, ...(body === undefined ? {} : { body: JSON.stringify(body) }) }));
        } catch (error) {
          throw error instanceof ApiError ? Object.assign(new Error(error.message), { code: error.status }) : error;
        }
      };
    this.objects = new ObjectApi(
      {
        getNamespacedCustomObject: ask("GET"),
        createNamespacedCustomObject: ask("POST"),
        patchNamespacedCustomObject: ask("PATCH"),
        patchNamespacedCustomObjectStatus: ask("PATCH"),
        deleteNamespacedCustomObject: ask("DELETE"),
      },
      { clock, qps: 100 },
    );
    this.jobs = this.newJobs();
    const cache = this.cache();
    this.sync = new ObjectSync({
      node: { name: "node1", address: "192.0.2.1" },
      api: this.objects,
      jobs: this.jobs,
      source: {
        endpoints: () => this.endpoints,
        pod: (key) => this.pods.get(key),
        identity: () => this.identity,
        remember: (id, object) => {
          this.remembered.push([id, object]);
          const index = this.endpoints.findIndex((one) => one.id === id);
          const endpoint = this.endpoints[index];
          if (endpoint !== undefined) this.endpoints[index] = { ...endpoint, object };
        },
      },
      cache: { ...cache, isUsable: true, get: (key) => (this.isBlind ? undefined : cache.get(key)) },
      controllers,
      clock,
      onForeign: (pod, node) => void this.foreign.push(`${pod} ${node}`),
    });
    expect(readdirSync(directory)).toEqual([]);
  }

  cache() {
    return this.api.watch({ name: "tortieendpoints", path: `${ROOT}/tortieendpoints`, decode: decodeStored });
  }

  newJobs(): DeleteJobs {
    const { directory, objects: api } = this;
    return new DeleteJobs({ directory, api, onAdded: () => {}, onProblem: (message) => this.problems.push(message) });
  }

  /** Changes what the agent has, and lets the object follow. */
  async changed(changes: Partial<ObjectEndpoint> = {}): Promise<void> {
    const endpoint: ObjectEndpoint = { ...ENDPOINT, ...changes };
    const index = this.endpoints.findIndex(({ id }) => id === endpoint.id);
    if (index < 0) this.endpoints.push(endpoint);
    else this.endpoints[index] = endpoint;
    this.sync.changed(endpoint);
    await this.clock.advance(100);
  }

  get object() {
    return this.api.get(WEB);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.controllers[Symbol.asyncDispose]();
  }
}

const world = fresh(() => new World());

const ENDPOINT: ObjectEndpoint = {
  id: 4,
  attachment: { network: "net1", containerId: "c1", ifname: "eth0" },
  addresses: [{ address: "10.60.0.1", family: 4, grant: "block", handle: "net1.c1" }],
  pod: "shop/web",
  podUID: "pod-1",
  state: "not-ready",
};

describe("The object of an endpoint", () => {
  it("is made with its owner, its content and its state, and remembered", async () => {
    await world.changed();
    expect(world.object).toMatchObject({
      metadata: { labels: { "tortie.dev/node": "node1" }, ownerReferences: [{ kind: "Pod", name: "web", uid: "pod-1" }] },
      spec: { id: 4, node: "node1", podUID: "pod-1", networking: { node: "192.0.2.1", addressing: [{ ipv4: "10.60.0.1" }] } },
      status: { state: "not-ready" },
    });
    const { uid, resourceVersion } = decodeStored(world.object ?? {});
    expect(world.remembered.at(-1)).toEqual([4, { uid, resourceVersion }]);
  });

  it("is not written again while it says what it should, and follows each change", async () => {
    await world.changed();
    world.api.writes.length = 0;
    await world.changed();
    await world.clock.advance(60_000);
    expect(world.api.writes).toEqual([]);
    await world.changed({ state: "ready" });
    expect([world.object, world.api.writes]).toMatchObject([{ status: { state: "ready" } }, [`PATCH ${WEB}`]]);
    await world.changed({ state: "ready", addresses: [] });
    expect(world.object).toMatchObject({ spec: { addresses: [], networking: { addressing: [] } } });
  });

  it("counts as the server answered it until the watch can be expected to know", async () => {
    world.isBlind = true;
    await world.changed();
    const asked: string[] = [];
    world.api.before = ({ method }) => void asked.push(method);
    await world.changed({ state: "ready" });
    expect([asked, world.object]).toMatchObject([["PATCH"], { status: { state: "ready" } }]);
    world.api.remove(WEB);
    await world.clock.advance(30_000);
    expect(world.object).toBeDefined();
  });

  it("is corrected where somebody has changed it, members that it should not have included", async () => {
    await world.changed({ state: "ready" });
    const uid = decodeStored(world.object ?? {}).uid;
    world.api.put(WEB, {
      metadata: { uid, labels: {} },
      spec: { id: 9, node: "node1", podUID: "pod-1", more: 1 },
      status: { state: "ready" },
    });
    await world.clock.advance(60_000);
    expect(world.object).toMatchObject({ metadata: { labels: { "tortie.dev/node": "node1" } }, spec: { id: 4 } });
    expect(world.object?.spec).not.toHaveProperty("more");
  });

  it("is patched once more when somebody was faster, and left for the next run when it is another one", async () => {
    await world.changed();
    let patches = 0;
    world.api.before = ({ method }) => {
      if (method !== "PATCH" || ++patches > 1) return;
      const { uid, spec } = decodeStored(world.object ?? {});
      world.api.put(WEB, { metadata: { uid }, spec: { ...JSON.parse(JSON.stringify(spec)) }, status: { state: "not-ready" } });
    };
    await world.changed({ state: "ready" });
    expect([patches >= 2, decodeStored(world.object ?? {}).state]).toEqual([true, "ready"]);
  });

  it("of an older pod of that name is replaced", async () => {
    world.api.put(WEB, { metadata: { uid: "old" }, spec: { node: "node1", podUID: "pod-0" } });
    await world.changed();
    expect(world.object).toMatchObject({ spec: { podUID: "pod-1" } });
    expect(decodeStored(world.object ?? {}).uid).not.toBe("old");
  });

  it("that another node has made is left alone, and that is told until it is over", async () => {
    world.api.put(WEB, { metadata: { uid: "theirs" }, spec: { node: "node2", podUID: "pod-1" } });
    await world.changed();
    expect([world.foreign.at(-1), world.object]).toMatchObject(["shop/web node2", { spec: { node: "node2" } }]);
    world.api.remove(WEB);
    await world.clock.advance(60_000);
    expect(world.object).toMatchObject({ spec: { node: "node1" } });
  });

  it("is none of a pod that is gone or made anew, nor of the second endpoint of a pod", async () => {
    world.pods.set("shop/web", { uid: "pod-2", ports: [] });
    await world.changed();
    world.pods.delete("shop/web");
    await world.changed();
    expect(world.object).toBeUndefined();
    world.pods.set("shop/web", { uid: "pod-1", ports: [] });
    await world.changed();
    await world.changed({ id: 5, attachment: { network: "net2", containerId: "c1", ifname: "net1" } });
    expect(world.object).toMatchObject({ spec: { id: 4 } });
  });

  it("shows the other endpoint of its pod when its own is removed, and is deleted with the last one", async () => {
    await world.changed();
    await world.changed({ id: 5, attachment: { network: "net2", containerId: "c1", ifname: "net1" } });
    const [first, second] = world.endpoints.splice(0, 1).concat(world.endpoints);
    if (first === undefined || second === undefined) throw new Error("there are two");
    await world.sync.removed(first);
    await world.clock.advance(60_000);
    expect([world.object, world.jobs.count]).toMatchObject([{ spec: { id: 5 } }, 0]);
    world.endpoints.length = 0;
    await world.sync.removed(second);
    expect(world.jobs.count).toBe(1);
    await world.jobs.runAll(NEVER);
    expect([world.object, world.jobs.count]).toEqual([undefined, 0]);
    expect(world.foreign.at(-1)).toBe("shop/web undefined");
  });

  it("is not deleted any more when it is wanted again", async () => {
    await world.changed();
    const { uid } = decodeStored(world.object ?? {});
    world.jobs.add({ namespace: "shop", name: "web", uid });
    await world.changed();
    expect(world.jobs.count).toBe(0);
  });

  it("has the number of the pod's labels when there is one, and another one when they change", async () => {
    const identityOf = () => Object(world.object?.spec).identity;
    world.identity = { number: 0, labels: ["k8s:app=web"] };
    await world.changed();
    expect([world.object?.spec, identityOf()]).toEqual([expect.objectContaining({ id: 4 }), undefined]);
    for (const number of [70_000, 70_001]) {
      world.identity = { number, labels: [`k8s:app=${number}`] };
      await world.clock.advance(10_000);
      expect(identityOf()).toEqual({ id: number, labels: [`k8s:app=${number}`] });
    }
  });

  it("names the ports of its pod, in the order of their names", async () => {
    const port = (name: string, containerPort: number) => ({ name, containerPort, protocol: "", hostPort: 0, hostIP: "" });
    world.pods.set("shop/web", { uid: "pod-1", ports: [port("", 1)] });
    await world.changed();
    expect(world.object?.spec).not.toHaveProperty("named-ports");
    world.pods.set("shop/web", { uid: "pod-1", ports: [port("http", 80)] });
    await world.changed();
    expect(world.object).toMatchObject({ spec: { "named-ports": [{ name: "http", port: 80, protocol: "TCP" }] } });
    world.pods.set("shop/web", { uid: "pod-1", ports: [port("http", 80), port("dns", 53)] });
    await world.changed();
    expect(world.object).toMatchObject({ spec: { "named-ports": [{ name: "dns" }, { name: "http" }] } });
  });

  it("of the newest sandbox is shown, the pod's own interface before others", async () => {
    await world.changed({ id: 7, committedAt: "2030-01-01T00:00:00Z" });
    await world.changed({ id: 6, committedAt: "2030-01-02T00:00:00Z" });
    await world.changed({ id: 9, committedAt: "2030-01-03T00:00:00Z", attachment: { network: "net2", containerId: "c1", ifname: "net1" } });
    await world.clock.advance(60_000);
    expect(world.object).toMatchObject({ spec: { id: 6 } });
  });
});

describe("A deletion that must happen", () => {
  const job = { namespace: "shop", name: "web", uid: "u1" };

  it("outlives the process, and is over when the object is gone or another one", async () => {
    world.jobs.add(job);
    world.jobs.add({ ...job, uid: "u2", name: "other" });
    writeFileSync(join(world.directory, "broken.json"), "{");
    const again = world.newJobs();
    expect([again.count, world.problems]).toEqual([2, [expect.stringContaining("broken.json is no job")]]);
    world.api.put(WEB, { metadata: { uid: "another" }, spec: {} });
    await again.runAll(NEVER);
    expect([again.count, world.object]).toEqual([0, expect.anything()]);
    expect(readdirSync(world.directory)).toEqual(["broken.json"]);
  });

  it("of an object that was changed since is done with its present version", async () => {
    world.api.put(WEB, { metadata: { uid: "u1" }, spec: {} });
    world.jobs.add({ ...job, resourceVersion: "0" });
    await world.jobs.runAll(NEVER);
    expect([world.object, world.jobs.count]).toEqual([undefined, 0]);
  });

  it("that fails stays, and says why; what was cancelled is not done", async () => {
    world.api.put(WEB, { metadata: { uid: "u1" }, spec: {} });
    world.jobs.add(job);
    world.api.before = () => {
      throw new ApiError("arranged", { status: 503 });
    };
    await expect(world.jobs.runAll(NEVER)).rejects.toThrow("1 objects are still to be deleted: shop/web: the API server answered 503");
    expect(world.jobs.count).toBe(1);
    world.api.before = () => undefined;
    world.jobs.cancel("u1");
    await world.jobs.runAll(NEVER);
    expect([world.object, readdirSync(world.directory)]).toEqual([expect.anything(), []]);
  });

  it("waits when the agent ends", async () => {
    world.api.put(WEB, { metadata: { uid: "u1" }, spec: {} });
    world.jobs.add(job);
    await world.jobs.runAll(AbortSignal.abort());
    expect([world.object, world.jobs.count]).toEqual([expect.anything(), 1]);
  });
});

describe("An object that no endpoint stands behind", () => {
  async function looking(work: (look: () => Promise<number>, facts: { isRestored: boolean }) => Promise<void>) {
    const facts = { isRestored: true };
    const leftovers = new Leftovers({
      node: "node1",
      cache: world.cache(),
      source: { endpoints: () => world.endpoints },
      jobs: world.jobs,
      clock: world.clock,
      isRestored: () => facts.isRestored,
    });
    world.api.put(WEB, { metadata: { uid: "u1" }, spec: { node: "node1", podUID: "pod-1" } });
    const look = async () => {
      const count = leftovers.look();
      await world.clock.advance(30_000);
      return count;
    };
    await work(look, facts);
  }

  it("goes after two looks a minute apart", () =>
    looking(async (look) => {
      expect([await look(), await look(), await look()]).toEqual([0, 0, 1]);
      expect(world.jobs.count).toBe(1);
    }));

  it("stays while an endpoint of its pod is there, or it is another node's, or is being deleted", () =>
    looking(async (look) => {
      world.endpoints.push(ENDPOINT);
      world.api.put(`${ROOT}/namespaces/shop/tortieendpoints/far`, { spec: { node: "node2" } });
      const metadata = { finalizers: ["example.org/theirs"], deletionTimestamp: "2030-01-01T00:00:00Z" };
      world.api.put(`${ROOT}/namespaces/shop/tortieendpoints/going`, { metadata, spec: { node: "node1" } });
      for (let count = 0; count < 6; count++) expect(await look()).toBe(0);
      world.endpoints.splice(0, 1, { ...ENDPOINT, podUID: "pod-2" });
      expect([await look(), await look(), await look()]).toEqual([0, 0, 1]);
    }));

  it("is looked at anew after a gap, before everything is restored, and after an endpoint came and went", () =>
    looking(async (look, facts) => {
      for (const interrupt of [
        (is: boolean) => (world.api.followedSince = is ? undefined : 0),
        (is: boolean) => (world.api.isSynced = !is),
        (is: boolean) => (facts.isRestored = !is),
        (is: boolean) => void (is ? world.endpoints.push(ENDPOINT) : world.endpoints.pop()),
      ]) {
        expect([await look(), await look()]).toEqual([0, 0]);
        interrupt(true);
        expect(await look()).toBe(0);
        interrupt(false);
      }
      expect([await look(), await look(), await look()]).toEqual([0, 0, 1]);
    }));
});
