/** What a GC and the calls that come meanwhile know of each other (A§11.5). */
import { Collections } from "../../../../agent/attachments/gc.ts";
import { lineKey } from "../../../../lib/cni/attachment-id.ts";
import { NEVER } from "../../../../lib/system/waiting.ts";
import { FakeClock, settled } from "../../../support/fake-clock.ts";

const WEB = { network: "net1", containerId: "web", ifname: "eth0" };
const OWNER = { containerId: "web", ifname: "eth0" };

function collections(...busy: readonly (typeof WEB)[]) {
  const clock = new FakeClock();
  return { clock, all: new Collections(() => busy.map(lineKey), clock) };
}

describe("A GC", () => {
  it("knows of the ADDs that have come since it began, until it ends, and of no earlier one", () => {
    const { all } = collections();
    all.addCame(WEB);
    const gc = all.begin("net1");
    expect([gc.hasBegun(WEB), gc.inUse()]).toEqual([false, []]);
    all.addCame(WEB);
    all.addCame({ ...WEB, network: "net2" });
    expect([gc.hasBegun(WEB), gc.inUse()]).toEqual([true, [{ containerID: "web", ifname: "eth0" }]]);
    gc[Symbol.dispose]();
    const next = all.begin("net1");
    expect([next.hasBegun(WEB), next.inUse()]).toEqual([false, []]);
  });

  it("removes nothing of an attachment that is in use, and what no interface is named of neither", async () => {
    const { all } = collections(WEB);
    using gc = all.begin("net1");
    const done: string[] = [];
    const remove = (ifname?: string) =>
      gc.remove({ containerId: "web", ...(ifname === undefined ? {} : { ifname }) }, async () => void done.push(ifname ?? "all"));
    expect([await remove("eth0"), await remove(), await remove("net1")]).toEqual([false, false, true]);
    expect(done).toEqual(["net1"]);
  });

  it("is waited for by an ADD of the container that it removes something of, and by no other", async () => {
    const { all } = collections();
    using gc = all.begin("net1");
    using other = all.begin("net1");
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const removals = [gc, other].map((one, index) => one.remove(OWNER, async () => gates[index]?.promise));
    let isFree = false;
    const adding = all.untilFree(WEB, NEVER).then(() => {
      isFree = true;
    });
    await all.untilFree({ ...WEB, containerId: "api" }, NEVER);
    gates[0]?.resolve();
    await settled();
    expect(isFree).toBe(false);
    gates[1]?.resolve();
    await adding;
    await Promise.all(removals);
    await all.untilFree(WEB, NEVER);
  });

  it("whose removal fails or does not end keeps nobody for ever", async () => {
    const { all, clock } = collections();
    using gc = all.begin("net1");
    await expect(gc.remove(OWNER, () => Promise.reject(new Error("device busy")))).rejects.toThrow("device busy");
    await all.untilFree(WEB, NEVER);
    void gc.remove(OWNER, () => new Promise(() => {}));
    const late = expect(all.untilFree(WEB, NEVER)).rejects.toMatchObject({ word: "attachment-locked" });
    await clock.advance(30_000);
    await late;
    await expect(all.untilFree(WEB, AbortSignal.abort(new Error("gone")))).rejects.toThrow("gone");
  });
});
