/** Several watches of one server: their states, what the silence of one does to the others, and their common end. */
import { type Feed, SilenceError } from "../../../../../lib/kubernetes/watch/feed.ts";
import { Watches } from "../../../../../lib/kubernetes/watch/informers.ts";
import { FakeClock, settled } from "../../../../support/fake-clock.ts";
import { fresh } from "../../../../support/fixtures.ts";

/** Lists nothing, and is followed until it is ended. */
class QuietFeed implements Feed<number> {
  readonly isHeartbeat = false;
  readonly name: string;
  follows = 0;
  /** Why following ended, each time. */
  readonly ends: unknown[] = [];
  fail: (error: Error) => void = () => {};

  constructor(name: string) {
    this.name = name;
  }

  list(): Promise<string> {
    return Promise.resolve("1");
  }

  follow(_version: string, _sink: unknown, begun: () => void, signal: AbortSignal): Promise<void> {
    this.follows++;
    begun();
    const { promise, reject } = Promise.withResolvers<void>();
    this.fail = reject;
    signal.addEventListener("abort", () => {
      this.ends.push(signal.reason);
      reject(signal.reason);
    });
    return promise;
  }
}

describe("watches of one server", () => {
  const clock = fresh(() => new FakeClock());

  it("say of each how it fares, in the order in which they were begun, and what fails", async () => {
    const problems: string[] = [];
    await using watches = new Watches({ clock, onProblem: (problem) => problems.push(problem) });
    expect(watches.states()).toEqual([]);
    const [pods, pools] = [new QuietFeed("pods"), new QuietFeed("pools")];
    const cache = watches.begin(pods);
    watches.begin(pools);
    expect(cache.isUsable).toBe(false);
    await settled();
    expect(cache.isUsable).toBe(true);
    expect(watches.states()).toMatchObject([
      { name: "pods", isSynced: true, lostSince: undefined },
      { name: "pools", isSynced: true, lostSince: undefined },
    ]);
    pools.fail(new Error("reset"));
    await settled();
    expect(watches.states()).toMatchObject([{ lostSince: undefined }, { lostSince: 0 }]);
    expect(problems).toEqual([expect.stringMatching(/^pools: .*reset/)]);
  });

  it("G5: are all asked for anew when one of them was silent, but that one once only", async () => {
    await using watches = new Watches({ clock });
    const feeds = ["pods", "pools", "nodes"].map((name) => new QuietFeed(name));
    for (const feed of feeds) watches.begin(feed);
    await settled();
    feeds[0]?.fail(new SilenceError(1_000));
    await clock.advance(60_000);
    expect(feeds.map(({ ends }) => ends)).toEqual([[], ["reconnect"], ["reconnect"]]);
    expect(feeds.map(({ follows }) => follows)).toEqual([2, 2, 2]);
  });

  it("end together, and are none any more", async () => {
    const watches = new Watches({ clock });
    const feeds = ["pods", "pools"].map((name) => new QuietFeed(name));
    for (const feed of feeds) watches.begin(feed);
    await settled();
    await watches[Symbol.asyncDispose]();
    expect(feeds.map(({ ends }) => ends)).toEqual([["stopped"], ["stopped"]]);
    expect(watches.states()).toEqual([]);
  });
});
