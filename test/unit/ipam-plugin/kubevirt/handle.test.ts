import { machineHandleId } from "../../../../ipam-plugin/kubevirt/machine.ts";
import { isMachineHandle } from "../../../../lib/workload/identity.ts";

/** RFC 1123 subdomain: the name of a Kubernetes object. */
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

describe("the handle of a virtual machine", () => {
  it("names network, namespace and machine", () => {
    expect(machineHandleId("net1", "shop", "vm1")).toBe("net1.vmi.shop.vm1");
    expect(machineHandleId("k8s-pod-network", "shop", "vm.with.dots")).toBe("k8s-pod-network.vmi.shop.vm.with.dots");
  });

  it("stays readable up to 128 characters", () => {
    const machine = "v".repeat(128 - "net1.vmi.shop.".length);
    expect(machineHandleId("net1", "shop", machine)).toBe(`net1.vmi.shop.${machine}`);
    expect(machineHandleId("net1", "shop", `${machine}v`)).toMatch(/^net1\.vmi\.[0-9a-f]{64}$/);
  });

  it("keeps what is too long legal, within 128 characters, and one for each machine", () => {
    const long = "v".repeat(63);
    for (const network of ["n", "n".repeat(59), "n".repeat(60), "n".repeat(91), "n".repeat(92), "n".repeat(150)]) {
      const handles = ["a", "b"].map((last) => machineHandleId(network, "namespace".repeat(7), `${long}-${last}`));
      const [first, second] = handles;
      expect(first).not.toBe(second);
      for (const handle of handles) {
        expect(handle).toMatch(SUBDOMAIN);
        expect(handle.length).toBeLessThanOrEqual(128);
        expect(isMachineHandle(handle)).toBe(true);
        const [, hash = ""] = handle.split(".vmi.");
        expect(hash).toMatch(/^[0-9a-f]{32,64}$/);
      }
    }
  });

  it("is the same for every pod of a machine, and another on another network", () => {
    const long = "v".repeat(200);
    expect(machineHandleId("net1", "shop", long)).toBe(machineHandleId("net1", "shop", long));
    const networks = ["a", "b"].map((last) => machineHandleId(`${"n".repeat(150)}${last}`, "shop", long));
    expect(networks[0]).not.toBe(networks[1]);
  });
});
