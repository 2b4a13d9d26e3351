import { existsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { upgradeLabelsOnce } from "../../../ipam-plugin/assign.ts";
import type { IpamHost as IpamPart } from "../../../ipam-plugin/host.ts";
import { DatastoreError } from "../../../lib/datastore/errors.ts";
import { fresh } from "../../support/fixtures.ts";
import { IpamNode } from "../../support/ipam-node.ts";

const node = fresh(() => new IpamNode());
const marker = () => join(node.directory, "m");

/** Upgrades as an ADD does, with this in place of the upgrade itself, which would end at once. */
function upgradeBy(upgradeHost: () => Promise<number>, parts: Partial<IpamPart> = {}, signal = new AbortController().signal) {
  node.ipam.allocator.upgradeHost = upgradeHost;
  return upgradeLabelsOnce(node.call("ADD"), { ...node.ipam, upgradeMarker: marker(), ...parts }, signal);
}

/** Fails with each of these in turn, then succeeds; its pauses are noted and take no time. */
function upgradeAfter(failures: DatastoreError[], slept: number[] = [], upgradeMarker = marker()) {
  const upgradeHost = async (): Promise<number> => {
    const failure = failures.shift();
    if (failure !== undefined) throw failure;
    return 1;
  };
  return upgradeBy(upgradeHost, { sleep: async (ms) => void slept.push(ms), upgradeMarker });
}

describe("the upgrade of labels", () => {
  it("I18: happens once, and leaves the marker that Calico looks for", async () => {
    const upgradeMarker = join(node.directory, "cni", "ipam_upgraded");
    let upgrades = 0;
    for (let time = 0; time < 3; time++) await upgradeBy(async () => ++upgrades, { upgradeMarker });
    expect(upgrades).toBe(1);
    expect((statSync(upgradeMarker).mode & 0o777).toString(8)).toBe("644");
    expect((statSync(join(node.directory, "cni")).mode & 0o777).toString(8)).toBe("755");
  });

  it("is repeated while others write the same objects, with growing pauses of at most two seconds (R1)", async () => {
    const slept: number[] = [];
    const overtaken = Array.from({ length: 7 }, () => new DatastoreError("conflict", "overtaken"));
    await upgradeAfter(overtaken, slept);
    expect(slept).toEqual([100, 200, 400, 800, 1600, 2000, 2000]);
    expect(existsSync(marker())).toBe(true);
  });

  it("R1: fails at once while the datastore is away, whose client has waited already", async () => {
    const slept: number[] = [];
    const upgrading = upgradeAfter([new DatastoreError("unavailable", "away")], slept);
    await expect(upgrading).rejects.toThrow("failed to upgrade IPAM database: away");
    expect(slept).toEqual([]);
  });

  it("R1: ends in the midst of a pause when the time is over", async () => {
    const tried: number[] = [];
    const upgradeHost = async (): Promise<number> => {
      tried.push(performance.now());
      throw new DatastoreError("conflict", "overtaken");
    };
    const over = new AbortController();
    const sleep = (milliseconds: number, signal: AbortSignal) => {
      const pausing = node.ipam.sleep(milliseconds * 1000, signal);
      over.abort();
      return pausing;
    };
    await expect(upgradeBy(upgradeHost, { sleep }, over.signal)).rejects.toThrow("failed to upgrade IPAM database: overtaken");
    expect(tried).toHaveLength(2);
  });

  it("fails at once where waiting cannot help, in Calico's words, and leaves no marker", async () => {
    const upgrading = upgradeAfter([new DatastoreError("unauthorized", "connection is unauthorized")]);
    await expect(upgrading).rejects.toThrow("failed to upgrade IPAM database: connection is unauthorized");
    expect(existsSync(marker())).toBe(false);
  });

  it("does not fail for a marker that cannot be written", async () => {
    writeFileSync(join(node.directory, "file"), "");
    await upgradeAfter([], [], join(node.directory, "file", "m"));
    expect(node.logged).toEqual([expect.stringContaining("cannot write")]);
  });
});
