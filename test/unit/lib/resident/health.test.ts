import type { ApiFault } from "../../../../lib/kubernetes/api-client.ts";
/** What the agent says of itself, on a clock that the test moves (A§8.3). */

import { connect } from "node:net";
import type { CacheState } from "../../../../lib/kubernetes/watch/resource-cache.ts";
import {
  apiServerCheck,
  CredentialsCheck,
  controllersCheck,
  Health,
  KernelCheck,
  LoopCheck,
  watchesCheck,
} from "../../../../lib/resident/health.ts";
import { keepHealthServed, startHealthServer } from "../../../../lib/resident/health-server.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

let clock: FakeClock;
let phase: string;
let health: Health;
beforeEach(() => {
  clock = new FakeClock();
  phase = "ready";
  health = new Health(() => phase, clock);
});

const cache = (state: Partial<CacheState> = {}): CacheState => ({
  name: "pods",
  isSynced: true,
  lostSince: undefined,
  followedSince: 0,
  problem: undefined,
  ...state,
});

describe("health", () => {
  it("is not ready before the phase says so, and says why", () => {
    phase = "local";
    expect(health.notReady()).toEqual(["phase: the agent is in phase local"]);
    expect(health.document()).toMatchObject({ phase: "local", state: "failure", ready: false, live: true });
    phase = "ready";
    expect(health.notReady()).toEqual([]);
    expect(health.document()).toMatchObject({ state: "ok", ready: true });
  });

  it("says since when each check is as it is, and keeps that while it does not change", async () => {
    let state: "ok" | "warning" = "ok";
    health.add({ name: "mine", decides: "shown", look: () => ({ state, message: `it is ${state}`, next: "do something" }) });
    await clock.advance(5_000);
    health.look();
    state = "warning";
    await clock.advance(5_000);
    health.look();
    await clock.advance(60_000);
    const { checks, state: whole } = health.document();
    expect(whole).toBe("warning");
    expect(checks.find(({ name }) => name === "mine")).toEqual({
      name: "mine",
      state: "warning",
      message: "it is warning",
      next: "do something",
      since: "2030-01-01T00:00:10.000Z",
    });
  });

  it("lists waits and findings until they are over", async () => {
    await clock.advance(1_000);
    const done = health.waitFor("node object worker-1");
    health.find("key", "something is odd");
    expect(health.waits).toEqual(["node object worker-1"]);
    expect(health.document()).toMatchObject({
      state: "warning",
      waits: [{ what: "node object worker-1", since: "2030-01-01T00:00:01.000Z" }],
      findings: ["something is odd"],
    });
    done();
    health.find("key", undefined);
    expect(health.document()).toMatchObject({ state: "ok", waits: [], findings: [] });
  });
});

describe("the API server's check", () => {
  it("warns at once and fails after 60 s in which nothing was heard, by the cache that heard last", async () => {
    let states: readonly CacheState[] = [cache(), cache({ lostSince: 0, problem: "forbidden" })];
    const check = apiServerCheck(() => states, clock);
    expect(check.look().state).toBe("ok");
    await clock.advance(10_000);
    states = [cache({ lostSince: 10_000, problem: "connection refused" }), cache({ lostSince: 0 })];
    await clock.advance(59_000);
    expect(check.look().state).toBe("warning");
    await clock.advance(1_000);
    expect(check.look()).toMatchObject({
      state: "failure",
      message: "the API server has not been heard of for 60 s: connection refused",
    });
  });

  it("names watches that fail alone", () => {
    const check = watchesCheck(() => [cache(), cache({ name: "nodes", lostSince: 0, problem: "forbidden" })]);
    expect(check.look()).toMatchObject({ state: "warning", message: "nodes: forbidden" });
    expect(watchesCheck(() => [cache()]).look().state).toBe("ok");
  });

  it.each<[string, number, ApiFault | undefined]>([
    ["credentials", 401, undefined],
    ["certificate", 0, "untrusted"],
  ])("fails while the %s is refused, and not for want of an answer", (word, status, fault) => {
    const credentials = new CredentialsCheck();
    credentials.note(0, undefined);
    expect(credentials.check.look().state).toBe("ok");
    credentials.note(status, fault);
    credentials.note(0, undefined);
    expect(credentials.check.look()).toMatchObject({ state: "failure", message: expect.stringContaining(word) });
    credentials.note(200, undefined);
    expect(credentials.check.look().state).toBe("ok");
  });
});

describe("the other checks", () => {
  it("warn of a controller that has failed three times in a row", () => {
    const status = (name: string, failures: number) => ({
      name,
      uuid: name,
      configuration: { interval: 0, "error-retry-base": 0, "error-retry": true },
      status: {
        "success-count": 0,
        "failure-count": failures,
        "consecutive-failure-count": failures,
        "last-failure-msg": "no",
      },
    });
    expect(controllersCheck(() => [status("a", 2)]).look().state).toBe("ok");
    expect(controllersCheck(() => [status("a", 2), status("b", 3)]).look()).toMatchObject({ state: "warning", message: "b: no" });
  });

  it("hold the process for dead when its loop has not turned for 5 s, or a kernel step not ended for 30 s", async () => {
    const loop = new LoopCheck(clock);
    const kernel = new KernelCheck(clock);
    health.add(loop.check);
    health.add(kernel.check);
    const gate = Promise.withResolvers<void>();
    const step = kernel.during("removing eth0", () => gate.promise);
    await clock.advance(5_000);
    expect(health.notLive()).toEqual([]);
    await clock.advance(1);
    expect(health.notLive()).toEqual(["event-loop: the event loop has not turned for 5 s"]);
    loop.turn();
    expect(loop.longestMs).toBe(5_001 - LoopCheck.TURN_MS);
    expect(health.notLive()).toEqual([]);
    await clock.advance(25_001);
    loop.turn();
    expect(health.notLive()).toEqual(["kernel: removing eth0 has not ended for 30 s"]);
    gate.resolve();
    await step;
    expect(health.notLive()).toEqual([]);
  });
});

/** As many connections as the port takes. */
const MOST = 64;

describe("the health port", () => {
  it("answers liveness, readiness, the document and the figures, and nothing else", async () => {
    let isAlive = true;
    health.add({ name: "alive", decides: "live", look: () => ({ state: isAlive ? "ok" : "failure", message: "of the test" }) });
    const metrics = { contentType: "text/plain; version=0.0.4", text: async () => "tortie_one 1\n" };
    await using server = await startHealthServer({ port: 0, health, metrics });
    const ask = async (path: string, method = "GET") => {
      const answer = await fetch(`http://127.0.0.1:${server.port}${path}`, { method });
      return [answer.status, await answer.text()] as const;
    };
    expect(await ask("/livez")).toEqual([200, "ok\n"]);
    expect(await ask("/readyz")).toEqual([200, "ok\n"]);
    expect(await ask("/metrics")).toEqual([200, "tortie_one 1\n"]);
    phase = "local";
    isAlive = false;
    expect(await ask("/livez?verbose")).toEqual([503, "alive: of the test\n"]);
    expect(await ask("/readyz")).toEqual([503, "phase: the agent is in phase local\n"]);
    const [status, text] = await ask("/healthz");
    expect([status, JSON.parse(text)]).toEqual([503, expect.objectContaining({ live: false, ready: false, state: "failure" })]);
    expect((await ask("/config"))[0]).toBe(404);
    expect((await ask("/healthz", "POST"))[0]).toBe(405);
  });

  it("S7: has a limit of connections, and serves again once those that say nothing are gone", async () => {
    const metrics = { contentType: "text/plain", text: async () => "" };
    await using server = await startHealthServer({ port: 0, health, metrics });
    const closed = Promise.withResolvers<void>();
    const silent = Array.from({ length: MOST + 1 }, () => connect(server.port, "127.0.0.1"));
    for (const socket of silent) socket.on("error", () => undefined).once("close", () => closed.resolve());
    // One of them is closed at once, and all others when they have said nothing for their time.
    await closed.promise;
    await Promise.all(silent.map((socket) => socket.closed || new Promise((done) => socket.once("close", done))));
    expect((await fetch(`http://127.0.0.1:${server.port}/livez`)).status).toBe(200);
  });

  it("S7: is opened as soon as whoever had it is gone", async () => {
    const metrics = { contentType: "text/plain", text: async () => "" };
    const squatter = await startHealthServer({ port: 0, health, metrics });
    const [taken, served] = [Promise.withResolvers<unknown>(), Promise.withResolvers<number>()];
    const listener = { onTaken: taken.resolve, onServed: served.resolve };
    await using _ = await keepHealthServed({ port: squatter.port, health, metrics }, listener);
    expect(String(await taken.promise)).toContain("EADDRINUSE");
    await squatter[Symbol.asyncDispose]();
    expect(await served.promise).toBe(squatter.port);
    expect((await fetch(`http://127.0.0.1:${squatter.port}/livez`)).status).toBe(200);
  });
});
