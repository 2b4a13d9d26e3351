/** How long a comparison waits for addresses that the kernel is still preparing. */
import type { Difference } from "../../../../dataplane/desired-state.ts";
import { settled, TENTATIVE } from "../../../../dataplane/linux/inspect.ts";

const difference = (found: string): Difference => ({ side: "pod", object: "address fd80::9/128", wanted: "present", found });

/** @returns what came out of these comparisons, the last of them again and again, and how many there were */
async function compared(...results: readonly (readonly Difference[])[]) {
  let looks = 0;
  const found = await settled(() => [...(results[Math.min(looks++, results.length - 1)] ?? [])]);
  return { found, looks };
}

describe("a comparison", () => {
  it("is made once where no address is tentative", async () => {
    expect(await compared([])).toEqual({ found: [], looks: 1 });
    expect(await compared([difference("absent")])).toEqual({ found: [difference("absent")], looks: 1 });
  });

  it("is made again while tentative addresses are all it finds, and ends with what it finds then", async () => {
    const tentative = [difference(TENTATIVE), difference(TENTATIVE)];
    expect(await compared(tentative, tentative, [])).toEqual({ found: [], looks: 3 });
    expect(await compared(tentative, [difference("absent")])).toEqual({ found: [difference("absent")], looks: 2 });
  });

  it("does not wait for a tentative address beside another difference", async () => {
    expect((await compared([difference(TENTATIVE), difference("absent")], [])).looks).toBe(1);
  });
});
