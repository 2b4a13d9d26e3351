import { decodeRoutedNode } from "../../../../agent/routes/kubernetes-sources.ts";
import { tunnelMac } from "../../../../agent/routes/model.ts";
import { isAllocatedBy, proveTunnelEnds } from "../../../../agent/routes/proofs.ts";
import { address } from "../../../support/addresses.ts";
import { routedBlock } from "../../../support/routed-cluster.ts";

const C = "projectcalico.org";

function node(name: string, tunnel: string, mac?: string) {
  const annotations = { [`${C}/IPv4VXLANTunnelAddr`]: tunnel, ...(mac === undefined ? {} : { [`${C}/VXLANTunnelMACAddr`]: mac }) };
  return decodeRoutedNode({ metadata: { name, annotations } });
}

/** @param ends "10.9.2.0 good": the store says that the address is allocated as this node's end of the tunnel */
function judge(nodes: Parameters<typeof proveTunnelEnds>[0], ...allocated: readonly string[]) {
  const tunnelEnds = allocated.map((entry) => {
    const [ip = "", name = ""] = entry.split(" ");
    return { address: address(ip), node: name };
  });
  const { ends, refused } = proveTunnelEnds(nodes, isAllocatedBy([{ ...routedBlock("10.9.2.0/26", "good"), tunnelEnds }]));
  return { ends: Object.fromEntries(ends), refused };
}

const GOOD = node("good", "10.9.2.0");

describe("S1: the end of a tunnel that a node names", () => {
  it("counts when a block says that the address is this node's", () => {
    expect(judge([GOOD], "10.9.2.0 good")).toEqual({ ends: { good: { 4: { address: address("10.9.2.0") } } }, refused: [] });
  });

  it.each(["10.9.2.0", "10.9.2.1", "2001:db8::53"])("is none when %s is allocated to another node or to nobody", (tunnel) => {
    const annotation = tunnel.includes(":") ? "IPv6VXLANTunnelAddr" : "IPv4VXLANTunnelAddr";
    const evil = decodeRoutedNode({ metadata: { name: "evil", annotations: { [`${C}/${annotation}`]: tunnel } } });
    const { ends, refused } = judge([GOOD, evil], "10.9.2.0 good");
    expect(ends).toEqual({ good: { 4: { address: address("10.9.2.0") } } });
    expect(refused).toEqual([`node evil names ${tunnel} as its end of the tunnel, and nothing says that it is`]);
  });

  it("is none for an address that is the same node's for something else", () => {
    const { tunnelEnds } = routedBlock("10.9.2.0/26", "good", ["10.9.2.0 good"]);
    expect(proveTunnelEnds([GOOD], isAllocatedBy([{ ...routedBlock("10.9.2.0/26"), tunnelEnds }])).ends.size).toBe(0);
  });
});

describe("S1: the MAC that a node names", () => {
  const other = "02:00:00:00:00:03";

  it("counts when no other node has it, and needs no word when it is the one of the node's name", () => {
    const named = node("good", "10.9.2.0", tunnelMac("good", 4));
    expect(judge([named], "10.9.2.0 good").ends).toEqual({ good: { 4: { address: address("10.9.2.0") } } });
    expect(judge([node("good", "10.9.2.0", other)], "10.9.2.0 good").ends).toEqual({
      good: { 4: { address: address("10.9.2.0"), mac: other } },
    });
  });

  it("is the one of its name where another node has the named one by its name, or names it too: the two never alternate", () => {
    const thief = node("evil", "10.9.2.1", tunnelMac("good", 4));
    const [one, two] = [node("one", "10.9.2.2", other), node("two", "10.9.2.3", other)];
    const { ends, refused } = judge([GOOD, thief, one, two], "10.9.2.0 good", "10.9.2.1 evil", "10.9.2.2 one", "10.9.2.3 two");
    expect(Object.values(ends).map((end) => end[4])).toEqual([0, 1, 2, 3].map((host) => ({ address: address(`10.9.2.${host}`) })));
    expect(refused).toEqual(
      [`evil names the MAC ${tunnelMac("good", 4)}`, `one names the MAC ${other}`, `two names the MAC ${other}`].map(
        (claim) => `node ${claim}, which is another node's or no interface's`,
      ),
    );
  });

  it.each(["ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "00:00:00:00:00:00"])("is not %s, which no interface has", (mac) => {
    expect(judge([node("evil", "10.9.2.1", mac)], "10.9.2.1 evil").ends).toEqual({ evil: { 4: { address: address("10.9.2.1") } } });
  });
});
