import { attachmentAlias } from "../../../../dataplane/alias.ts";
import { RelevantChanges } from "../../../../dataplane/linux/kernel-changes.ts";
import { type Attribute, bytes, nest, structure, text, u32 } from "../../../../dataplane/netlink/message.ts";
import { bytesOf } from "../../../../lib/addresses/address.ts";
import { address } from "../../../support/addresses.ts";

/** Numbers of include/uapi/linux/rtnetlink.h and if_link.h. */
const [NEWLINK, DELLINK, NEWADDR, NEWROUTE, DELNEIGH, NEWRULE] = [16, 17, 20, 24, 29, 32];
const [IFNAME, MTU, LINKINFO, IFALIAS, INFO_KIND] = [3, 4, 18, 20, 1];
const [UPLINK, POD, TUNNEL] = [2, 7, 9];

const message = (type: number, payload: Uint8Array) => ({ type, flags: 0, sequence: 0, payload });

function link(index: number, name: string, change: { type?: number; isUp?: boolean; mtu?: number; more?: readonly Attribute[] } = {}) {
  const { type = NEWLINK, isUp = true, mtu = 1500, more = [] } = change;
  const fill = (view: DataView) => {
    view.setInt32(4, index, true);
    view.setUint32(8, isUp ? 1 : 0, true);
  };
  return message(type, structure(16, fill, [text(IFNAME, name), u32(MTU, mtu), ...more]));
}

function addressOn(index: number, scope: number) {
  const fill = (view: DataView) => {
    view.setUint8(0, 2);
    view.setUint8(3, scope);
    view.setUint32(4, index, true);
  };
  return message(NEWADDR, structure(8, fill, []));
}

function routeThrough(index: number, table: number) {
  const fill = (view: DataView) => {
    for (const [at, value] of [2, 32, 0, 0, table].entries()) view.setUint8(at, value);
  };
  return message(NEWROUTE, structure(12, fill, [bytes(1, bytesOf(address("10.9.0.1"))), u32(4, index)]));
}

const neighbourOn = (index: number) =>
  message(
    DELNEIGH,
    structure(12, (view) => view.setInt32(4, index, true), []),
  );

describe("Notifications of the kernel", () => {
  const ALIAS = text(IFALIAS, attachmentAlias({ network: "net1", containerId: "c1", ifname: "eth0" }));
  let changes: RelevantChanges;
  beforeEach(() => {
    changes = new RelevantChanges([]);
    for (const one of [
      link(UPLINK, "eth0"),
      link(POD, "cali1", { more: [ALIAS] }),
      link(TUNNEL, "vxlan.calico", { more: [nest(LINKINFO, [text(INFO_KIND, "vxlan")])] }),
    ]) {
      changes.has(one);
    }
  });

  it("concern routes when a link of the host goes, goes down or changes its MTU, and not when it stays as it was", () => {
    expect(changes.has(link(UPLINK, "eth0"))).toBe(false);
    expect(changes.has(link(UPLINK, "eth0", { isUp: false }))).toBe(true);
    expect(changes.has(link(UPLINK, "eth0"))).toBe(true);
    expect(changes.has(link(UPLINK, "eth0", { mtu: 1400 }))).toBe(true);
    expect(changes.has(link(UPLINK, "eth0", { type: DELLINK }))).toBe(true);
  });

  it("do not concern routes when they are of a pod's link, its addresses and routes", () => {
    const ofPod = [
      link(POD, "cali1", { more: [ALIAS], isUp: false }),
      addressOn(POD, 0),
      routeThrough(POD, 254),
      link(POD, "cali1", { more: [ALIAS], type: DELLINK }),
    ];
    expect(ofPod.map((one) => changes.has(one))).toEqual([false, false, false, false]);
  });

  it("concern routes when they are of global addresses, the main table, rules, and the peers of a tunnel", () => {
    const seen = [addressOn(UPLINK, 0), addressOn(UPLINK, 253), routeThrough(UPLINK, 254), routeThrough(UPLINK, 255)];
    expect(seen.map((one) => changes.has(one))).toEqual([true, false, true, false]);
    expect([neighbourOn(TUNNEL), neighbourOn(UPLINK)].map((one) => changes.has(one))).toEqual([true, false]);
    expect(changes.has(message(NEWRULE, new Uint8Array(12)))).toBe(true);
  });
});
