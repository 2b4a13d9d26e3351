/** What the agent's health says of attachments that are no endpoints. */
import { judgeAttachments } from "../../../../agent/take-over/health.ts";
import type { LeftAsIs } from "../../../../agent/take-over/take-over.ts";
import type { HostEndLink } from "../../../../dataplane/linux/host-ends.ts";
import { decodeNetworkConfig } from "../../../../lib/config/decode.ts";
import { address } from "../../../support/addresses.ts";

const NOTHING: LeftAsIs = { toPlugins: [], unidentified: [] };
const END: HostEndLink = { index: 7, name: "cali1", alias: "", kind: "veth", addresses: [address("10.0.0.1")] };
const list = (isOfAgent: boolean) => ({
  file: "/lists/10-a.conflist",
  config: decodeNetworkConfig({ name: "net1" }),
  netconf: {},
  isOfAgent,
});

describe("the check of attachments", () => {
  it("is well where every list is the agent's and every host end an endpoint's", () => {
    expect(judgeAttachments({ lists: [list(true)], left: NOTHING, isClosed: () => false })).toMatchObject({ state: "ok" });
  });

  it("names the list that leaves its pods to the plugins, and how many there are", () => {
    const plugins = list(false);
    const left = { ...NOTHING, toPlugins: [{ network: "net1", list: plugins, end: END }] };
    expect(judgeAttachments({ lists: [plugins], left, isClosed: () => false })).toMatchObject({
      state: "warning",
      message: 'list /lists/10-a.conflist has no "agent": "require": the plugins serve network net1 themselves, and its 1 attachments here',
      next: expect.stringContaining('give the list "agent": "require"'),
    });
  });

  it("names a network without a list", () => {
    const left = { ...NOTHING, toPlugins: [{ network: "gone", list: undefined, end: END }] };
    expect(judgeAttachments({ lists: [], left, isClosed: () => false }).message).toContain("cali1 (gone)");
  });

  it.each([
    [true, "it is closed, since a policy may select its pod"],
    [false, "it is open"],
  ])("says of a host end that nobody can identify whether it is closed: %s", (isClosed, words) => {
    const left = { ...NOTHING, unidentified: [{ end: END, problem: "it has no alias" }] };
    expect(judgeAttachments({ lists: [], left, isClosed: () => isClosed })).toMatchObject({
      state: "warning",
      message: `nobody can say whose these host ends are: cali1 (10.0.0.1): it has no alias; ${words}`,
      next: expect.stringContaining("ip link delete"),
    });
  });
});
