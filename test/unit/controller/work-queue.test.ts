/** The controller's queue, on a clock that the test moves. */
import { WorkQueue } from "../../../controller/queue/work-queue.ts";
import { FakeClock } from "../../support/fake-clock.ts";

/** A queue at work; `tried` are "key time" of each try. Keys fail as long as `fails` says so. */
function working(fails: (key: string, tries: number) => boolean) {
  const clock = new FakeClock();
  const queue = new WorkQueue(clock);
  const tried: string[] = [];
  const ending = new AbortController();
  const running = queue.run(
    async (key) => {
      tried.push(`${key} ${clock.now()}`);
      if (fails(key, tried.length)) throw new Error("not yet");
    },
    ending.signal,
    () => undefined,
  );
  const end = async () => {
    ending.abort(new Error("end"));
    await clock.advance(60_000);
    await running;
  };
  return { clock, queue, tried, end };
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
});
