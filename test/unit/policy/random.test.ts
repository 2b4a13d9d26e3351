/**
 * Compares the engine with a brute-force judge that shares no code with it (test/support/policy/oracle.ts), on clusters that a seed decides.
 *
 * TORTIE_POLICY_CLUSTERS=10000 plays the full run (ten pairs of addresses for each cluster), TORTIE_POLICY_SEED begins elsewhere; a failure
 * names the seed of its cluster.
 */
import { answersOf, engineFor } from "../../support/policy/engine-answers.ts";
import { callsFor, shuffled } from "../../support/policy/engine-input.ts";
import { askOracle } from "../../support/policy/oracle.ts";
import { stateText } from "../../support/policy/packet-judge.ts";
import { randomCluster, randomFlow } from "../../support/policy/random-cluster.ts";
import { seededRandom } from "../../support/seeded-random.ts";

const CLUSTERS = Number(process.env.TORTIE_POLICY_CLUSTERS ?? 400);
const FIRST_SEED = Number(process.env.TORTIE_POLICY_SEED ?? 1);
const PAIRS = 10;

function compare(seed: number, tiered: number): number {
  const random = seededRandom(seed);
  const cluster = randomCluster(random, tiered);
  const engine = engineFor(cluster);
  let allowed = 0;
  for (let pair = 0; pair < PAIRS; pair++) {
    const flow = randomFlow(random, cluster);
    const expected = askOracle(cluster, flow);
    const { judge, filter } = answersOf(engine, cluster, flow);
    const wanted = {
      seed,
      flow,
      judge: expected,
      filter: { egress: filter.egress && expected.egress, ingress: filter.ingress && expected.ingress },
    };
    expect({ seed, flow, judge, filter }).toEqual(wanted);
    if (expected.egress !== "deny" && expected.ingress !== "deny") allowed++;
  }
  return allowed;
}

describe("the engine and the brute-force judge", () => {
  it("P12: say the same of random clusters with NetworkPolicy", () => {
    let allowed = 0;
    for (let seed = FIRST_SEED; seed < FIRST_SEED + CLUSTERS; seed++) allowed += compare(seed, 0);
    // Random policies that closed or opened everything would prove nothing.
    expect(allowed / (CLUSTERS * PAIRS)).toBeGreaterThan(0.2);
    expect(allowed / (CLUSTERS * PAIRS)).toBeLessThan(0.9);
  });

  it("P13: say the same of tiers whose rules deny and pass", () => {
    let allowed = 0;
    for (let seed = FIRST_SEED; seed < FIRST_SEED + CLUSTERS; seed++) allowed += compare(1_000_000 + seed, 0.8);
    expect(allowed / (CLUSTERS * PAIRS)).toBeGreaterThan(0.2);
    expect(allowed / (CLUSTERS * PAIRS)).toBeLessThan(0.9);
  });

  it("P12: the order of the input changes no byte of the state", () => {
    for (let seed = FIRST_SEED; seed < FIRST_SEED + CLUSTERS / 4; seed++) {
      const random = seededRandom(2_000_000 + seed);
      const cluster = randomCluster(random, 0.3);
      const calls = callsFor(cluster);
      const inOrder = engineFor(cluster, calls);
      const inAnother = engineFor(cluster, shuffled(random, calls));
      expect({ seed, state: stateText(inAnother.state) }).toEqual({ seed, state: stateText(inOrder.state) });
      expect(inAnother.policies()).toEqual(inOrder.policies());
    }
  });
});
