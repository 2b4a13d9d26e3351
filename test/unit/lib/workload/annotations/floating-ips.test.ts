import type { Address } from "../../../../../lib/addresses/address.ts";
import { parseAddress } from "../../../../../lib/addresses/address.ts";
import { floatingNats } from "../../../../../lib/workload/annotations/pod-addresses.ts";

function addresses(...texts: readonly string[]): readonly Address[] {
  return texts.flatMap((text) => parseAddress(text) ?? []);
}

describe("floatingNats", () => {
  it("leads each floating IP to the address of its family, in the order of the annotation (K23, K29)", () => {
    expect(floatingNats(addresses("1.1.1.1", "2001:647f::21"), ["10.0.0.5/32", "fd00::5/128"])).toEqual([
      { internalIP: "10.0.0.5", externalIP: "1.1.1.1" },
      { internalIP: "fd00::5", externalIP: "2001:647f::21" },
    ]);
    expect(floatingNats(addresses("2001:647f::21", "1.1.1.1", "1.1.1.2"), ["10.0.0.5/32", "fd00::5/128"])).toEqual([
      { internalIP: "fd00::5", externalIP: "2001:647f::21" },
      { internalIP: "10.0.0.5", externalIP: "1.1.1.1" },
      { internalIP: "10.0.0.5", externalIP: "1.1.1.2" },
    ]);
  });

  it("refuses one whose family the pod lacks, where Calico panics (recording floating-family-absent)", () => {
    expect(() => floatingNats(addresses("2001:647f::21"), ["10.0.0.5/32"])).toThrow(
      expect.objectContaining({
        word: "annotation-invalid",
        message:
          "floating IP 2001:647f::21 needs an IPv6 address, which this pod does not get (annotation cni.projectcalico.org/floatingIPs)",
      }),
    );
  });
});
