import { Members } from "../../../../../lib/datastore/etcd/members.ts";

const NAMES = ["a", "b", "c"];

describe("Which member is asked", () => {
  it("is the same one as long as it answers, and nodes begin with different ones", () => {
    for (const [random, name] of [
      [0, "a"],
      [0.34, "b"],
      [0.99, "c"],
    ] as const) {
      const members = new Members(NAMES, { random: () => random });
      expect([members.next(0), members.next(1), members.next(60_000)]).toEqual([name, name, name]);
    }
  });

  it("is the next one when it fails, and stays that one", () => {
    const members = new Members(NAMES, { random: () => 0 });
    members.failed(members.next(0), 0);
    expect(members.next(0)).toBe("b");
    members.succeeded("b");
    expect(members.next(60_000)).toBe("b");
  });

  it("is no member that rests; the rest grows with every failure, up to 30 s, and ends with a success", () => {
    const members = new Members(["a", "b"], { random: () => 0 });
    members.failed("a", 0);
    members.failed("b", 100);
    expect(members.hasRested(999)).toBe(false);
    // All rest: the one whose rest ends first.
    expect(members.next(200)).toBe("a");
    members.failed("a", 1_000);
    expect(members.next(1_050)).toBe("b");
    members.succeeded("b");
    expect(members.hasRested(1_060)).toBe(true);
    for (let failure = 0; failure < 10; failure++) members.failed("a", 2_000);
    members.failed("b", 2_000);
    expect(members.hasRested(2_999)).toBe(false);
    expect(members.next(3_000)).toBe("b");
    members.failed("b", 40_000);
    expect(members.next(40_000)).toBe("a");
  });

  it("is told to others whenever the health of a member changes, and not for a success of one that is well", () => {
    const told: unknown[] = [];
    const members = new Members(NAMES, { random: () => 0, onChange: (health) => told.push(new Map(health)) });
    members.succeeded("b");
    members.failed("a", 0);
    members.succeeded("a");
    expect(told).toEqual([new Map([["a", { failures: 1, restsUntil: 1_000 }]]), new Map()]);
  });
});
