/** `chain: attach`: the result of the plugin before this one is printed in the version of the call, and nothing else happens. */
import type { CniVersion } from "../../../lib/cni/protocol.ts";
import { parseJson } from "../../../lib/json/parse.ts";
import type { JsonObject } from "../../../lib/json/value.ts";
import { isChained, serve } from "../../../main-plugin/serve.ts";
import { PodNode } from "../../support/pod-node.ts";

const PREVIOUS = { cniVersion: "1.0.0", interfaces: [], ips: [{ address: "10.9.0.1/24" }], theirs: 1 };

/** Serves an ADD of the given version with the result of a plugin before. @returns what it prints, and whether a result was recorded */
async function attach(node: PodNode, prevResult: JsonObject, cniVersion: CniVersion) {
  const { call, host } = node.parts({ conf: { chain: "attach", prevResult } });
  const commit = jest.fn(async () => {});
  const request = { ...call.request, cniVersion };
  const printed = await serve({ ...call, request, journal: { ...call.journal, commit } }, host).catch((error: unknown) => error);
  return { printed, commits: commit.mock.calls.length };
}

describe("A chained call", () => {
  it("prints a result of the call's version as it is, members that are not known included", async () => {
    await using node = await PodNode.create();
    const { call, host: parts } = node.parts({ conf: { chain: "attach", prevResult: PREVIOUS } });
    expect([isChained(call), isChained(node.parts().call)]).toEqual([true, false]);
    expect(parseJson((await serve(call, parts)) ?? "")).toEqual(PREVIOUS);
    expect(await serve({ ...call, request: { ...call.request, command: "DEL" } }, parts)).toBeUndefined();
    expect(node.effects).toEqual([]);
  });

  it.each(["0.3.1", "0.4.0", "1.1.0"] as const)("prints a result of another version in that of the call, %s", async (cniVersion) => {
    await using node = await PodNode.create();
    const { printed } = await attach(node, PREVIOUS, cniVersion);
    const version = cniVersion === "1.1.0" ? {} : { version: "4" };
    expect(parseJson(String(printed))).toMatchObject({ cniVersion, ips: [{ address: "10.9.0.1/24", ...version }] });
  });

  it("is refused in a version that cannot say what the plugin before made, with nothing recorded", async () => {
    await using node = await PodNode.create();
    const { printed, commits } = await attach(node, { cniVersion: "1.0.0", interfaces: [{ name: "eth0" }] }, "0.2.0");
    expect(printed).toMatchObject({ word: "result-invalid" });
    expect(commits).toBe(0);
  });

  it.each([
    [{ chain: "detach", prevResult: PREVIOUS }, 'chain must be "attach"'],
    [{ chain: "attach" }, "needs the prevResult"],
  ])("is refused with %j", async (conf, message) => {
    await using node = await PodNode.create();
    const { call, host: parts } = node.parts({ conf });
    await expect(serve(call, parts)).rejects.toThrow(message);
  });
});
