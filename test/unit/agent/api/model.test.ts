/** Named models of the API: members that they do not name are refused, unless they say otherwise. */
import { MODELS, model, ref, Type, words } from "../../../../agent/api/model.ts";

describe("A model of the API", () => {
  it("is closed unless it says otherwise, and others refer to it by its name", () => {
    const closed = model("ClosedOfATest", "closed", { word: words("a", "b") });
    const open = model("OpenOfATest", "open", { one: Type.Integer() }, true);
    try {
      expect([closed.additionalProperties, open.additionalProperties]).toEqual([false, true]);
      expect(ref(closed)).toMatchObject({ $ref: "ClosedOfATest#" });
      expect(closed.properties.word).toMatchObject({ type: "string", enum: ["a", "b"] });
      expect(MODELS.get("OpenOfATest")).toBe(open);
    } finally {
      for (const name of ["ClosedOfATest", "OpenOfATest"]) MODELS.delete(name);
    }
  });
});
