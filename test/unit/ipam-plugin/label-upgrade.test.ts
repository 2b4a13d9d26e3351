import { existsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Allocator } from "../../../ipam-plugin/allocator/allocator.ts";
import { upgradeLabelsOnce } from "../../../ipam-plugin/assign.ts";
import type { IpamHost as IpamPart } from "../../../ipam-plugin/host.ts";
import { DatastoreError } from "../../../lib/datastore/errors.ts";
import { IpamNode } from "../../support/ipam-node.ts";

/** A node whose upgrade fails with each of `failures` in turn, then succeeds. */
function failing(node: IpamNode, upgradeMarker: string, failures: DatastoreError[], slept: number[] = []): IpamPart {
  const upgradeHost = async (): Promise<number> => {
    const failure = failures.shift();
    if (failure !== undefined) throw failure;
    return 1;
  };
  return {
    ...node.ipam,
    allocator: Object.assign(new Allocator({ datastore: node.ipam.datastore, clock: node.ipam.clock }), { upgradeHost }),
    sleep: async (ms) => void slept.push(ms),
    upgradeMarker,
  };
}

describe("the upgrade of labels", () => {
  it("I18: happens once, and leaves the marker that Calico looks for", async () => {
    await using node = new IpamNode();
    const marker = join(node.directory, "cni", "ipam_upgraded");
    let upgrades = 0;
    const allocator = Object.assign(new Allocator({ datastore: node.ipam.datastore, clock: node.ipam.clock }), {
      upgradeHost: async () => ++upgrades,
    });
    for (let time = 0; time < 3; time++)
      await upgradeLabelsOnce(node.call("ADD"), { ...node.ipam, allocator, upgradeMarker: marker }, new AbortController().signal);
    expect(upgrades).toBe(1);
    expect((statSync(marker).mode & 0o777).toString(8)).toBe("644");
    expect((statSync(join(node.directory, "cni")).mode & 0o777).toString(8)).toBe("755");
  });

  it("is repeated while others write the same objects, with growing pauses of at most two seconds (R1)", async () => {
    await using node = new IpamNode();
    const marker = join(node.directory, "m");
    const slept: number[] = [];
    const overtaken = Array.from({ length: 7 }, () => new DatastoreError("conflict", "overtaken"));
    await upgradeLabelsOnce(node.call("ADD"), failing(node, marker, overtaken, slept), new AbortController().signal);
    expect(slept).toEqual([100, 200, 400, 800, 1600, 2000, 2000]);
    expect(existsSync(marker)).toBe(true);
  });

  it("R1: fails at once while the datastore is away, whose client has waited already", async () => {
    await using node = new IpamNode();
    const slept: number[] = [];
    const part = failing(node, join(node.directory, "m"), [new DatastoreError("unavailable", "away")], slept);
    await expect(upgradeLabelsOnce(node.call("ADD"), part, new AbortController().signal)).rejects.toThrow(
      "failed to upgrade IPAM database: away",
    );
    expect(slept).toEqual([]);
  });

  it("R1: ends in the midst of a pause when the time is over", async () => {
    await using node = new IpamNode();
    const tried: number[] = [];
    const upgradeHost = async (): Promise<number> => {
      tried.push(performance.now());
      throw new DatastoreError("conflict", "overtaken");
    };
    const allocator = Object.assign(new Allocator({ datastore: node.ipam.datastore, clock: node.ipam.clock }), { upgradeHost });
    const over = new AbortController();
    const part = {
      ...node.ipam,
      allocator,
      upgradeMarker: join(node.directory, "m"),
      sleep: (milliseconds: number, signal: AbortSignal) => {
        const pausing = node.ipam.sleep(milliseconds * 1000, signal);
        over.abort();
        return pausing;
      },
    };
    await expect(upgradeLabelsOnce(node.call("ADD"), part, over.signal)).rejects.toThrow("failed to upgrade IPAM database: overtaken");
    expect(tried).toHaveLength(2);
  });

  it("fails at once where waiting cannot help, in Calico's words, and leaves no marker", async () => {
    await using node = new IpamNode();
    const marker = join(node.directory, "m");
    const part = failing(node, marker, [new DatastoreError("unauthorized", "connection is unauthorized")]);
    await expect(upgradeLabelsOnce(node.call("ADD"), part, new AbortController().signal)).rejects.toThrow(
      "failed to upgrade IPAM database: connection is unauthorized",
    );
    expect(existsSync(marker)).toBe(false);
  });

  it("does not fail for a marker that cannot be written", async () => {
    await using node = new IpamNode();
    writeFileSync(join(node.directory, "file"), "");
    await upgradeLabelsOnce(node.call("ADD"), failing(node, join(node.directory, "file", "m"), []), new AbortController().signal);
    expect(node.logged).toEqual([expect.stringContaining("cannot write")]);
  });
});
