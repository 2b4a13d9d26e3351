/** N18: what a watch reports of an outage, however many tries it has and whatever each of them says. */
import type { Feed } from "../../../../../lib/kubernetes/watch/feed.ts";
import { Watches } from "../../../../../lib/kubernetes/watch/informers.ts";
import { FakeClock, settled } from "../../../../support/fake-clock.ts";
import { fresh } from "../../../../support/fixtures.ts";

class ScriptedFeed implements Feed<number> {
  readonly name = "sizes";
  readonly isHeartbeat = false;
  isAway = false;
  tries = 0;
  break: (error: Error) => void = () => {};
  reached: () => void = () => {};

  async list(): Promise<string> {
    return "1";
  }

  async follow(version: string, sink: Parameters<Feed<number>["follow"]>[1], begun: () => void, signal: AbortSignal): Promise<void> {
    if (this.isAway) throw new Error(`refused at try ${++this.tries}`);
    begun();
    this.reached = () => sink.reached(version);
    const { promise, reject, resolve } = Promise.withResolvers<void>();
    this.break = reject;
    signal.addEventListener("abort", () => resolve());
    await promise;
  }
}

const made = fresh(() => new AsyncDisposableStack());

async function begin() {
  const clock = new FakeClock();
  const told: string[] = [];
  const feed = new ScriptedFeed();
  made.use(new Watches({ clock, onProblem: (message) => told.push(message) })).begin(feed);
  await settled();
  await clock.advance(60_000);
  return { clock, told, feed };
}

it("reports the beginning, a reminder every ten minutes, and the end with the duration", async () => {
  const { clock, told, feed } = await begin();
  feed.isAway = true;
  feed.break(new Error("reset"));
  await settled();
  for (let second = 0; second < 900; second++) await clock.advance(1_000);
  expect(feed.tries).toBeGreaterThan(60);
  expect(told).toEqual(["sizes: the watch broke off (reset)", expect.stringMatching(/^sizes: refused at try \d+ \(for 60\d s now\)$/)]);
  feed.isAway = false;
  await clock.advance(20_000);
  feed.reached();
  expect(told.slice(2)).toEqual([expect.stringMatching(/^sizes: followed again, after 9\d\d s$/)]);
});

it("reports one beginning of a watch that breaks as soon as it begins", async () => {
  const { clock, told, feed } = await begin();
  for (let time = 0; time < 20; time++) {
    feed.break(new Error(`reset ${time}`));
    await settled();
    await clock.advance(10_000 * (time === 0 ? 0.05 : 1));
    feed.break(new Error(`reset ${time} again`));
    await settled();
  }
  expect(told.filter((message) => !message.includes("now)"))).toEqual(["sizes: the watch broke off (reset 0)"]);
});
