import { blockCodec, quoteSequenceNumbers } from "../../../../../lib/datastore/calico/block.ts";
import { LEGACY_GROUP } from "../../../../../lib/datastore/calico/codec.ts";
import { parseJson } from "../../../../../lib/json/parse.ts";
import { stringifyJson } from "../../../../../lib/json/value.ts";
import { BLOCK_SPEC } from "../../../../support/kubernetes/calico-examples.ts";
import { emptyBlock, sampleBlock } from "../../../../support/samples.ts";
import { decodeSpec } from "./codec-support.ts";

/** The block of I§2.11, as its text travels. */
const EXAMPLE = stringifyJson(BLOCK_SPEC);

const EXAMPLE_BLOCK = sampleBlock({
  attributes: [
    { handleId: "vxlan-tunnel-addr-worker-1", activeOwner: { node: "worker-1", type: "vxlanTunnelAddress" } },
    {
      handleId: "k8s-pod-network.7f3c9d0e5b1a",
      activeOwner: { node: "worker-1", namespace: "shop", pod: "cart-6d9f7-x2x8q", timestamp: "2026-08-22 13:33:24.5 +0000 UTC" },
    },
    { releasedAt: "2026-08-22T13:41:07Z" },
  ],
});

function decode(json: string) {
  return decodeSpec(blockCodec, JSON.parse(quoteSequenceNumbers(json)));
}

/** The spec that is sent, digits kept. */
function encode(block: Parameters<typeof blockCodec.encode>[0]): unknown {
  return parseJson(JSON.stringify(blockCodec.encode(block, LEGACY_GROUP)));
}

describe("an IPAMBlock", () => {
  it("is read and written as the contract's example, to the last digit", () => {
    expect(decode(EXAMPLE)).toEqual(EXAMPLE_BLOCK);
    expect(encode(EXAMPLE_BLOCK)).toEqual(parseJson(EXAMPLE));
  });

  it.each([0n, 7n, 2n ** 53n - 1n, 2n ** 53n + 1n, 9223372036854775807n])("keeps the sequence number %p", (number) => {
    const block = emptyBlock("10.40.0.8/29", 8, { sequenceNumber: number, sequenceNumberForAllocation: { 7: number } });
    const sent = JSON.stringify(blockCodec.encode(block, LEGACY_GROUP));
    expect(sent).toContain(`"sequenceNumber":${number},`);
    expect(decode(sent)).toEqual(block);
  });

  it("is the same whatever stands in the texts of its attributes", () => {
    const odd = { note: '"sequenceNumber":1787405600123456789,', "0": 'x\\":1787405600123456789}' };
    const block = sampleBlock({ attributes: [{ handleId: 'a\\"7":1234567890123456789,', activeOwner: odd }, {}, {}] });
    expect(decode(JSON.stringify(blockCodec.encode(block, LEGACY_GROUP)))).toEqual(block);
  });

  it("sends empty lists as lists and leaves empty maps of attributes out", () => {
    const block = emptyBlock("10.40.0.8/31", 2, { unallocated: [], attributes: [] });
    expect(encode(block)).toMatchObject({ unallocated: [], attributes: [], sequenceNumberForAllocation: {} });
    const attribute = { handleId: "net.c1", activeOwner: {}, alternateOwner: {} };
    expect(encode({ ...block, allocations: [0, null], attributes: [attribute] })).toHaveProperty("attributes", [{ handle_id: "net.c1" }]);
  });

  it("says nothing of an owner or a claim time that it does not have", () => {
    expect(encode(emptyBlock("10.40.0.8/29", 8))).not.toHaveProperty("affinity");
    expect(encode(emptyBlock("10.40.0.8/29", 8))).not.toHaveProperty("affinityClaimTime");
  });

  it("is read without the members that may be absent or null", () => {
    const spec = { cidr: "10.40.0.8/31", allocations: [null, null], attributes: null, affinity: null, sequenceNumberForAllocation: null };
    const block = { cidr: "10.40.0.8/31", allocations: [null, null], unallocated: [], attributes: [] };
    expect(decodeSpec(blockCodec, spec)).toEqual({ ...block, sequenceNumber: 0n, sequenceNumberForAllocation: {} });
  });

  it("may have 65536 addresses", () => {
    const block = emptyBlock("10.40.0.0/16", 2 ** 16);
    expect(decode(JSON.stringify(blockCodec.encode(block, LEGACY_GROUP)))).toEqual(block);
  });

  it("has handle ids that end before a carriage return", () => {
    const read = decodeSpec(blockCodec, {
      cidr: "10.40.0.8/31",
      allocations: [0, null],
      unallocated: [1],
      attributes: [{ handle_id: "net1.c1\r\nrest" }],
    });
    expect(read.attributes).toEqual([{ handleId: "net1.c1" }]);
  });

  it.each([
    ["no CIDR", { cidr: "10.40.0.8" }],
    ["a CIDR of more addresses than any block has", { cidr: "10.0.0.0/8" }],
    ["a CIDR of twice the addresses of the largest block", { cidr: "10.0.0.0/15" }],
    ["an owner of unknown type", { affinity: "rack:a" }],
    ["an owner that is no text", { affinity: 7 }],
    ["a free ordinal beyond its end", { unallocated: [2] }],
    ["a negative free ordinal", { unallocated: [-1] }],
    ["a fraction of a free ordinal", { unallocated: [0.5] }],
    ["free ordinals that are no list", { unallocated: "0" }],
    ["a negative sequence number", { sequenceNumber: -1 }],
    ["a sequence number that is no number", { sequenceNumber: "soon" }],
  ])("is refused at once with %s", (_, changes) => {
    const spec = { cidr: "10.40.0.8/31", allocations: [null, null], unallocated: [], attributes: [], ...changes };
    expect(() => decodeSpec(blockCodec, spec)).toThrow();
  });

  it.each([
    ["too few allocations", { allocations: [null] }],
    ["too many allocations", { allocations: Array.from({ length: 100_000 }, () => null) }],
    ["no allocations", { allocations: undefined }],
    ["an allocation without attribute", { allocations: [0, null] }],
    ["an allocation of a negative attribute", { allocations: [-1, null] }],
    ["an allocation that is a text", { allocations: ["0", null] }],
    ["attributes that are no objects", { attributes: ["a"] }],
    ["an owner whose name is a number", { attributes: [{ secondary: { node: 7 } }] }],
    ["a handle id that is a number", { attributes: [{ handle_id: 7 }] }],
    ["sequence numbers that are no map", { sequenceNumberForAllocation: 7 }],
    ["a sequence number for no ordinal", { sequenceNumberForAllocation: { first: 7 } }],
  ])("shows its place in a list, and names itself when its addresses are looked at, with %s", (_, changes) => {
    const spec = { cidr: "10.40.0.8/31", allocations: [null, null], unallocated: [], attributes: [], ...changes };
    const block = decodeSpec(blockCodec, spec, { name: "10-40-0-8-31" });
    expect(block.cidr).toBe("10.40.0.8/31");
    for (const look of [() => block.allocations, () => block.attributes, () => blockCodec.verify?.(block)]) {
      expect(look).toThrow(expect.objectContaining({ failure: "invalid", message: expect.stringContaining("IPAMBlock(10-40-0-8-31)") }));
    }
  });
});
