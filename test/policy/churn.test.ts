/**
 * Policy while the cluster changes 50 times a second: nine pods dial each other all the time, and every dial is compared with what Cyclonus'
 * matcher says of the states that may be in force. The whole run is that of 5,000 pods and 500 policies for a minute.
 */
import { shared } from "../support/fixtures.ts";
import { startCluster } from "../support/kubernetes/test-cluster.ts";
import { IS_WHOLE, runChurn } from "./cyclonus.ts";

const LIMIT_MS = 3_600_000;
const [SECONDS, PODS, POLICIES] = IS_WHOLE ? [60, 5000, 464] : [10, 300, 64];

const cluster = shared(startCluster);

describe("Policy of nine pods", () => {
  it(
    "P23: is right in every dial while pods and policies of the cluster change 50 times a second, and in the end",
    async () => {
      const { wrong, dials, certain, passed } = await runChurn(cluster, SECONDS, PODS, POLICIES);

      expect(wrong).toEqual([]);
      // Verdicts that are all the same, or hardly ever certain, would prove nothing.
      expect(certain).toBeGreaterThan(dials / 2);
      expect(passed).toBeGreaterThan(dials / 20);
      expect(passed).toBeLessThan((dials * 19) / 20);
    },
    LIMIT_MS,
  );
});
