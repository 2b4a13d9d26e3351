/** Permits of builds: how many, who is next, and who does not wait any more (A§5.6). */
import { defaultPermits, Permits } from "../../../../agent/endpoints/build/permits.ts";

const NEVER = new AbortController().signal;

describe("Permits", () => {
  it("are one for each processor, two at least and eight at most", () => {
    expect([1, 2, 5, 8, 64].map(defaultPermits)).toEqual([2, 2, 5, 8, 8]);
  });

  it("go to the smallest number, asked when one is free, and among equals to who waits longest", async () => {
    const permits = new Permits(1);
    const order: string[] = [];
    const first = await permits.acquire(() => 5, NEVER);
    let late = 9;
    const waiting = [
      { name: "a", priority: () => 2 },
      { name: "b", priority: () => 2 },
      { name: "late", priority: () => late },
    ].map(async ({ name, priority }) => {
      using _permit = await permits.acquire(priority, NEVER);
      order.push(name);
    });
    expect(permits.waiting).toBe(3);
    late = 1;
    first[Symbol.dispose]();
    await Promise.all(waiting);
    expect([order, permits.waiting]).toEqual([["late", "a", "b"], 0]);
  });

  it("are given back once, however often one is disposed of", async () => {
    const permits = new Permits(1);
    const first = await permits.acquire(() => 0, NEVER);
    first[Symbol.dispose]();
    first[Symbol.dispose]();
    await permits.acquire(() => 0, NEVER);
    void permits.acquire(() => 0, NEVER);
    expect(permits.waiting).toBe(1);
  });

  it("are none for who has gone, whether one is free or not", async () => {
    const permits = new Permits(1);
    await expect(permits.acquire(() => 0, AbortSignal.abort(new Error("gone")))).rejects.toThrow("gone");
    const held = await permits.acquire(() => 0, NEVER);
    const leaving = new AbortController();
    const waiting = permits.acquire(() => 0, leaving.signal);
    leaving.abort(new Error("gone later"));
    await expect(waiting).rejects.toThrow("gone later");
    expect(permits.waiting).toBe(0);
    held[Symbol.dispose]();
    using _again = await permits.acquire(() => 0, NEVER);
  });
});
