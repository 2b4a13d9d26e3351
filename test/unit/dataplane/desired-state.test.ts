/** What differences say of a pair as a whole. */
import { type Difference, lacksPair, lacksPodEnd } from "../../../dataplane/desired-state.ts";
import { desiredFor, HOST_INTERFACE } from "../../support/desired-state.ts";

const desired = desiredFor({ name: "pod", netnsPath: "/run/netns/pod" });
const missing = (side: "host" | "pod", name: string): Difference => ({ side, object: `link ${name}`, wanted: "present", found: "missing" });
const HOST = missing("host", HOST_INTERFACE);
const POD = missing("pod", "eth0");

describe("differences", () => {
  it("of both ends that are missing are those of a pair that can be made again", () => {
    expect(lacksPair([HOST, POD], desired)).toBe(true);
    expect(lacksPodEnd([HOST, POD], desired)).toBe(true);
  });

  it.each<[string, readonly Difference[]]>([
    ["of nothing", []],
    ["of the host end alone", [HOST]],
    ["of the pod end alone", [POD]],
    ["of a host end that is down", [{ ...HOST, found: "down" }, POD]],
    ["of a pod end that is down", [HOST, { ...POD, found: "down" }]],
    ["of other links", [missing("host", "eth0"), missing("pod", HOST_INTERFACE)]],
    ["of ends on the wrong sides", [missing("pod", HOST_INTERFACE), missing("host", "eth0")]],
    ["of a route that is missing on the host", [{ ...HOST, object: "route 10.0.0.1/32" }, POD]],
  ])("%s are not", (_, differences) => {
    expect(lacksPair(differences, desired)).toBe(false);
  });

  it("of the pod end say that the sandbox lacks it, those of others do not", () => {
    expect(lacksPodEnd([POD], desired)).toBe(true);
    for (const other of [HOST, missing("pod", "eth1"), missing("host", "eth0"), { ...POD, found: "down" }]) {
      expect(lacksPodEnd([other], desired)).toBe(false);
    }
  });
});
