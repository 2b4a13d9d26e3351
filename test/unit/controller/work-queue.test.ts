/** The controller's queue, on a clock that the test moves. */
import { WorkQueue } from "../../../controller/term.ts";
import { FakeClock } from "../../support/fake-clock.ts";

/** A queue at work; `tried` are "key time" of each try, `told` "key: message time" of each failure. Keys fail as long as `fails` says so. */
function working(fails: (key: string, tries: number) => boolean) {
  const clock = new FakeClock();
  const queue = new WorkQueue(clock);
  const tried: string[] = [];
  const told: string[] = [];
  const ending = new AbortController();
  const running = queue.run(
    async (key) => {
      tried.push(`${key} ${clock.now()}`);
      if (fails(key, tried.length)) throw new Error("not yet");
    },
    ending.signal,
    (key, message) => told.push(`${key}: ${message} ${clock.now()}`),
  );
  const end = async () => {
    ending.abort(new Error("end"));
    await clock.advance(60_000);
    await running;
  };
  return { clock, queue, tried, told, ending, end };
}

describe("the queue of the controller", () => {
  it("X5: keeps the back-off of a failing key that the next look finds again", async () => {
    const { clock, queue, tried, end } = working((_, tries) => tries < 4);
    queue.add("bad");
    for (let at = 0; at < 40; at++) {
      await clock.advance(1);
      if (queue.status.length > 0) queue.add("bad");
    }
    expect(tried).toEqual(["bad 0", "bad 5", "bad 15", "bad 35"]);
    await end();
  });

  it("works again on a key that came during its work", async () => {
    const { clock, queue, tried, end } = working(() => {
      if (tried.length === 1) queue.add("one");
      return false;
    });
    queue.add("one");
    await clock.advance(1);
    expect(tried).toEqual(["one 0", "one 0"]);
    await end();
  });

  it("tells of each failure once, by key and message, and begins its pauses anew after a success", async () => {
    let fails = 2;
    const { clock, queue, told, end } = working(() => fails-- > 0);
    queue.add("bad");
    await clock.advance(100);
    expect(told).toEqual(["bad: not yet 0", "bad: not yet 5"]);
    expect(queue.status.failing).toEqual([]);
    fails = 1;
    queue.add("bad");
    await clock.advance(1);
    expect(queue.status.failing).toEqual([{ key: "bad", failures: 1, message: "not yet" }]);
    await end();
  });

  it("works on what is due first, and among those that are due at once on what came first", async () => {
    const { clock, queue, tried, end } = working((key, tries) => key === "slow" && tries === 1);
    queue.add("slow");
    await clock.advance(1);
    for (const key of ["a", "b"]) queue.add(key);
    await clock.advance(10);
    expect(tried).toEqual(["slow 0", "a 1", "b 1", "slow 5"]);
    await end();
  });

  it("does a hundred at once, and ten in a second after that", async () => {
    const { clock, queue, tried, end } = working(() => false);
    for (let key = 0; key < 120; key++) queue.add(`key${key}`);
    await clock.advance(0);
    expect(tried).toHaveLength(100);
    await clock.advance(1_000);
    expect(tried).toHaveLength(110);
    await end();
    expect(tried).toHaveLength(110);
  });

  it("takes a failure that its own end makes for none", async () => {
    const { clock, queue, told, ending, end } = working(() => {
      ending.abort(new Error("end"));
      return true;
    });
    queue.add("one");
    await clock.advance(60_000);
    await end();
    expect([told, queue.status.failing]).toEqual([[], []]);
  });

  it("waits without work, and sleeps a minute at most", async () => {
    const { clock, tried, end } = working(() => false);
    await clock.advance(180_000);
    expect([tried, clock.pauses]).toEqual([[], [60_000, 60_000, 60_000, 60_000]]);
    await end();
  });
});

describe("the queue", () => {
  it("works on a key once however often it is added, and later each time that it fails", async () => {
    const { clock, queue, tried, end } = working((key) => key === "bad" && tried.filter((one) => one.startsWith(key)).length < 4);
    for (const key of ["bad", "good", "good"]) queue.add(key);
    await clock.advance(1);
    expect(queue.status).toMatchObject({ length: 1, failing: [{ key: "bad", failures: 1, message: "not yet" }] });
    await clock.advance(1_000);
    expect(tried).toEqual(["bad 0", "good 0", "bad 5", "bad 15", "bad 35"]);
    expect(queue.status).toEqual({ working: undefined, length: 0, failing: [] });
    await end();
  });
});
