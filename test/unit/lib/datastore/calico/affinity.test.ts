import { affinityCodec, affinitySelector } from "../../../../../lib/datastore/calico/affinity.ts";
import { LEGACY_GROUP, V3_GROUP } from "../../../../../lib/datastore/calico/codec.ts";
import { AFFINITY_LABELS } from "../../../../support/kubernetes/calico-examples.ts";
import { sampleAffinity } from "../../../../support/samples.ts";
import { decodeSpec, encodeSpec } from "./codec-support.ts";

const ROW = sampleAffinity("worker-1", "10.40.0.8/29");
const SPEC = { state: "confirmed", node: "worker-1", type: "host", cidr: "10.40.0.8/29" };

describe("a BlockAffinity", () => {
  it("is read and written as the contract's example, in both groups", () => {
    expect(encodeSpec(affinityCodec, ROW, LEGACY_GROUP)).toEqual({ ...SPEC, deleted: "false" });
    expect(encodeSpec(affinityCodec, ROW, V3_GROUP)).toEqual({ ...SPEC, deleted: false });
    expect(affinityCodec.labels?.(ROW)).toEqual(AFFINITY_LABELS);
    expect(decodeSpec(affinityCodec, { ...SPEC, deleted: "false" }, { labels: AFFINITY_LABELS })).toEqual(ROW);
  });

  it("is labelled with the digest of the node's name that Calico computes", () => {
    expect(affinitySelector({ type: "host", name: "node-a" }, 6)).toBe(
      "projectcalico.org/affinity-type=host,projectcalico.org/hostname-hash=PY3TQE2E3XMTETLM2MJO3UITKPFB27YUJ4T4E5XGPEJON3SM4QAA,projectcalico.org/ip-version=6",
    );
  });

  it("has all bits of the digest in its label, the last one too", () => {
    expect(affinitySelector({ type: "host", name: "worker-3" }, 4)).toContain("ZYP5AGJAGU3QDRNEEUTTHXPQMJ4FHYHKA3OENTZ2ZY4QC4GWN22Q");
  });

  it.each(Object.keys(AFFINITY_LABELS))("says so when its label %s is missing or wrong", (label) => {
    for (const labels of [
      { ...AFFINITY_LABELS, [label]: undefined },
      { ...AFFINITY_LABELS, [label]: "other" },
    ]) {
      const present = Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== undefined));
      expect(decodeSpec(affinityCodec, SPEC, { labels: present }).labelled).toBe(false);
    }
  });

  it("is confirmed when it has no state, and a host's when it has no type", () => {
    const { state, owner } = decodeSpec(affinityCodec, { node: "worker-1", cidr: "10.40.0.8/29", state: "" });
    expect([state, owner.type]).toEqual(["confirmed", "host"]);
    expect(decodeSpec(affinityCodec, { ...SPEC, type: "virtual" }).owner.type).toBe("virtual");
  });

  it.each([{ state: "lost" }, { type: "rack" }, { node: "" }, { cidr: undefined }, { cidr: 7 }])("is refused with %p", (changes) => {
    expect(() => decodeSpec(affinityCodec, { ...SPEC, ...changes })).toThrow();
  });
});
