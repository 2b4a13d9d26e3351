import { attributeMap, parseAttributes, readText, readU32 } from "../../../../dataplane/netlink/message.ts";
import { formatMac, pairRequest } from "../../../../dataplane/rtnetlink/link.ts";

const PAIR = {
  mtu: 1400,
  queues: 2,
  host: { name: "cali0", mac: "ee:ee:ee:ee:ee:ee" },
  pod: { name: "eth0", mac: "ca:fe:ca:fe:ca:fe", namespaceFd: 9 },
};
/** linux/if_link.h */
const [ADDRESS, IFNAME, MTU, TXQLEN, LINKINFO, NET_NS_FD, TX_QUEUES, RX_QUEUES] = [1, 3, 4, 13, 18, 28, 31, 32];
const [KIND, DATA] = [1, 2];

function decode(payload: Uint8Array) {
  const attributes = attributeMap(payload.subarray(16));
  return {
    flags: Buffer.from(payload.subarray(0, 16)).toString("hex"),
    name: readText(attributes.get(IFNAME)),
    mac: formatMac(attributes.get(ADDRESS) ?? new Uint8Array()),
    numbers: [MTU, TX_QUEUES, RX_QUEUES, TXQLEN, NET_NS_FD].map((type) => readU32(attributes.get(type))),
    info: attributeMap(attributes.get(LINKINFO) ?? new Uint8Array()),
  };
}

describe("the request for a pair of links", () => {
  it("makes a veth in one message, the pod end in its namespace, neither end up", () => {
    const { type, payload } = pairRequest({ ...PAIR, kind: "veth" });
    const host = decode(payload);
    const [peer] = parseAttributes(host.info.get(DATA) ?? new Uint8Array());

    expect(type).toBe(16);
    expect(host).toMatchObject({ flags: "0".repeat(32), name: "cali0", mac: "ee:ee:ee:ee:ee:ee", numbers: [1400, 2, 2, 0, undefined] });
    expect(readText(host.info.get(KIND))).toBe("veth");
    expect(peer?.type).toBe(1);
    expect(decode(peer?.payload ?? new Uint8Array())).toMatchObject({
      flags: "0".repeat(32),
      name: "eth0",
      mac: "ca:fe:ca:fe:ca:fe",
      numbers: [1400, 2, 2, undefined, 9],
    });
  });

  it("leaves MTU and MAC to the kernel when nobody asked for them", () => {
    const { payload } = pairRequest({ ...PAIR, mtu: 0, pod: { name: "eth0", namespaceFd: 9 }, kind: "veth" });
    const host = decode(payload);
    const [peer] = parseAttributes(host.info.get(DATA) ?? new Uint8Array());
    expect(host.numbers[0]).toBeUndefined();
    expect(decode(peer?.payload ?? new Uint8Array())).toMatchObject({ mac: "", numbers: [undefined, 2, 2, undefined, 9] });
  });

  it("makes the host end of a netkit the primary one: layer 2, both policies forward, MTU for both ends", () => {
    const host = decode(pairRequest({ ...PAIR, kind: "netkit" }).payload);
    const data = parseAttributes(host.info.get(DATA) ?? new Uint8Array());

    expect(readText(host.info.get(KIND))).toBe("netkit");
    // IFLA_NETKIT_MODE, _POLICY, _PEER_POLICY: 0 is L2 and forward; _PRIMARY is the kernel's to tell.
    expect(data.map(({ type }) => type)).toEqual([4, 3, 5, 1]);
    expect(data.slice(0, 3).map(({ payload }) => readU32(payload))).toEqual([0, 0, 0]);
    expect(decode(data[3]?.payload ?? new Uint8Array())).toMatchObject({ name: "eth0", numbers: [1400, 2, 2, undefined, 9] });
    expect(host.numbers[0]).toBe(1400);
  });
});
