/** A stream that somebody reads no longer before it begins. */
import { unlessSilent } from "../../../../../lib/kubernetes/watch/feed.ts";
import { FakeClock } from "../../../../support/fake-clock.ts";

describe("a stream that is limited", () => {
  it("is not opened where its reader has gone already", async () => {
    let opened = 0;
    const open = async () => {
      opened++;
      return new Blob(["x"]).stream();
    };
    const reading = Array.fromAsync(unlessSilent(open, 1_000, new FakeClock(), AbortSignal.abort(new Error("gone"))));
    await expect(reading).rejects.toThrow("gone");
    expect(opened).toBe(0);
  });
});
