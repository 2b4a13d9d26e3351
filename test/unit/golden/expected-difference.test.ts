import type { Difference } from "../../golden/compare/compare.ts";
import { classify, type Expectations, type GeneralDifference } from "../../golden/differences/expected-difference.ts";

const EXIT: Difference = { path: ["call 0", "exit"], recorded: 1, ours: 0 };
const LINK: Difference = { path: ["call 0", "kernel", "host", "links", "cali1"], recorded: { mtu: 1500 }, ours: undefined };

describe("the differences of a play", () => {
  it("calls a difference that nobody listed unexpected", () => {
    expect(classify([EXIT], {}, []).unexpected).toEqual([EXIT]);
  });

  it("accepts a listed difference with the outcome that is written down", () => {
    const own: Expectations = { "call 0 > exit": { is: 0 }, "call 0 > kernel > host > **": { absent: true } };
    expect(classify([EXIT, LINK], own, [])).toMatchObject({ unexpected: [], stale: [] });
  });

  it("refuses a listed difference with another outcome", () => {
    expect(classify([EXIT], { "call 0 > exit": { is: 2 } }, [])).toMatchObject({ unexpected: [EXIT], stale: ["call 0 > exit"] });
  });

  it("names what is listed and does not occur", () => {
    expect(classify([], { "call 0 > exit": { is: 0 } }, []).stale).toEqual(["call 0 > exit"]);
  });

  it("accepts general differences anywhere and says which occurred", () => {
    const general: GeneralDifference[] = [
      { name: "links go", suites: [], reason: "a test", expect: { "* > kernel > host > links > *": { absent: true } } },
    ];
    const { unexpected, general: met } = classify([EXIT, LINK], {}, general);
    expect({ unexpected, met: [...met] }).toEqual({ unexpected: [EXIT], met: ["links go"] });
  });

  it("matches a star with one segment only", () => {
    expect(classify([LINK], { "call 0 > kernel > *": { absent: true } }, []).unexpected).toEqual([LINK]);
  });

  it("lets a race go either way", () => {
    const races: Expectations = { "call 0 > exit": { is: 0 } };
    expect([classify([EXIT], {}, [], races), classify([], {}, [], races)]).toMatchObject([
      { unexpected: [], stale: [] },
      { unexpected: [], stale: [] },
    ]);
  });
});
