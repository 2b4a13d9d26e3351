import { handleCodec } from "../../../../../lib/datastore/calico/block.ts";
import { LEGACY_GROUP, V3_GROUP } from "../../../../../lib/datastore/calico/codec.ts";
import { clusterInformationCodec, configurationCodec, reservationCodec } from "../../../../../lib/datastore/calico/pool.ts";
import { CONFIGURATION } from "../../../../support/kubernetes/calico-examples.ts";
import { decodeSpec, encodeSpec } from "./codec-support.ts";

describe("an IPAMHandle", () => {
  const spec = { handleID: "k8s-pod-network.7f3c9d0e5b1a", block: { "10.40.0.8/29": 1 }, deleted: false };
  const handle = { id: "k8s-pod-network.7f3c9d0e5b1a", blocks: { "10.40.0.8/29": 1 } };

  it("is read and written as the contract's example", () => {
    expect(decodeSpec(handleCodec, spec)).toEqual(handle);
    expect(encodeSpec(handleCodec, handle)).toEqual(spec);
  });

  it("has the id that ends before a carriage return, or its name when it has none", () => {
    expect(decodeSpec(handleCodec, { ...spec, handleID: "Net.C1\r\n" }).id).toBe("Net.C1");
    expect(decodeSpec(handleCodec, {}, { name: "net.c1" })).toEqual({ id: "net.c1", blocks: {} });
  });

  it.each([-1, 0.5, "1", 2 ** 60])("is refused when it counts %p addresses of a block", (count) => {
    expect(() => decodeSpec(handleCodec, { ...spec, block: { "10.40.0.8/29": count } })).toThrow();
  });
});

describe("the IPAM configuration", () => {
  it("is read and written as the contract's example", () => {
    expect(decodeSpec(configurationCodec, CONFIGURATION)).toEqual(CONFIGURATION);
    expect(encodeSpec(configurationCodec, CONFIGURATION)).toEqual(CONFIGURATION);
  });

  it("has another kind in each group", () => {
    expect([configurationCodec.kind(LEGACY_GROUP), configurationCodec.plural(LEGACY_GROUP)]).toEqual(["IPAMConfig", "ipamconfigs"]);
    expect([configurationCodec.kind(V3_GROUP), configurationCodec.plural(V3_GROUP)]).toEqual(["IPAMConfiguration", "ipamconfigurations"]);
  });

  it("never claims when nothing is in it, as Calico reads it", () => {
    expect(decodeSpec(configurationCodec, {})).toEqual({
      strictAffinity: false,
      autoAllocateBlocks: false,
      maxBlocksPerHost: 0,
      kubeVirtVMAddressPersistence: "Enabled",
      ipCooldownSeconds: 0,
    });
  });

  it("F9: keeps a word for kubeVirtVMAddressPersistence that is not known, and says that it counts as Enabled", () => {
    const odd = { ...CONFIGURATION, kubeVirtVMAddressPersistence: "Sometimes" };
    expect(decodeSpec(configurationCodec, odd)).toEqual(odd);
    expect(encodeSpec(configurationCodec, odd)).toEqual(odd);
    expect(configurationCodec.oddityOf?.(odd)).toBe('kubeVirtVMAddressPersistence "Sometimes" is not known, and counts as Enabled');
    const known = ["Enabled", "Disabled"].map((word) => configurationCodec.oddityOf?.({ ...odd, kubeVirtVMAddressPersistence: word }));
    expect(known).toEqual([undefined, undefined]);
  });

  it.each([{ strictAffinity: "true" }, { maxBlocksPerHost: "2" }])("is refused with %p", (changes) => {
    expect(() => decodeSpec(configurationCodec, { ...CONFIGURATION, ...changes })).toThrow();
  });
});

describe("an IPReservation", () => {
  it("is its list, empty when there is none", () => {
    const reservedCIDRs = ["10.40.0.1/32", "10.40.0.240/28"];
    expect(decodeSpec(reservationCodec, { reservedCIDRs }, { name: "keep" })).toEqual({ name: "keep", reservedCIDRs });
    expect(decodeSpec(reservationCodec, {}, { name: "keep" })).toEqual({ name: "keep", reservedCIDRs: [] });
    expect(encodeSpec(reservationCodec, { name: "keep", reservedCIDRs })).toEqual({ reservedCIDRs });
  });
});

describe("ClusterInformation", () => {
  it.each([
    [{ datastoreReady: true }, true],
    [{ datastoreReady: false }, false],
    [{ datastoreReady: null }, undefined],
    [{}, undefined],
  ])("of %p is ready: %p", (spec, datastoreReady) => {
    expect(decodeSpec(clusterInformationCodec, spec)).toEqual({ datastoreReady });
  });

  it("is refused when readiness is a text", () => {
    expect(() => decodeSpec(clusterInformationCodec, { datastoreReady: "true" })).toThrow();
  });
});
