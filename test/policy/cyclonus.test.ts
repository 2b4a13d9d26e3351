/**
 * Cyclonus' generated cases (230, each with a policy or several, and every pod dialling every other by TCP and UDP on two ports) against
 * real packets, on objects in a real API server. What must pass is Cyclonus' own judgement, which shares no code with ours.
 */
import { shared } from "../support/fixtures.ts";
import { startCluster } from "../support/kubernetes/test-cluster.ts";
import { runCyclonus } from "./cyclonus.ts";

const ONE = ["node1"];
const THREE = ["node1", "node2", "node3"];
const LIMIT_MS = 3_600_000;

const cluster = shared(startCluster);

describe("Cyclonus' generated cases", () => {
  it.each([
    { nodes: ONE, family: 4, sample: 60 },
    { nodes: THREE, family: 6, sample: 40 },
  ] as const)(
    "pass, with pods on $nodes by IPv$family",
    async (run) => {
      const { cases, passed, failed } = await runCyclonus(cluster, { ...run, isEnforced: true });

      expect(failed).toEqual([]);
      expect(passed).toBe(cases);
    },
    LIMIT_MS,
  );

  it(
    "fail without enforcement: they notice a packet filter that lets everything pass",
    async () => {
      const { cases, passed } = await runCyclonus(cluster, { nodes: ONE, family: 4, sample: 24, isEnforced: false });

      expect(passed).toBeLessThan(cases / 4);
    },
    LIMIT_MS,
  );
});
