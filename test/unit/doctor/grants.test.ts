import { judgeGrants } from "../../../doctor/host/addresses.ts";
import { address } from "../../support/addresses.ts";

const routed = ["10.244.0.1", "fd44::1"].map((text, at) => ({ end: `cali${at}`, address: address(text) }));

describe("addresses of pods and grants of the local store", () => {
  it("are well where the store grants each", () => {
    expect(judgeGrants(routed, new Set(["10.244.0.1", "fd44::1", "10.244.0.2"]), "/s.db")).toMatchObject([{ status: "ok" }]);
    expect(judgeGrants([], new Set(), "/s.db")).toMatchObject([{ status: "ok" }]);
  });

  it("name each interface whose address the store does not grant, with the next step", () => {
    expect(judgeGrants(routed, new Set(["10.244.0.1"]), "/s.db")).toMatchObject([
      {
        status: "failed",
        object: "interface cali1",
        message: expect.stringContaining("fd44::1 is not granted by /s.db"),
        next: expect.stringContaining("backup"),
      },
    ]);
  });
});
