/** `chain: attach`: what the plugin before this one made is printed as it was, and nothing else happens. */
import { parseJson } from "../../../lib/json/parse.ts";
import { isChained, serve } from "../../../main-plugin/serve.ts";
import { PodNode } from "../../support/pod-node.ts";

const PREVIOUS = { cniVersion: "1.0.0", interfaces: [], ips: [{ address: "10.9.0.1/24" }], theirs: 1 };

describe("A chained call", () => {
  it("prints the result of the plugin before, members that are not known included", async () => {
    await using node = await PodNode.create();
    const { call, host: parts } = node.parts({ conf: { chain: "attach", prevResult: PREVIOUS } });
    expect([isChained(call), isChained(node.parts().call)]).toEqual([true, false]);
    expect(parseJson((await serve(call, parts)) ?? "")).toEqual(PREVIOUS);
    expect(await serve({ ...call, request: { ...call.request, command: "DEL" } }, parts)).toBeUndefined();
    expect(node.effects).toEqual([]);
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
