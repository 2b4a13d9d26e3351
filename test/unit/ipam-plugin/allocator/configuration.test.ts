import { DEFAULT_CONFIGURATION } from "../../../../ipam-plugin/allocator/operation.ts";
import { Cluster } from "../../../support/cluster.ts";

describe("the IPAM configuration", () => {
  it("counts as the default while nobody has written one, and is not written by reading it", async () => {
    expect(DEFAULT_CONFIGURATION).toEqual({
      strictAffinity: false,
      autoAllocateBlocks: true,
      maxBlocksPerHost: 0,
      kubeVirtVMAddressPersistence: "Enabled",
      ipCooldownSeconds: 0,
    });
    const cluster = await Cluster.create();
    await cluster.assign("node-a", "c1");
    await cluster.allocator.releaseByHandle("c1");
    expect(cluster.calls).toContain("get ipam-configuration default");
    expect(await cluster.datastore.ipamConfiguration.get("default")).toBeUndefined();
  });
});
