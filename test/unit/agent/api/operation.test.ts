/** Named models of the API: members that they do not name are refused. */
import { MODELS, model, ref, words } from "../../../../agent/api/operation.ts";

describe("A model of the API", () => {
  it("is closed, and others refer to it by its name", () => {
    const closed = model("ClosedOfATest", "closed", { word: words("a", "b") });
    try {
      expect(closed.additionalProperties).toBe(false);
      expect(ref(closed)).toMatchObject({ $ref: "ClosedOfATest#" });
      expect(closed.properties.word).toMatchObject({ type: "string", enum: ["a", "b"] });
      expect(MODELS.get("ClosedOfATest")).toBe(closed);
    } finally {
      MODELS.delete("ClosedOfATest");
    }
  });
});
