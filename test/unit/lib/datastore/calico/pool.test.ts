import { poolCodec } from "../../../../../lib/datastore/calico/pool.ts";
import { POOL_SPEC } from "../../../../support/kubernetes/calico-examples.ts";
import { samplePool } from "../../../../support/samples.ts";
import { decodeSpec, encodeSpec } from "./codec-support.ts";

const POOL = samplePool("edge-v4", "10.40.0.0/24", { blockSize: 29, nodeSelector: "zone == 'edge'" });

function decode(spec: object, metadata: object = {}, status: object = {}) {
  return decodeSpec(poolCodec, { ...spec }, { name: "edge-v4", ...metadata }, { ...status });
}

describe("an IPPool", () => {
  it("is read and written as the contract's example", () => {
    expect(decode({ ...POOL_SPEC, vxlanMode: "CrossSubnet" })).toEqual(POOL);
    expect(encodeSpec(poolCodec, POOL)).toEqual(POOL_SPEC);
    expect(encodeSpec(poolCodec, { ...POOL, namespaceSelector: "all()" })).toEqual({ ...POOL_SPEC, namespaceSelector: "all()" });
  });

  it.each([
    ["10.40.0.0/24", 26],
    ["fd80::/64", 122],
  ])("of %p has the defaults for what is absent, empty or null", (cidr, blockSize) => {
    const defaults = { ...samplePool("edge-v4", cidr), blockSize, natOutgoing: false };
    expect(decode({ cidr })).toEqual(defaults);
    expect(decode({ cidr, nodeSelector: "", allowedUses: [], assignmentMode: "", blockSize: 0, disabled: null })).toEqual(defaults);
  });

  it("has its CIDR as canonical text, and one that is none as it is", () => {
    expect(decode({ cidr: "FD80:0::1/64" }).cidr).toBe("fd80::/64");
    expect(decode({ cidr: "10.40.0.9/24" }).cidr).toBe("10.40.0.0/24");
    expect(decode({ cidr: "10.40/16" }).cidr).toBe("10.40/16");
  });

  it("is being deleted when it has a deletionTimestamp", () => {
    expect(decode(POOL_SPEC, { deletionTimestamp: "2026-08-22T13:33:20Z" }).deleting).toBe(true);
  });

  it.each([
    ["True", true],
    ["False", false],
    ["Unknown", undefined],
  ])("with the condition Allocatable %s is allocatable: %p", (status, allocatable) => {
    const conditions = [
      { type: "Ready", status: "False" },
      { type: "Allocatable", status, reason: "OK" },
    ];
    expect(decode(POOL_SPEC, {}, { conditions }).allocatable).toBe(allocatable);
  });

  it("F9: keeps a word for assignmentMode that is not known, and says that it counts as Manual", () => {
    const pool = decode({ ...POOL_SPEC, assignmentMode: "Later" });
    expect(pool.assignmentMode).toBe("Later");
    expect(encodeSpec(poolCodec, pool)).toMatchObject({ assignmentMode: "Later" });
    expect(poolCodec.oddityOf?.(pool)).toBe('assignmentMode "Later" is not known, and counts as Manual');
    expect(["Automatic", "Manual"].map((assignmentMode) => poolCodec.oddityOf?.({ ...pool, assignmentMode }))).toEqual([
      undefined,
      undefined,
    ]);
  });

  it.each([{ blockSize: "26" }, { allowedUses: "Workload" }, { disabled: "false" }])("is refused with %p", (changes) => {
    expect(() => decode({ ...POOL_SPEC, ...changes })).toThrow();
  });
});
