import { existsSync } from "node:fs";
import { join } from "node:path";
import { type NodeLockOptions, takeNodeLock, withNodeLock } from "../../../ipam-plugin/node-lock.ts";
import { tryLockFile } from "../../../lib/system/flock.ts";
import { fresh } from "../../support/fixtures.ts";
import { freeLock } from "../../support/free-lock.ts";
import { IpamNode } from "../../support/ipam-node.ts";
import { holdLock } from "../../support/lock-holder-process.ts";

const CONF = { ipam: { pools: [{ cidr: "10.40.0.0/24" }] } };
const node = fresh(() => new IpamNode(CONF));

describe("the lock of a node", () => {
  it("is taken before the time limit begins, and held until the work is done", async () => {
    const order: string[] = [];
    const call = {
      config: { ipamLockFile: "/l", ipamLockTimeoutSeconds: 7 },
      log: { info: () => {}, error: () => {}, writeNow: () => {} },
      signal: new AbortController().signal,
    };
    const node = {
      lock: async (path: string, { limitMs }: NodeLockOptions) => {
        order.push(`lock ${path} ${limitMs}`);
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
    await expect(withNodeLock(call, node, work)).rejects.toThrow("work failed");
    expect(order).toEqual(["lock /l 7000", "deadline 90000", "work", "unlock"]);
  });

  it("is Calico's: the same file and flock(2), free again afterwards", async () => {
    const path = join(node.directory, "ipam.lock");
    await node.add();
    expect(existsSync(path)).toBe(true);
    using lock = tryLockFile(path);
    expect(lock).toBeDefined();
  });

  it("stops nobody when it cannot be had", async () => {
    const conf = { ipam_lock_file: "/proc/version/ipam.lock" };
    expect(await node.addresses({ conf })).toHaveLength(1);
    await node.del({ conf });
    expect(await node.handles()).toEqual([]);
    expect(node.logged).toEqual([expect.stringContaining("without the lock"), expect.stringContaining("without the lock")]);
  });

  it("is not needed by an ADD that asks for no address", async () => {
    let taken = 0;
    const lock = () => {
      taken += 1;
      return freeLock();
    };
    await using node = new IpamNode(CONF, { lock });
    expect(await node.addresses({ ipam: { assign_ipv4: "false" } })).toEqual([]);
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

describe("M4: a call that finds the lock of the node taken", () => {
  it("names at once the process that holds it, and goes on when that one ends", async () => {
    const path = join(node.directory, "ipam.lock");
    const holder = await holdLock(path, 60);
    const written: string[] = [];
    const log = { writeNow: (_level: unknown, message: string) => void written.push(message) };
    const taking = takeNodeLock(path, { limitMs: 60_000, log });
    expect(written).toEqual([`waiting for ${path}, held by pid ${holder.pid} (sleep)`]);
    holder.kill("SIGKILL");
    using lock = await taking;
    expect(lock.hadToWait).toBe(true);
  });

  it("leaves the process free to do other things meanwhile", async () => {
    const holder = await holdLock(join(node.directory, "ipam.lock"), 60);
    const adding = node.add();
    let beats = 0;
    while (beats < 5) {
      await Bun.sleep(1);
      beats += 1;
    }
    expect(await node.handles()).toEqual([]);
    holder.kill("SIGKILL");
    await adding;
    expect(await node.handles()).toEqual(["net1.c1"]);
  });

  it("fails with a word of its own when the wait takes too long, and has changed nothing", async () => {
    await using node = new IpamNode({ ...CONF, ipam_lock_timeout_seconds: 1 });
    const holder = await holdLock(join(node.directory, "ipam.lock"), 60);
    const message = expect.stringContaining(`held by pid ${holder.pid} (sleep)`);
    await expect(node.add()).rejects.toMatchObject({ word: "node-lock-timeout", code: 11, message });
    await expect(node.del()).rejects.toMatchObject({ word: "node-lock-timeout" });
    expect(await node.handles()).toEqual([]);
    holder.kill("SIGKILL");
    await node.add();
  });
});

describe("calls of one process", () => {
  const quiet = { writeNow: () => {} };
  const options = { limitMs: 60_000, log: quiet };
  const path = () => join(node.directory, "lock");
  const take = (more: Partial<NodeLockOptions> = {}) => takeNodeLock(path(), { ...options, ...more });

  it("get the lock in the order in which they came", async () => {
    const order: number[] = [];
    const first = await take();
    const others = Array.from({ length: 20 }, async (_, number) => {
      using lock = await take();
      expect(lock.hadToWait).toBe(true);
      order.push(number);
      await Bun.sleep(number % 3);
    });
    first[Symbol.dispose]();
    await Promise.all(others);
    expect(order).toEqual([...order.keys()]);
    using again = await take();
    expect(again.hadToWait).toBe(false);
  });

  it("exclude each other, and other processes", async () => {
    let inside = 0;
    await Promise.all(
      Array.from({ length: 10 }, async () => {
        using _lock = await take();
        inside += 1;
        expect(inside).toBe(1);
        expect(tryLockFile(path())).toBeUndefined();
        await Bun.sleep(1);
        inside -= 1;
      }),
    );
  });

  it("are not overtaken by one that comes when the lock has just become free", async () => {
    const order: string[] = [];
    const first = await take();
    const note = async (name: string) => {
      using _lock = await take();
      order.push(name);
    };
    const second = note("second");
    first[Symbol.dispose]();
    await Promise.all([note("third"), second]);
    expect(order).toEqual(["second", "third"]);
  });

  it("do not wait for one that has given up", async () => {
    const first = await take();
    const second = take({ limitMs: 20 });
    const third = take();
    await expect(second).rejects.toMatchObject({ word: "node-lock-timeout" });
    expect(tryLockFile(path())).toBeUndefined();
    first[Symbol.dispose]();
    using held = await third;
    expect(held.hadToWait).toBe(true);
  });

  it("end their wait when they are aborted, and let the others through", async () => {
    const first = await take();
    const aborted = new AbortController();
    const second = take({ signal: aborted.signal });
    const third = take();
    aborted.abort(new Error("no answer is wanted"));
    await expect(second).rejects.toThrow("no answer is wanted");
    first[Symbol.dispose]();
    using held = await third;
    expect(held.hadToWait).toBe(true);
  });

  it("take nothing when they are aborted: they do not go on without the lock", async () => {
    const aborted = AbortSignal.abort(new Error("no answer is wanted"));
    await using node = new IpamNode(CONF, {}, { signal: aborted });
    const holder = await holdLock(join(node.directory, "ipam.lock"), 60);
    await expect(node.add()).rejects.toThrow("no answer is wanted");
    expect(await node.handles()).toEqual([]);
    holder.kill("SIGKILL");
  });

  it("M4: end their wait for another process when they are aborted", async () => {
    const holder = await holdLock(path(), 60);
    const aborted = new AbortController();
    const waiting = take({ limitMs: 5_000, signal: aborted.signal });
    // It is its turn among the calls of this process: only the other one keeps it from the lock.
    await Bun.sleep(1);
    aborted.abort(new Error("no answer is wanted"));
    await expect(waiting).rejects.toThrow("no answer is wanted");
    holder.kill("SIGKILL");
  });

  it("do not wait for one that found the file impossible", async () => {
    const path = "/proc/version/ipam.lock";
    await expect(takeNodeLock(path, options)).rejects.toThrow(path);
    await expect(takeNodeLock(path, options)).rejects.toThrow(path);
  });

  it("of other locks do not wait", async () => {
    using _one = await takeNodeLock(join(node.directory, "one"), options);
    using other = await takeNodeLock(join(node.directory, "other"), options);
    expect(other.hadToWait).toBe(false);
  });
});
