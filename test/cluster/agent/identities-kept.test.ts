/** Identities that agents keep without a controller: several of them in a real etcd, or in one file. The hours are the test's. */
import { join } from "node:path";
import { KeptIdentities } from "../../../agent/policy/identities/kept.ts";
import type { Environment } from "../../../lib/cni/protocol.ts";
import { decodeNetworkConfig, type NetworkConfig } from "../../../lib/config/decode.ts";
import { openDatastore } from "../../../lib/datastore/open.ts";
import type { StoredIdentity } from "../../../lib/identity/identity-object.ts";
import { type LabelSet, labelSetOf, labelsOfPod } from "../../../lib/identity/labels.ts";
import { candidatesOf } from "../../../lib/identity/numbers.ts";
import { type Clock, SYSTEM_CLOCK } from "../../../lib/system/waiting.ts";
import { startEtcd } from "../../support/etcd/etcd.ts";
import { fresh, shared, TemporaryDirectory } from "../../support/fixtures.ts";
import { until } from "../../support/kubernetes/until.ts";
import { workloadEndpointOf } from "../../support/workload-endpoint.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const LIMIT = () => AbortSignal.timeout(30_000);

const setOf = (app: string): LabelSet =>
  labelSetOf(labelsOfPod({ namespace: "shop", labels: { app }, serviceAccountName: "cart" }, { team: "blue" }));
const first = (app: string) => candidatesOf(setOf(app).key)[0] ?? 0;

/** Goes with the machine's, and is put forward. */
class JumpingClock implements Clock {
  ahead = 0;
  now = () => SYSTEM_CLOCK.now() + this.ahead;
  date = () => new Date(SYSTEM_CLOCK.date().getTime() + this.ahead);
  random = () => SYSTEM_CLOCK.random();
  sleep: Clock["sleep"] = (...time) => SYSTEM_CLOCK.sleep(...time);
}

/** What an agent does, with pods that a test gives it. */
class TestAgent implements AsyncDisposable {
  isWhole = true;
  readonly #apps = new Set<string>();
  readonly #kept: KeptIdentities;

  constructor(node: string, place: Place, clock: Clock, apps: readonly string[]) {
    for (const app of apps) this.#apps.add(app);
    const log = { info: () => {}, error: () => {} };
    this.#kept = new KeptIdentities({ ...place, config: () => place.config, node, clock, log }, () => ({
      used: new Map([...this.#apps].map((app) => [setOf(app).key, setOf(app)])),
      isWhole: this.isWhole,
    }));
  }

  attach = (app: string) => this.#apps.add(app);
  detach = (app: string) => this.#apps.delete(app);
  run = () => this.#kept.run(LIMIT());

  shown(): readonly StoredIdentity[] {
    return [...this.#kept.cache.list()].sort((one, other) => one.number - other.number);
  }

  /** Waits until its watch shows what is expected of the identity of these labels. */
  async sees(app: string, expected: Partial<StoredIdentity> | undefined): Promise<void> {
    await until(`${app}: ${JSON.stringify(expected)}`, () => {
      const found = this.shown().find(({ key }) => key === setOf(app).key);
      return expected === undefined ? found === undefined : found !== undefined && Bun.deepMatch(expected, found);
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#kept[Symbol.asyncDispose]();
  }
}

interface Place {
  readonly config: NetworkConfig;
  readonly env: Environment;
}

const etcd = shared(startEtcd);
const directory = fresh(() => new TemporaryDirectory());
beforeEach(() => etcd.clear());

const PLACES: readonly [string, () => Place][] = [
  ["etcd", () => ({ config: decodeNetworkConfig({ name: "net1", datastore_type: "etcdv3" }), env: { ETCD_ENDPOINTS: etcd.urls.join() } })],
  [
    "one file",
    () => ({ config: decodeNetworkConfig({ name: "net1", datastore_type: "local", datastore_path: join(directory.path, "db") }), env: {} }),
  ],
];

describe.each(PLACES)("Agents that keep identities in %s", (_where, placeOf) => {
  const world = (...apps: readonly (readonly string[])[]) => {
    const clock = new JumpingClock();
    const stack = new AsyncDisposableStack();
    const agents = apps.map((own, index) => stack.use(new TestAgent(`node${index + 1}`, placeOf(), clock, own)));
    const runAll = () => Promise.all(agents.map((agent) => agent.run()));
    return {
      agents: agents as readonly TestAgent[] as readonly [TestAgent, TestAgent],
      /** Lets so much time pass, with a look of all before and after. */
      async passes(milliseconds: number) {
        await runAll();
        clock.ahead += milliseconds;
        await runAll();
      },
      jump(milliseconds: number) {
        clock.ahead += milliseconds;
      },
      runAll,
      [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
    };
  };

  /** An endpoint of another pod of the node, as its ADD has written it. */
  async function endpointOn(node: string) {
    const { config, env } = placeOf();
    const datastore = await openDatastore(config, env);
    const endpoint = workloadEndpointOf({ node, containerId: "c1", network: "net1", addresses: ["10.1.0.6"] });
    const { revision } = await datastore.endpoints.create(endpoint, endpoint);
    return { delete: () => datastore.endpoints.delete(endpoint, revision), [Symbol.asyncDispose]: () => datastore[Symbol.asyncDispose]() };
  }

  it("I2, I3: give one number to one set of labels, whichever of them is faster", async () => {
    const apps = Array.from({ length: 100 }, (_, index) => `app-${index}`);
    await using at = world(apps, [...apps].reverse());
    const [one, other] = at.agents;
    await at.runAll();
    for (const agent of at.agents) await until("all", () => agent.shown().length === apps.length);
    expect(other.shown()).toEqual(one.shown());
    expect(one.shown().map(({ number, key }) => [number, key])).toEqual(
      apps.map((app) => [first(app), setOf(app).key]).sort(([a], [b]) => Number(a) - Number(b)),
    );
    expect(new Set(one.shown().map(({ state, createdBy }) => `${state} ${createdBy}`))).toEqual(new Set(["active tortie-node"]));
    const before = one.shown();
    await at.runAll();
    expect(one.shown()).toEqual(before);
  });

  it("I4: give the next number where two sets of different nodes begin at the same one", async () => {
    // Found by trying.
    await using at = world(["a1865"], ["a6422"]);
    await at.runAll();
    const [one] = at.agents;
    await until("both", () => one.shown().length === 2);
    expect(first("a1865")).toBe(first("a6422"));
    expect(one.shown().map(({ number }) => number - first("a1865"))).toEqual([0, 1]);
  });

  it("I8: retire what no pod has had for 15 minutes, and delete it after a day; it comes back under its number", async () => {
    await using at = world(["web"], []);
    const [one, other] = at.agents;
    await at.runAll();
    await other.sees("web", { number: first("web"), state: "active", keeper: "node1" });
    one.detach("web");
    await at.passes(14 * MINUTE_MS);
    await one.sees("web", { state: "active" });
    // Both are alike: one of them writes, and only once.
    await at.passes(2 * MINUTE_MS);
    for (const agent of at.agents) await agent.sees("web", { state: "retired" });
    await at.passes(23 * HOUR_MS);
    await one.sees("web", { state: "retired" });
    await at.passes(2 * HOUR_MS);
    for (const agent of at.agents) await agent.sees("web", undefined);
    other.attach("web");
    await at.runAll();
    await one.sees("web", { number: first("web"), state: "active", keeper: "node2" });
  });

  it("take over what its keeper has no more, and then leave it alone", async () => {
    await using at = world(["web"], []);
    const [one, other] = at.agents;
    await at.runAll();
    await other.sees("web", { keeper: "node1" });
    await using _ = await endpointOn("node2");
    other.attach("web");
    one.detach("web");
    await at.passes(16 * MINUTE_MS);
    await other.sees("web", { state: "retired" });
    await at.runAll();
    for (const agent of at.agents) await agent.sees("web", { state: "active", retiredAt: "", keeper: "node2" });
    const before = one.shown();
    await at.passes(16 * MINUTE_MS);
    await at.passes(2 * HOUR_MS);
    expect(one.shown()).toEqual(before);
  });

  it("collect what a node has left that has no endpoint any more, and not what one with endpoints keeps", async () => {
    await using at = world(["web"], []);
    const [one, other] = at.agents;
    await using endpoint = await endpointOn("node1");
    await one.run();
    await other.run();
    await other.sees("web", { keeper: "node1" });
    const otherPasses = async (milliseconds: number) => {
      await other.run();
      at.jump(milliseconds);
      await other.run();
    };
    await otherPasses(16 * MINUTE_MS);
    await otherPasses(2 * HOUR_MS);
    await other.sees("web", { state: "active" });
    await endpoint.delete();
    await otherPasses(2 * HOUR_MS);
    await other.sees("web", { state: "retired", keeper: "node1" });
    // The node was only away.
    await one.sees("web", { state: "retired" });
    await one.run();
    await other.sees("web", { state: "active", keeper: "node1" });
  });

  it("collect nothing while they do not know all of their pods", async () => {
    await using at = world(["web"]);
    const [one] = at.agents;
    await at.runAll();
    await one.sees("web", { state: "active" });
    one.detach("web");
    one.isWhole = false;
    await at.passes(20 * MINUTE_MS);
    await at.passes(20 * MINUTE_MS);
    await one.sees("web", { state: "active" });
    one.isWhole = true;
    await at.passes(16 * MINUTE_MS);
    await one.sees("web", { state: "retired" });
  });
});
