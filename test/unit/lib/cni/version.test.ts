import { renderVersions } from "../../../../lib/cni/protocol.ts";
import { isAtLeast } from "../../../../lib/cni/request.ts";

describe("the answer to VERSION", () => {
  it("is one line with all versions, the newest as its own (recording version, with 1.1.0 added)", () => {
    expect(renderVersions()).toBe('{"cniVersion":"1.1.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}\n');
  });
});

describe("isAtLeast", () => {
  it("compares versions by age", () => {
    expect(isAtLeast("1.0.0", "0.4.0")).toBe(true);
    expect(isAtLeast("0.3.1", "0.3.1")).toBe(true);
    expect(isAtLeast("0.3.0", "0.3.1")).toBe(false);
  });
});
