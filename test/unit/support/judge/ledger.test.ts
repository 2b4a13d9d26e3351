/** What the judge may conclude from what calls have answered. */
import { Ledger } from "../../../support/judge/ledger.ts";

const CALL = { network: "net1", containerId: "web", ifname: "eth0" };
type Verb = "ADD" | "DEL" | "CHECK" | "GC";

/** @returns whether nothing may be there after calls with these outcomes, one after the other */
function isEnded(...calls: readonly (readonly [Verb, boolean | undefined])[]): boolean {
  const ledger = new Ledger();
  for (const [verb, isSuccess] of calls) ledger.begin({ verb, ...CALL })(isSuccess);
  return ledger.ended().some(({ containerId }) => containerId === "web");
}

describe("An attachment must have left nothing", () => {
  it.each<readonly [string, boolean, readonly (readonly [Verb, boolean | undefined])[]]>([
    [
      "after its DEL",
      true,
      [
        ["ADD", true],
        ["DEL", true],
      ],
    ],
    ["after a DEL alone", true, [["DEL", true]]],
    ["after an ADD that failed", true, [["ADD", false]]],
    [
      "after its DEL and an ADD that failed",
      true,
      [
        ["ADD", true],
        ["DEL", true],
        ["ADD", false],
      ],
    ],
    [
      "after the DEL of an ADD that was killed",
      true,
      [
        ["ADD", undefined],
        ["DEL", true],
      ],
    ],
    ["after an ADD", false, [["ADD", true]]],
    ["after an ADD that was killed", false, [["ADD", undefined]]],
    [
      "after a DEL that was killed",
      false,
      [
        ["ADD", true],
        ["DEL", undefined],
      ],
    ],
    [
      "after a DEL that failed",
      false,
      [
        ["ADD", true],
        ["DEL", false],
      ],
    ],
    [
      "after a repeated ADD that failed",
      false,
      [
        ["ADD", true],
        ["ADD", false],
      ],
    ],
    [
      "after CHECK",
      false,
      [
        ["ADD", true],
        ["CHECK", false],
      ],
    ],
    [
      "after GC",
      false,
      [
        ["ADD", true],
        ["GC", true],
      ],
    ],
    [
      "after its DEL and GC",
      true,
      [
        ["ADD", true],
        ["DEL", true],
        ["GC", true],
      ],
    ],
  ])("%s: %s", (_, expected, calls) => {
    expect(isEnded(...calls)).toBe(expected);
  });

  it("unless two calls ran at once, until another one has ended alone", () => {
    const ledger = new Ledger();
    const add = ledger.begin({ verb: "ADD", ...CALL });
    const del = ledger.begin({ verb: "DEL", ...CALL });
    del(true);
    add(false);
    expect(ledger.ended()).toEqual([]);
    ledger.begin({ verb: "DEL", ...CALL })(true);
    expect(ledger.ended()).toEqual([expect.objectContaining(CALL)]);
  });

  it("is kept apart from other interfaces and networks", () => {
    const ledger = new Ledger();
    ledger.begin({ verb: "ADD", ...CALL })(true);
    ledger.begin({ verb: "DEL", ...CALL, ifname: "net1" })(true);
    ledger.begin({ verb: "DEL", ...CALL, network: "net2" })(true);
    expect(ledger.ended().map(({ network, ifname }) => `${network} ${ifname}`)).toEqual(["net1 net1", "net2 eth0"]);
  });
});
