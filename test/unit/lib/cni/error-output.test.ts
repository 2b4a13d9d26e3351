import { renderError } from "../../../../lib/cni/error-output.ts";
import { entryOf } from "../../../../lib/errors/error-catalogue.ts";
import { ForeignCniError, TortieError } from "../../../../lib/errors/errors.ts";

describe("renderError", () => {
  it("prints code, message, the word and the next step of an error of ours", () => {
    expect(renderError(new TortieError("environment-missing", "required env variables [CNI_PATH] missing"))).toBe(
      `{\n    "code": 4,\n    "msg": "required env variables [CNI_PATH] missing",\n    "details": "environment-missing: ${entryOf("environment-missing").next}"\n}`,
    );
  });

  it("puts recorded details first", () => {
    const error = new TortieError("network-name-invalid", "invalid characters found in network name", {
      details: "a/b",
      next: "rename it",
    });
    expect(JSON.parse(renderError(error))).toEqual({
      code: 7,
      msg: "invalid characters found in network name",
      details: "a/b; network-name-invalid: rename it",
    });
  });

  it("passes the error of another plugin on unchanged (recordings delegate-error, delegate-del-fails)", () => {
    expect(renderError(new ForeignCniError(111, "no", "d"))).toBe('{\n    "code": 111,\n    "msg": "no",\n    "details": "d"\n}');
    expect(renderError(new ForeignCniError(112, "no del"))).toBe('{\n    "code": 112,\n    "msg": "no del"\n}');
  });

  it.each([new TypeError("x is undefined"), "x is undefined"])("calls anything else a defect, code 999: %p", (thrown) => {
    expect(JSON.parse(renderError(thrown))).toEqual({
      code: 999,
      msg: "x is undefined",
      details: `internal: ${entryOf("internal").next}`,
    });
  });

  it("L8: keeps control characters of what it quotes from terminals, line ends apart", () => {
    const error = JSON.parse(
      renderError(new TortieError("annotation-invalid", "line one\n\ttwo \u009b31m \u001b[0m", { details: "\u0085" })),
    );
    expect(error).toMatchObject({ msg: "line one\n\ttwo \\u009b31m \\u001b[0m", details: expect.stringMatching(/^\\u0085; /) });
  });

  it("escapes as Go does", () => {
    expect(renderError(new ForeignCniError(5, '<"&\n'))).toContain('"msg": "\\u003c\\"\\u0026\\n"');
  });

  it("reports the first error of a failed operation, then what failed while it was undone", async () => {
    const undo = new AsyncDisposableStack();
    undo.defer(() => {
      throw new Error("link is busy");
    });
    undo.defer(() => {
      throw new Error("address is stuck");
    });
    const ofUndo: unknown = await undo.disposeAsync().catch((thrown: unknown) => thrown);
    // What `await using` throws; swc 1.16.22 compiles that statement wrongly for this very case.
    const error = new SuppressedError(ofUndo, new ForeignCniError(11, "try again", "later"));
    expect(JSON.parse(renderError(error))).toEqual({
      code: 11,
      msg: "try again",
      details: "later; while undoing: address is stuck; while undoing: link is busy",
    });
  });
});
