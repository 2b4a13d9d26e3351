import { nameOfAffinity, nameOfBlock, nameOfHandle } from "../../../../../lib/datastore/calico/codec.ts";

describe("the name of an object", () => {
  it("of a CIDR has dashes for dots, colons and the slash", () => {
    expect(nameOfBlock("10.40.0.8/29")).toBe("10-40-0-8-29");
    expect(nameOfBlock("fd80:24e2:f998:72d6::/122")).toBe("fd80-24e2-f998-72d6---122");
  });

  it("of a handle is its id in lower case", () => {
    expect(nameOfHandle("k8s-pod-network.ABCdef01")).toBe("k8s-pod-network.abcdef01");
  });

  it.each(["net.a_1", "net.", "-net.a", "", "net..a", "..", "net/a", `net.${"a".repeat(250)}`])(
    "does not exist for the handle %p",
    (id) => {
      expect(nameOfHandle(id)).toBeUndefined();
    },
  );

  it("of an affinity is the node's with the block's", () => {
    expect(nameOfAffinity({ owner: { type: "host", name: "worker-1" }, cidr: "10.40.0.8/29" })).toBe("worker-1-10-40-0-8-29");
  });

  it("of an affinity is whole up to 252 characters, and from 253 on cut to 252 with a digest", () => {
    const name = (length: number) => nameOfAffinity({ owner: { type: "host", name: "n".repeat(length) }, cidr: "10.40.0.0/26" });
    expect(name(239)).toBe(`${"n".repeat(239)}-10-40-0-0-26`);
    expect(name(240)).toHaveLength(252);
    // Recording long-node-253.
    const recorded = (cidr: string) => nameOfAffinity({ owner: { type: "host", name: "n".repeat(253) }, cidr });
    expect(recorded("10.40.0.192/26")).toBe(`${"n".repeat(225)}-10-40-0-192-26-fc517e8f452`);
    expect(recorded("fd80:40::300/122")).toBe(`${"n".repeat(223)}-fd80-40--300-122-68ad8c8f487`);
  });
});
