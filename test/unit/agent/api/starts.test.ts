import { Starts } from "../../../../agent/api/lanes.ts";

describe("Calls that come together", () => {
  it("begin one in each turn of the event loop, in the order of coming", async () => {
    const starts = new Starts();
    const order: string[] = [];
    const calls = [1, 2, 3].map(async (call) => {
      await starts.next();
      order.push(`call ${call}`);
      // Whatever else waits for its turn gets it before the next call.
      setImmediate(() => order.push(`after ${call}`));
    });
    await Promise.all(calls);
    await new Promise((resolve) => void setImmediate(resolve));
    expect(order).toEqual(["call 1", "after 1", "call 2", "after 2", "call 3", "after 3"]);
  });
});
