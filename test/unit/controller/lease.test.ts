import { decodeLease, Elector, fencedClient, isSameTenure, type Lease, leaseObject, nextStep } from "../../../controller/leader/elector.ts";
import { type ApiClient, ApiError, type ApiRequest } from "../../../lib/kubernetes/api-client.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { fresh } from "../../support/fixtures.ts";

const LEASE: Lease = {
  resourceVersion: "7",
  holder: "other",
  durationSeconds: 15,
  renewTime: "2030-01-01T00:00:00.000000Z",
  acquireTime: "2030-01-01T00:00:00.000000Z",
  transitions: 3,
};
const WRITE = { namespace: "kube-system", name: "l", holder: "me", durationSeconds: 15, now: new Date(Date.UTC(2030, 0, 1, 0, 1)) };

describe("the next step with a lease", () => {
  it.each([
    ["create", undefined, 0],
    ["renew", { ...LEASE, holder: "me" }, 0],
    ["take", { ...LEASE, holder: "" }, 0],
    ["wait", LEASE, 14_999],
    ["take", LEASE, 15_000],
  ] as const)("is %s", (step, lease, unchangedForMs) => {
    expect(nextStep(lease, "me", unchangedForMs)).toBe(step);
  });

  it("does not take a change of the object by others for a renewal", () => {
    expect(isSameTenure(LEASE, { ...LEASE, resourceVersion: "8" })).toBe(true);
    const writes: readonly Partial<Lease>[] = [
      { renewTime: "2030-01-01T00:00:01.000000Z" },
      { acquireTime: "2030-01-01T00:00:01.000000Z" },
      { holder: "me" },
      { transitions: 4 },
    ];
    for (const written of writes) expect(isSameTenure(LEASE, { ...LEASE, ...written })).toBe(false);
  });
});

describe("the lease as written", () => {
  it("carries the version that it replaces, counts a change of leader, and has times of six digits", () => {
    const taken = leaseObject(WRITE, LEASE);
    expect(taken).toMatchObject({
      metadata: { resourceVersion: "7" },
      spec: { holderIdentity: "me", leaseTransitions: 4, acquireTime: "2030-01-01T00:01:00.000000Z" },
    });
    const renewed = leaseObject(WRITE, { ...LEASE, holder: "me" });
    expect(renewed).toMatchObject({
      spec: { leaseTransitions: 3, acquireTime: LEASE.acquireTime, renewTime: "2030-01-01T00:01:00.000000Z" },
    });
    expect(leaseObject(WRITE, undefined).metadata).not.toHaveProperty("resourceVersion");
  });
});

/** An API server with one lease. */
class LeaseServer {
  lease: Lease | undefined;
  isAway = false;
  /** Comes before the answer to each request. */
  before: (asked: ApiRequest) => Promise<void> = async () => undefined;
  #version = 0;

  client(): ApiClient {
    return { server: "test", close: () => undefined, request: (asked) => this.before(asked).then(() => this.#answer(asked)) };
  }

  #answer({ method, body = "{}" }: ApiRequest): string {
    if (this.isAway) throw new ApiError("away");
    const sent = JSON.parse(body);
    if (method === "GET" && this.lease === undefined) throw new ApiError("none", { status: 404 });
    if (method !== "GET") {
      if (method === "PUT" && sent.metadata.resourceVersion !== this.lease?.resourceVersion)
        throw new ApiError("conflict", { status: 409 });
      if (method === "POST" && this.lease !== undefined) throw new ApiError("exists", { status: 409 });
      this.lease = decodeLease({ ...sent, metadata: { ...sent.metadata, resourceVersion: String(++this.#version) } });
    }
    const { resourceVersion, holder, durationSeconds, renewTime, acquireTime, transitions } = this.lease ?? LEASE;
    const spec = { holderIdentity: holder, leaseDurationSeconds: durationSeconds, renewTime, acquireTime, leaseTransitions: transitions };
    return JSON.stringify({ metadata: { resourceVersion }, spec });
  }
}

interface Contention {
  readonly durationMs?: number;
  readonly log?: (message: string) => void;
  /** Default: lasts as long as the term. */
  readonly work?: () => Promise<void>;
}

function contender(server: LeaseServer, clock: FakeClock, identity: string, options: Contention = {}) {
  const { durationMs = 15_000, log = () => undefined, work } = options;
  const ending = new AbortController();
  const elector = new Elector({ client: server.client(), clock, namespace: "n", name: "l", identity, durationMs, log });
  const terms: AbortSignal[] = [];
  const ended = elector.run(async (signal) => {
    terms.push(signal);
    await (work?.() ?? new Promise<unknown>((done) => signal.addEventListener("abort", done, { once: true })));
  }, ending.signal);
  const end = async (withinMs = 20_000) => {
    ending.abort(new Error("end"));
    await clock.advance(withinMs);
    await ended;
  };
  return { elector, terms, end };
}

describe("the election", () => {
  const server = fresh(() => new LeaseServer());
  const clock = fresh(() => new FakeClock());

  it("has the leader stand down before the lease can be taken, and the other take it only after it was unchanged for its duration", async () => {
    const other = new LeaseServer();
    const leader = contender(server, clock, "a");
    await clock.advance(10_000);
    expect([leader.elector.mayWrite, leader.terms[0]?.aborted]).toEqual([true, false]);
    // From here the leader's own requests fail, and the other's do not: they see the same lease.
    other.lease = server.lease;
    server.isAway = true;
    const follower = contender(other, clock, "b");
    await clock.advance(10_000);
    expect([leader.elector.mayWrite, leader.terms[0]?.aborted, follower.elector.mayWrite]).toEqual([false, true, false]);
    await clock.advance(10_000);
    expect([leader.elector.mayWrite, follower.elector.mayWrite]).toEqual([false, true]);
    expect(other.lease).toMatchObject({ holder: "b", transitions: 1 });
    await Promise.all([leader.end(), follower.end()]);
    expect(other.lease?.holder).toBe("");
  });

  it("asks again not before its pause and not after twice that, so that several do not ask at one moment for ever", async () => {
    const pauseWith = async (random: number) => {
      server.lease = LEASE;
      const clock = new FakeClock(() => random);
      const { end } = contender(server, clock, "me");
      await end(0);
      return clock.pauses[0] ?? Number.NaN;
    };
    const [shortest, middle, longest] = [await pauseWith(0), await pauseWith(0.5), await pauseWith(0.75)];
    expect(shortest).toBeGreaterThan(0);
    expect([middle, longest]).toEqual([shortest * 1.5, shortest * 1.75]);
  });

  it("gives the lease back and pauses longer and longer when its work fails at once, so that another can try", async () => {
    const at: number[] = [];
    const work = async () => {
      at.push(clock.now());
      throw new Error("403");
    };
    const { elector, end } = contender(server, clock, "a", { durationMs: 16_000, work });
    await clock.advance(1_000);
    expect([server.lease?.holder, elector.mayWrite]).toEqual(["", false]);
    await clock.advance(59_000);
    expect(at).toEqual([0, 2_000, 6_000, 14_000, 30_000, 46_000]);
    await end();
  });

  it("D2: counts the time that a leader may write from before its renewal was sent", async () => {
    let writes = 0;
    server.before = async ({ method }) => {
      if (method !== "GET") await clock.sleep(++writes === 1 ? 3_000 : 1_000_000);
    };
    const leader = contender(server, clock, "a");
    await clock.advance(9_999);
    expect(leader.elector.mayWrite).toBe(true);
    await clock.advance(1);
    expect([leader.elector.mayWrite, leader.terms[0]?.aborted]).toEqual([false, true]);
    await leader.end(2_000_000);
  });

  it("D3: does not give back a lease that has run out: a write under way may still need that time", async () => {
    const leader = contender(server, clock, "a");
    await clock.advance(100);
    server.isAway = true;
    await clock.advance(11_000);
    expect(leader.elector.mayWrite).toBe(false);
    server.isAway = false;
    await leader.end();
    expect(server.lease?.holder).toBe("a");
  });

  it("says who leads, and what stands in the way of the lease until that is over", async () => {
    server.isAway = true;
    const told: string[] = [];
    const { elector, end } = contender(server, clock, "a", { log: (message) => told.push(message) });
    expect([elector.description, elector.mayWrite]).toEqual(["nobody leads yet", false]);
    await clock.advance(10_000);
    expect([elector.description, elector.problem]).toEqual(["away", "away"]);
    expect(told).toEqual(["the lease: away"]);
    server.isAway = false;
    server.lease = { ...LEASE, holder: "other" };
    await clock.advance(4_000);
    expect([elector.description, elector.problem]).toEqual(["other leads", undefined]);
    server.lease = { ...LEASE, holder: "" };
    await clock.advance(4_000);
    expect(elector.description).toBe("this controller leads");
    await end();
    expect(told).toEqual(["the lease: away", "this controller leads", "this controller leads no more"]);
  });

  it("takes a conflict for another's turn, and every other refusal for a problem", async () => {
    for (const [status, problem] of [
      [409, undefined],
      [403, "arranged"],
    ] as const) {
      server.before = async ({ method }) => {
        if (method === "POST") throw new ApiError("arranged", { status });
      };
      const { elector, end } = contender(server, clock, "a");
      await clock.advance(1_000);
      expect([elector.problem, elector.mayWrite]).toEqual([problem, false]);
      await end();
    }
  });

  it("is made at the collection, and renewed at its own place", async () => {
    const asked: string[] = [];
    server.before = async ({ method, path }) => {
      if (method !== "GET") asked.push(`${method} ${path}`);
    };
    const { end } = contender(server, clock, "a");
    await clock.advance(2_000);
    const collection = "/apis/coordination.k8s.io/v1/namespaces/n/leases";
    expect(asked).toEqual([`POST ${collection}`, `PUT ${collection}/l`]);
    await end();
  });

  it("leads on through many renewals in one term", async () => {
    const leader = contender(server, clock, "a");
    await clock.advance(60_000);
    expect([leader.terms.length, leader.terms[0]?.aborted, leader.elector.mayWrite]).toEqual([1, false, true]);
    expect(server.lease?.transitions).toBe(0);
    await leader.end();
  });

  it("renews without an end, and never has two leaders", async () => {
    const both = [contender(server, clock, "a"), contender(server, clock, "b")];
    for (let second = 0; second < 120; second++) {
      await clock.advance(1_000);
      expect(both.filter(({ elector }) => elector.mayWrite)).toHaveLength(1);
    }
    expect(both.map(({ terms }) => terms.length).sort()).toEqual([0, 1]);
    await Promise.all(both.map(({ end }) => end()));
  });
});

describe("the fence", () => {
  it("lets no write through without the lease, and shortens those that begin with it", async () => {
    const sent: ApiRequest[] = [];
    const request = async (one: ApiRequest) => `${sent.push(one)}`;
    const inner: ApiClient = { server: "s", close: () => undefined, request };
    const fence = { mayWrite: false, writeLimitMs: 4_000 };
    const client = fencedClient(inner, fence, 4);
    await client.request({ method: "GET", path: "/a" });
    for (const method of ["POST", "PUT", "PATCH", "DELETE"] as const) {
      await expect(client.request({ method, path: "/a" })).rejects.toThrow("does not lead any more");
    }
    fence.mayWrite = true;
    await client.request({ method: "PUT", path: "/a", timeoutMs: 30_000 });
    expect(sent).toEqual([
      { method: "GET", path: "/a" },
      { method: "PUT", path: "/a", timeoutMs: 4_000 },
    ]);
  });

  it("looks at the lease when a write's turn has come, not when the write was asked for", async () => {
    const sent: string[] = [];
    const answer = Promise.withResolvers<string>();
    const request = async ({ method }: ApiRequest) => {
      sent.push(method);
      return answer.promise;
    };
    const fence = { mayWrite: true, writeLimitMs: 4_000 };
    const client = fencedClient({ server: "s", close: () => undefined, request }, fence, 1);
    const list = client.request({ method: "GET", path: "/a" });
    const write = expect(client.request({ method: "PUT", path: "/a" })).rejects.toThrow("does not lead any more");
    fence.mayWrite = false;
    answer.resolve("");
    await Promise.all([list, write]);
    expect(sent).toEqual(["GET"]);
  });
});
