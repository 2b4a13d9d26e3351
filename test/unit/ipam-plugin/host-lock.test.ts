import { existsSync } from "node:fs";
import { join } from "node:path";
import { withHostLock } from "../../../ipam-plugin/host-lock.ts";
import { lockFile } from "../../../lib/system/flock.ts";
import { freeLock } from "../../support/free-lock.ts";
import { IpamNode } from "../../support/ipam-node.ts";

const CONF = { ipam: { pools: [{ cidr: "10.40.0.0/24" }] } };

describe("the lock of a node", () => {
  it("is taken before the time limit begins, and held until the work is done", async () => {
    const order: string[] = [];
    const services = {
      log: { info: () => {}, error: () => {} },
      lock: (path: string) => {
        order.push(`lock ${path}`);
        return { hadToWait: false, [Symbol.dispose]: () => order.push("unlock") };
      },
      deadline: (milliseconds: number) => {
        order.push(`deadline ${milliseconds}`);
        return new AbortController().signal;
      },
    };
    const work = async () => {
      await Promise.resolve();
      order.push("work");
      throw new Error("work failed");
    };
    await expect(withHostLock({ ipamLockFile: "/l" }, services, work)).rejects.toThrow("work failed");
    expect(order).toEqual(["lock /l", "deadline 90000", "work", "unlock"]);
  });

  it("is Calico's: the same file and flock(2), free again afterwards", async () => {
    await using node = new IpamNode(CONF);
    const path = join(node.directory, "ipam.lock");
    await node.add();
    expect(existsSync(path)).toBe(true);
    using lock = lockFile(path);
    expect(lock.hadToWait).toBe(false);
  });

  it("stops nobody when it cannot be had", async () => {
    await using node = new IpamNode(CONF);
    const conf = { ipam_lock_file: "/proc/version/ipam.lock" };
    expect(await node.addresses({ conf })).toHaveLength(1);
    await node.del({ conf });
    expect(await node.handles()).toEqual([]);
    expect(node.logged).toEqual([expect.stringContaining("without the lock"), expect.stringContaining("without the lock")]);
  });

  it("is not needed to find out that a pool does not exist", async () => {
    let taken = 0;
    const lock = () => {
      taken += 1;
      return freeLock();
    };
    await using node = new IpamNode(CONF, { lock });
    await expect(node.add({ ipam: { ipv4_pools: ["nope"] } })).rejects.toThrow("nope");
    expect(taken).toBe(0);
    await node.add();
    expect(taken).toBe(1);
  });

  it("gives an operation 90 seconds from then on", async () => {
    const aborted = new AbortController();
    aborted.abort(new Error("time is over"));
    await using node = new IpamNode(CONF, { deadline: () => aborted.signal });
    await expect(node.add()).rejects.toThrow();
    expect(await node.handles()).toEqual([]);
  });
});
