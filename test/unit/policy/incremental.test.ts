/**
 * Holds that an engine which heard 200 random events one by one knows the same as one that hears the result at once, and that whoever
 * applies its changes gets its state. TORTIE_POLICY_SEQUENCES=1000 plays more sequences, TORTIE_POLICY_SEED begins elsewhere.
 */
import { PolicyEngine } from "../../../policy/engine.ts";
import { address } from "../../support/addresses.ts";
import { engineFor } from "../../support/policy/engine-answers.ts";
import { callsFor, flowOf, policyObject, removePod, setPod, setPolicy } from "../../support/policy/engine-input.ts";
import type { RawCluster, RawPod, RawPolicy } from "../../support/policy/oracle.ts";
import { ChangedFilter, stateText } from "../../support/policy/packet-judge.ts";
import {
  NAMESPACES,
  pick,
  randomFlow,
  randomLabels,
  randomNamespaceLabels,
  randomPod,
  randomPolicy,
  randomTieredPolicy,
} from "../../support/policy/random-cluster.ts";
import { seededRandom } from "../../support/seeded-random.ts";

const SEQUENCES = Number(process.env.TORTIE_POLICY_SEQUENCES ?? 15);
const FIRST_SEED = Number(process.env.TORTIE_POLICY_SEED ?? 1);
const EVENTS = 200;

/** What a cluster looks like after the events so far. */
class World {
  readonly namespaces = new Map<string, Readonly<Record<string, string>>>();
  readonly policies = new Map<string, RawPolicy>();
  readonly pods = new Map<string, RawPod>();
  readonly #random: () => number;
  readonly #tiered: number;

  /** @param tiered share of policies with tiers */
  constructor(random: () => number, tiered = 0.3) {
    this.#random = random;
    this.#tiered = tiered;
  }

  get cluster(): RawCluster {
    return { enforcement: "default", namespaces: this.namespaces, policies: [...this.policies.values()], pods: [...this.pods.values()] };
  }

  /** One event, told to the engine. */
  step(engine: PolicyEngine): void {
    const kind = this.#random();
    if (kind < 0.1) this.#changeNamespace(engine);
    else if (kind < 0.4) this.#changePolicy(engine);
    else if (kind < 0.5) this.#relabelPod(engine);
    else this.#changePod(engine);
  }

  #changeNamespace(engine: PolicyEngine): void {
    const name = pick(this.#random, NAMESPACES);
    if (this.#random() < 0.25) {
      this.namespaces.delete(name);
      engine.setNamespace(name, undefined);
      return;
    }
    const labels = randomNamespaceLabels(this.#random);
    this.namespaces.set(name, labels);
    engine.setNamespace(name, labels);
  }

  #changePolicy(engine: PolicyEngine): void {
    const name = `policy-${Math.floor(this.#random() * 8)}`;
    const before = this.policies.get(name);
    if (before !== undefined) engine.setPolicy(`${before.namespace}/${name}`, undefined);
    this.policies.delete(name);
    if (this.#random() < 0.3) return;
    const policy = this.#random() < this.#tiered ? randomTieredPolicy(this.#random, name) : randomPolicy(this.#random, name);
    this.policies.set(name, policy);
    setPolicy(engine, policy);
  }

  #relabelPod(engine: PolicyEngine): void {
    if (this.pods.size === 0) return;
    const pod = { ...pick(this.#random, [...this.pods.values()]), labels: randomLabels(this.#random) };
    this.pods.set(pod.name, pod);
    setPod(engine, pod);
  }

  #changePod(engine: PolicyEngine): void {
    const place = 1 + Math.floor(this.#random() * 30);
    const name = `pod-${place}`;
    const before = this.pods.get(name);
    if (before !== undefined) removePod(engine, before);
    this.pods.delete(name);
    if (this.#random() < 0.3) return;
    const pod = randomPod(this.#random, place);
    this.pods.set(name, pod);
    setPod(engine, pod);
  }
}

/** An engine that has heard of every event of a world, and given nothing away. */
function played(seed: number) {
  const world = new World(seededRandom(seed));
  const engine = new PolicyEngine({ enforcement: "default" });
  for (let event = 0; event < EVENTS; event++) world.step(engine);
  return { world, engine };
}

function playSequence(seed: number): void {
  const random = seededRandom(3_000_000 + seed);
  const engine = new PolicyEngine({ enforcement: "default" });
  const filter = new ChangedFilter();
  // Tiers that deny make long states, which take long to compare.
  const world = new World(random, seed % 5 === 0 ? 0.3 : 0);
  for (let event = 0; event < EVENTS; event++) {
    world.step(engine);
    // Events between two takes join.
    if (random() < 0.4) continue;
    // A take may be prepared in parts, between which events come and nothing shows.
    const before = engine.state;
    for (let part = 0; part < 2 && random() < 0.5; part++) {
      engine.prepare(1 + Math.floor(random() * 3));
      world.step(engine);
    }
    expect(engine.state).toBe(before);
    const change = engine.take();
    expect({ seed, event, needless: filter.needless(change) }).toEqual({ seed, event, needless: [] });
    filter.apply(change);
    expect({ seed, event, state: stateText(filter.state) }).toEqual({ seed, event, state: stateText(engine.state) });
    if (event % 20 !== 0) continue;
    const other = engineFor(world.cluster);
    expect({ seed, event, state: stateText(engine.state) }).toEqual({ seed, event, state: stateText(other.state) });
    for (let flow = 0; flow < 5; flow++) {
      const asked = flowOf(randomFlow(random, world.cluster));
      expect({ seed, event, judged: engine.judge(asked) }).toEqual({ seed, event, judged: other.judge(asked) });
    }
  }
  filter.apply(engine.take());
  const other = engineFor(world.cluster);
  expect({ seed, state: stateText(engine.state) }).toEqual({ seed, state: stateText(other.state) });
  expect(engine.policies()).toEqual(other.policies());
  expect(engine.needsPortsOfPeers).toBe(other.needsPortsOfPeers);
  expect({ seed, state: stateText(filter.state) }).toEqual({ seed, state: stateText(engine.state) });
}

describe("an engine that hears of one event after the other", () => {
  it("P15: knows the same as one that is told of the result, and its changes add up to its state", () => {
    for (let seed = FIRST_SEED; seed < FIRST_SEED + SEQUENCES; seed++) playSequence(seed);
  });

  it("changes nothing when it is told again what it knows", () => {
    const { world, engine } = played(5);
    engine.take();
    const { state } = engine;
    for (const call of callsFor(world.cluster)) call(engine);
    expect(engine.take()).toEqual({ endpoints: new Map(), addresses: new Map(), blocks: undefined, moved: [] });
    expect(engine.state).toBe(state);
  });

  it("never changes a state that it gave away", () => {
    const { world, engine } = played(6);
    engine.take();
    const { state } = engine;
    const text = stateText(state);
    for (let event = 0; event < EVENTS; event++) {
      world.step(engine);
      engine.take();
    }
    expect(stateText(state)).toBe(text);
    expect(stateText(engine.state)).not.toBe(text);
  });

  it("says whether a take is prepared, and takes the same as without", () => {
    const [prepared, other] = [played(7).engine, played(7).engine];
    let parts = 0;
    while (prepared.prepare(5)) parts++;
    expect(prepared.state.addresses.size).toBe(0);
    const change = prepared.take();
    expect(stateText(change)).toBe(stateText(other.take()));
    // Addresses that came and went are looked at too.
    expect(parts).toBeGreaterThanOrEqual(Math.floor((change.addresses.size - 1) / 5));
    expect(prepared.prepare(5)).toBe(false);
    expect(prepared.take()).toEqual({ endpoints: new Map(), addresses: new Map(), blocks: undefined, moved: [] });
    // Nobody has asked this one for its state before.
    const small = played(7).engine;
    expect(small.prepare(Number.POSITIVE_INFINITY)).toBe(false);
    expect(small.state).toEqual({ endpoints: new Map(), addresses: new Map(), blocks: [] });
    expect(small.take().blocks).not.toBeUndefined();
  });

  it("A6: names the covered ones of 10,000 addresses when a block comes and goes, and knows the same as one that is told of the result", () => {
    const told = () => {
      const engine = new PolicyEngine({ enforcement: "default" });
      const pod = { namespace: "shop", name: "web", labels: {}, ports: [] };
      engine.setEndpoint("caliweb", { addresses: [address("10.9.0.1")], pod });
      for (let index = 0; index < 10_000; index++) {
        const at = { addresses: [address(`10.0.${index >> 8}.${index & 255}`)], ports: [] };
        engine.setPeer(`shop/p${index}`, { namespace: "shop", name: `p${index}`, labels: {}, ...at });
      }
      return engine;
    };
    const closes = (...cidrs: readonly string[]) => {
      const ingress = [{ from: cidrs.map((cidr) => ({ ipBlock: { cidr } })) }];
      return policyObject("shop", "web", { podSelector: {}, ingress });
    };
    const engine = told();
    engine.setPolicy("shop/web", closes("10.1.0.0/16"));
    engine.take();
    const before = engine.state;
    engine.setPolicy("shop/web", closes("10.1.0.0/16", "10.0.3.0/28"));
    const covered = Array.from({ length: 16 }, (_, index) => `10.0.3.${index}`);
    expect([...engine.take().addresses.keys()].sort()).toEqual(covered.sort());
    const fresh = told();
    fresh.setPolicy("shop/web", closes("10.1.0.0/16", "10.0.3.0/28"));
    fresh.take();
    expect(engine.state).toEqual(fresh.state);
    engine.setPolicy("shop/web", closes("10.1.0.0/16"));
    expect([...engine.take().addresses.keys()].sort()).toEqual(covered.sort());
    expect(engine.state).toEqual(before);
  });

  it("P16: names the one endpoint of a hundred that a new pod concerns, and its address", () => {
    const engine = new PolicyEngine({ enforcement: "default" });
    for (let index = 0; index < 100; index++) {
      const pod = { namespace: "shop", name: `web-${index}`, labels: { app: `web-${index}` }, ports: [] };
      engine.setEndpoint(`cali${index}`, { addresses: [address(`10.0.0.${index}`)], pod });
      const spec = {
        podSelector: { matchLabels: { app: `web-${index}` } },
        ingress: [{ from: [{ podSelector: { matchLabels: { friend: `of-${index}` } } }] }],
      };
      engine.setPolicy(`shop/web-${index}`, policyObject("shop", `web-${index}`, spec));
    }
    engine.take();
    const untouched = engine.state.endpoints.get("cali8");
    const labels = { friend: "of-7" };
    engine.setPeer("shop/new", { namespace: "shop", name: "new", labels, addresses: [address("10.0.1.1")], ports: undefined });
    const { endpoints, addresses, blocks } = engine.take();
    expect([[...endpoints.keys()], [...addresses.keys()], blocks]).toEqual([["cali7"], ["10.0.1.1"], undefined]);
    expect(engine.state.endpoints.get("cali8")).toBe(untouched);
  });
});
