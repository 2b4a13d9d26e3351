/** Which differences are mended, and which are left to whoever makes them. */
import { Drift } from "../../../../agent/sweep/drift.ts";
import type { Difference } from "../../../../dataplane/desired-state.ts";
import { TortieError } from "../../../../lib/errors/errors.ts";
import { NEVER } from "../../../../lib/system/waiting.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

const ROUTE: Difference = { side: "host", object: "route 10.0.0.5/32", wanted: "dev cali1", found: "missing" };
const SYSCTL: Difference = { side: "host", object: "sysctl rp_filter", wanted: "1", found: "0" };

let clock: FakeClock;
let differences: readonly Difference[] | Error;
let mends: [number, string][];
let contested: Map<number, string>;
let unproven: string | undefined;
let drift: Drift;
let endpoints: readonly number[];

beforeEach(() => {
  clock = new FakeClock();
  endpoints = [4];
  differences = [];
  mends = [];
  contested = new Map();
  drift = driftWith({});
});

function driftWith(change: Partial<ConstructorParameters<typeof Drift>[0]>): Drift {
  return new Drift({
    clock,
    endpoints: () => endpoints,
    drift: async () => {
      if (differences instanceof Error) throw differences;
      return differences;
    },
    mend: (id, reason) => mends.push([id, reason]),
    onUnproven: (what) => {
      unproven = what;
    },
    onContested: (id, what) => (what === undefined ? contested.delete(id) : contested.set(id, what)),
    onFound: () => {},
    ...change,
  });
}

async function looks(count: number, pauseMs = 60_000): Promise<void> {
  for (let look = 0; look < count; look++) {
    await drift.run(NEVER);
    await clock.advance(pauseMs);
  }
}

describe("A-G02: what differs from the desired state", () => {
  it("is mended by a build that says why", async () => {
    await drift.run(NEVER);
    expect(mends).toEqual([]);
    differences = [ROUTE, SYSCTL];
    await drift.run(NEVER);
    expect(mends).toEqual([[4, "drift: host route 10.0.0.5/32 and 1 more"]]);
  });

  it("is left alone and reported after three times in ten minutes, and other objects of the endpoint are not", async () => {
    differences = [ROUTE];
    await looks(5);
    expect(mends).toHaveLength(3);
    expect(contested.get(4)).toBe(
      "drift-contested: endpoint 4: host route 10.0.0.5/32 (missing) is changed again and again by somebody else",
    );
    differences = [ROUTE, SYSCTL];
    await drift.run(NEVER);
    expect(mends.at(-1)).toEqual([4, "drift: host sysctl rp_filter"]);
  });

  it("is mended again when it has been quiet for ten minutes, and the finding goes", async () => {
    differences = [ROUTE];
    await looks(4);
    differences = [];
    await looks(10);
    expect(contested.size).toBe(0);
    differences = [ROUTE];
    await drift.run(NEVER);
    expect(mends).toHaveLength(4);
  });

  it("is a failure when it cannot be found out, unless the sandbox is not to be seen", async () => {
    differences = new Error("netlink");
    await expect(drift.run(NEVER)).rejects.toThrow("1 endpoints could not be compared: endpoint 4: netlink");
    differences = new TortieError("link-failed", "refused");
    await expect(drift.run(NEVER)).rejects.toThrow("refused");
    for (const word of ["netns-missing", "netns-invalid"] as const) {
      differences = new TortieError(word, "gone");
      await expect(drift.run(NEVER)).resolves.toBeUndefined();
    }
    expect(mends).toEqual([]);
  });

  it("is counted over the last ten minutes, whatever was mended before", async () => {
    differences = [ROUTE];
    for (const pauseMs of [360_000, 180_000, 90_000, 30_000]) await looks(1, pauseMs);
    expect(mends).toHaveLength(4);
    await drift.run(NEVER);
    expect(mends).toHaveLength(4);
    expect(contested.size).toBe(1);
  });

  it("is counted anew for an endpoint that was gone", async () => {
    differences = [ROUTE];
    await looks(4);
    endpoints = [];
    await looks(1);
    endpoints = [4];
    await looks(1);
    expect(mends).toHaveLength(4);
  });

  it("is left for the next agent when this one is asked to end", async () => {
    differences = [ROUTE];
    await drift.run(AbortSignal.abort());
    expect(mends).toEqual([]);
  });
});

describe("G2: an endpoint whose sandbox cannot be proven", () => {
  it("is reported, and not mended; the report ends with its cause", async () => {
    differences = new TortieError("netns-changed", "/run/netns/a leads to another sandbox");
    await drift.run(NEVER);
    expect(mends).toEqual([]);
    expect(unproven).toMatch(/^sandbox-not-visible: 1 endpoints .* endpoint 4: .*leads to another sandbox/);
    differences = [];
    await drift.run(NEVER);
    expect(unproven).toBeUndefined();
  });
});

it("S4: lets waiting work run before each endpoint", async () => {
  endpoints = [4, 5, 6];
  const order: string[] = [];
  const told = driftWith({
    drift: async (id) => {
      order.push(`endpoint ${id}`);
      setImmediate(() => order.push(`call after ${id}`));
      return [];
    },
  });

  await told.run(NEVER);

  expect(order).toEqual(["endpoint 4", "call after 4", "endpoint 5", "call after 5", "endpoint 6"]);
});
