/** Whose a host end is that has no record: what proves it, and what proves nothing. */
import { type BlockGrant, type Evidence, identify } from "../../../../agent/take-over/identify.ts";
import { attachmentAlias } from "../../../../dataplane/alias.ts";
import type { HostEndLink } from "../../../../dataplane/linux/host-ends.ts";
import { formatAddress } from "../../../../lib/addresses/address.ts";
import { containerHostInterfaceName, podHostInterfaceName } from "../../../../lib/workload/names.ts";
import { address } from "../../../support/addresses.ts";
import { podOf } from "../../../support/pods.ts";

const WEB = podHostInterfaceName("shop", "web");
const OWNER = { network: "net1", containerId: "c1", ifname: "eth0" };

function end(change: Partial<HostEndLink> = {}): HostEndLink {
  return { index: 7, name: WEB, alias: "", kind: "veth", addresses: [address("10.0.0.1")], ...change };
}

function evidence(grants: Readonly<Record<string, BlockGrant>>, pods: Evidence["pods"] = []): Evidence {
  return { grantOf: (one) => grants[formatAddress(one)], pods };
}

const GRANT = { network: "net1", containerId: "c1", pod: "shop/web" };
const NOTHING: Evidence = { grantOf: undefined, pods: [] };

describe("a host end with an alias", () => {
  it("is the attachment's and the pod's that the alias names, whatever else is known", () => {
    const alias = attachmentAlias({ ...OWNER, workload: "shop/web" });
    expect(identify(end({ alias }), NOTHING)).toEqual({ attachment: OWNER, pod: "shop/web", isCertain: true });
  });

  it("is nobody's without a host route", () => {
    const alias = attachmentAlias({ ...OWNER, workload: "shop/web" });
    expect(identify(end({ alias, addresses: [] }), NOTHING)).toEqual({ problem: "no host route leads to it" });
  });

  it("has the pod of its name where the alias is too old to name one, and no certain one where nobody knows that pod", () => {
    const old = end({ alias: attachmentAlias(OWNER) });
    const pods = [podOf({ namespace: "shop", name: "db" }), podOf({ namespace: "shop", name: "web" })];
    expect(identify(old, { grantOf: undefined, pods })).toEqual({ attachment: OWNER, pod: "shop/web", isCertain: true });
    expect(identify(old, NOTHING)).toEqual({ attachment: OWNER, pod: undefined, isCertain: false });
  });

  it("is a plain container's where it has the name of one", () => {
    const plain = end({ alias: attachmentAlias(OWNER), name: containerHostInterfaceName("c1") });
    expect(identify(plain, NOTHING)).toEqual({ attachment: OWNER, pod: undefined, isCertain: true });
  });
});

describe("a host end without an alias", () => {
  it("is the pod's that the block names, where the link has this pod's name", () => {
    expect(identify(end(), evidence({ "10.0.0.1": GRANT }))).toEqual({ attachment: OWNER, pod: "shop/web", isCertain: true });
  });

  it.each([
    ["the address is granted to a pod of another name", end(), evidence({ "10.0.0.1": { ...GRANT, pod: "shop/thief" } })],
    [
      "one of its addresses is another container's",
      end({ addresses: [address("10.0.0.1"), address("fd00::1")] }),
      evidence({ "10.0.0.1": GRANT, "fd00::1": { ...GRANT, containerId: "c2" } }),
    ],
    [
      "one of its addresses is granted to nobody",
      end({ addresses: [address("10.0.0.1"), address("fd00::1")] }),
      evidence({ "10.0.0.1": GRANT }),
    ],
    ["no store has answered", end(), NOTHING],
  ])("is nobody's when %s", (_, link, known) => {
    expect(identify(link, known)).toMatchObject({ problem: expect.stringContaining("it has no alias") });
  });

  it("is the pod's whose status has its addresses and whose name it has, without a container", () => {
    const pods = [podOf({ namespace: "shop", name: "web", podIP: "10.0.0.1" })];
    expect(identify(end(), { grantOf: undefined, pods })).toEqual({ attachment: undefined, pod: "shop/web", isCertain: true });
    expect(identify(end({ name: "cali00000000000" }), { grantOf: undefined, pods })).toHaveProperty("problem");
  });

  it("is not the pod's whose annotation claims its address", () => {
    const annotations = { "cni.projectcalico.org/podIP": "10.0.0.1/32", "cni.projectcalico.org/containerID": "c1" };
    const pods = [podOf({ namespace: "shop", name: "web", annotations })];
    expect(identify(end(), evidence({}, pods))).toHaveProperty("problem");
  });
});
