import { existsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { upgradeLabelsOnce } from "../../../ipam-plugin/label-upgrade.ts";
import type { IpamServices } from "../../../ipam-plugin/services.ts";
import { DatastoreError } from "../../../lib/datastore/errors.ts";
import { IpamNode } from "../../support/ipam-node.ts";

/** Services whose upgrade fails with each of `failures` in turn, then succeeds. */
function failing(node: IpamNode, upgradeMarker: string, failures: DatastoreError[], slept: number[] = []): IpamServices {
  const upgradeHost = async (): Promise<number> => {
    const failure = failures.shift();
    if (failure !== undefined) throw failure;
    return 1;
  };
  return {
    ...node.services,
    allocator: { ...node.services.allocator, upgradeHost },
    sleep: async (ms) => void slept.push(ms),
    upgradeMarker,
  };
}

describe("the upgrade of labels", () => {
  it("happens once, and leaves the marker that Calico looks for", async () => {
    await using node = new IpamNode();
    const marker = join(node.directory, "cni", "ipam_upgraded");
    let upgrades = 0;
    const allocator = { ...node.services.allocator, upgradeHost: async () => ++upgrades };
    for (let time = 0; time < 3; time++)
      await upgradeLabelsOnce({ ...node.services, allocator, upgradeMarker: marker }, new AbortController().signal);
    expect(upgrades).toBe(1);
    expect((statSync(marker).mode & 0o777).toString(8)).toBe("644");
    expect((statSync(join(node.directory, "cni")).mode & 0o777).toString(8)).toBe("755");
  });

  it("is repeated with growing pauses while the datastore is away", async () => {
    await using node = new IpamNode();
    const marker = join(node.directory, "m");
    const slept: number[] = [];
    const away = Array.from({ length: 3 }, () => new DatastoreError("unavailable", "away"));
    await upgradeLabelsOnce(failing(node, marker, away, slept), new AbortController().signal);
    expect(slept).toEqual([100, 200, 400]);
    expect(existsSync(marker)).toBe(true);
  });

  it("fails at once where waiting cannot help, in Calico's words, and leaves no marker", async () => {
    await using node = new IpamNode();
    const marker = join(node.directory, "m");
    const services = failing(node, marker, [new DatastoreError("unauthorized", "connection is unauthorized")]);
    await expect(upgradeLabelsOnce(services, new AbortController().signal)).rejects.toThrow(
      "failed to upgrade IPAM database: connection is unauthorized",
    );
    expect(existsSync(marker)).toBe(false);
  });

  it("does not fail for a marker that cannot be written", async () => {
    await using node = new IpamNode();
    writeFileSync(join(node.directory, "file"), "");
    await upgradeLabelsOnce(failing(node, join(node.directory, "file", "m"), []), new AbortController().signal);
    expect(node.logged).toEqual([expect.stringContaining("cannot write")]);
  });
});
