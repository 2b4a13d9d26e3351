/** What the judge may conclude from what calls have answered. */
import { Ledger } from "../../../support/judge/ledger.ts";

const CALL = { network: "net1", containerId: "web", ifname: "eth0" };
type Verb = "ADD" | "DEL" | "CHECK" | "GC";

/** How a call ended, by its word in a row; without a word it succeeded. */
const OUTCOMES: Readonly<Record<string, boolean | undefined>> = { succeeded: true, failed: false, killed: undefined };

/** @returns whether nothing may be there after these calls, one after the other: "ADD", "DEL failed" */
function isEnded(...calls: readonly string[]): boolean {
  const ledger = new Ledger();
  for (const call of calls) {
    const [verb, outcome = "succeeded"] = call.split(" ");
    ledger.begin({ verb: verb as Verb, ...CALL })(OUTCOMES[outcome]);
  }
  return ledger.ended().some(({ containerId }) => containerId === "web");
}

describe("An attachment must have left nothing", () => {
  it.each<readonly [string, boolean, readonly string[]]>([
    ["after its DEL", true, ["ADD", "DEL"]],
    ["after a DEL alone", true, ["DEL"]],
    ["after an ADD that failed", true, ["ADD failed"]],
    ["after its DEL and an ADD that failed", true, ["ADD", "DEL", "ADD failed"]],
    ["after the DEL of an ADD that was killed", true, ["ADD killed", "DEL"]],
    ["after an ADD", false, ["ADD"]],
    ["after an ADD that was killed", false, ["ADD killed"]],
    ["after a DEL that was killed", false, ["ADD", "DEL killed"]],
    ["after a DEL that failed", false, ["ADD", "DEL failed"]],
    ["after a repeated ADD that failed", false, ["ADD", "ADD failed"]],
    ["after CHECK", false, ["ADD", "CHECK failed"]],
    ["after GC", false, ["ADD", "GC"]],
    ["after its DEL and GC", true, ["ADD", "DEL", "GC"]],
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
