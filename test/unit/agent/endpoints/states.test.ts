/** The transitions of an endpoint's state, as the table of A§5.3 has them. */
import { allowsBuild, isEnded, judgeTransition, STATES, type State } from "../../../../agent/endpoints/status.ts";
import { words } from "../../../support/words.ts";

describe("A transition", () => {
  it("into and out of a build is the builder's alone", () => {
    expect([judgeTransition("regenerating", "ready", "builder"), judgeTransition("regenerating", "ready", "anybody")]).toEqual([
      "allowed",
      "refused",
    ]);
    expect(judgeTransition("waiting-to-regenerate", "regenerating", "anybody")).toBe("refused");
  });

  it("leads nowhere from an endpoint that has ended, and from one that is being removed only to its end", () => {
    const from = (state: State) => STATES.filter((to) => judgeTransition(state, to, "anybody") === "allowed");
    expect([from("disconnected"), from("disconnecting")]).toEqual([[], ["disconnected"]]);
    expect(STATES.filter(isEnded)).toEqual(["disconnecting", "disconnected"]);
  });

  it("to a removal is anybody's while the endpoint lives, and builds are allowed once it is attached", () => {
    expect(STATES.filter((state) => judgeTransition(state, "disconnecting", "anybody") === "allowed")).toEqual(words`
      creating waiting-for-identity ready waiting-to-regenerate regenerating restoring
    `);
    expect(STATES.filter(allowsBuild)).toEqual(["waiting-for-identity", "ready", "waiting-to-regenerate", "regenerating", "restoring"]);
  });
});
