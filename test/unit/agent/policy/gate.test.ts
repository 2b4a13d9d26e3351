/** What an ADD waits for until policy is in the kernel, in which words it fails, and what it takes back. */
import { PolicyEndpoints } from "../../../../agent/policy/endpoints.ts";
import { type GateParts, PolicyGate } from "../../../../agent/policy/gate.ts";
import { decodePod, type Pod } from "../../../../lib/kubernetes/objects.ts";
import { ResourceStore } from "../../../../lib/kubernetes/watch/resource-cache.ts";
import { NEVER, untilAborted } from "../../../../lib/system/waiting.ts";
import { FakeClock, settled } from "../../../support/fake-clock.ts";
import { NEW } from "../../../support/policy-view.ts";

const POD: Pod = decodePod({ metadata: { namespace: "shop", name: "web", uid: "u1", labels: { app: "web" } } });
const never = (signal: AbortSignal) => untilAborted(new Promise<never>(() => {}), signal);

function world(change: Partial<GateParts> = {}) {
  const clock = new FakeClock();
  const done: string[] = [];
  const pods = new ResourceStore<Pod>(() => {});
  pods.set("shop/web", "1", () => POD);
  const tell = (name: string, endpoint: unknown) => done.push(`${name} ${endpoint === undefined ? "gone" : "told"}`);
  const endpoints = new PolicyEndpoints({ tell, pods, mayBeSelected: () => false });
  const gate = new PolicyGate({
    limitMs: 10_000,
    endpoints,
    passes: { isOpen: true, isSettled: true, settled: async () => {}, problem: undefined },
    gap: () => undefined,
    untilSynced: async () => {},
    hasPod: (key) => pods.get(key) !== undefined,
    readPod: undefined,
    flows: { given: async () => void done.push("given"), released: () => done.push("released") },
    standsAside: NEVER,
    isInKernel: () => true,
    onHostInterface: (name) => done.push(`judge ${name}`),
    clock,
    ...change,
  });
  return { clock, gate, done, pods };
}

/** What `ready` says when all its time has passed. */
async function refusal({ clock, gate }: ReturnType<typeof world>): Promise<string> {
  const admitting = gate.admit(NEW, NEVER);
  await clock.advance(50);
  await using _ = await admitting;
  const waiting = gate.ready("cali1", NEVER).then(
    () => "ready",
    (error: unknown) => String(error),
  );
  await settled();
  await clock.advance(9_900);
  expect(await Promise.race([waiting, Promise.resolve("waits")])).toBe("waits");
  await clock.advance(200);
  return waiting;
}

describe("the gate of an ADD", () => {
  it("tells of the endpoint and ends its address's old connections before the link is made, and waits for nothing where all is there", async () => {
    const { gate, done, clock } = world();
    await gate.admit(NEW, NEVER);
    expect(done).toEqual(["judge cali1", "cali1 told", "given"]);
    await gate.ready("cali1", NEVER);
    expect(clock.pauses).toEqual([50]);
  });

  it("takes back what it told when the ADD fails", async () => {
    const { gate, done } = world();
    const admission = await gate.admit(NEW, NEVER);
    await admission[Symbol.asyncDispose]();
    expect(done.slice(3)).toEqual(["cali1 gone", "released"]);
  });

  it("takes back what it told when nobody wants the ADD any more while its pass is waited for", async () => {
    const { gate, done } = world({ passes: { isOpen: true, isSettled: false, settled: never, problem: undefined } });
    const caller = new AbortController();
    const admitting = gate.admit(NEW, caller.signal);
    await settled();
    caller.abort(new Error("gone"));
    await expect(admitting).rejects.toThrow("gone");
    expect(done).toEqual(["judge cali1", "cali1 told", "given", "cali1 gone", "released"]);
  });

  it.each<[string, Partial<GateParts>]>([
    ["network policies have not been read yet", { gap: () => "network policies have not been read yet", untilSynced: never }],
    ["the packet filter for", { passes: { isOpen: true, isSettled: false, settled: never, problem: undefined } }],
    ["the packet filter, which refuses: no room", { passes: { isOpen: true, isSettled: false, settled: never, problem: "no room" } }],
  ])("says that it waited for %s", async (what, change) => {
    expect(await refusal(world(change))).toContain(`policy not ready: waiting for ${what}`);
  });

  it("says that it waited for labels of the pod", async () => {
    const it = world();
    it.pods.delete("shop/web");
    expect(await refusal(it)).toBe("TortieError: policy not ready: waiting for labels of pod shop/web for 10 s");
  });

  it("goes on as soon as the pod is known", async () => {
    const { gate, pods } = world();
    pods.delete("shop/web");
    await gate.admit(NEW, NEVER);
    const waiting = gate.ready("cali1", NEVER);
    await settled();
    pods.set("shop/web", "2", () => POD);
    await waiting;
  });

  it("answers at once when policy stands aside, and never for a caller that has given up", async () => {
    const aside = new AbortController();
    const caller = new AbortController();
    const { gate } = world({ untilSynced: never, gap: () => "a list", standsAside: aside.signal });
    await gate.admit(NEW, NEVER);
    const [waiting, given] = [gate.ready("cali1", NEVER), gate.ready("cali1", caller.signal)];
    await settled();
    caller.abort(new Error("given up"));
    await expect(given).rejects.toThrow("given up");
    aside.abort(new Error("policy is turned off"));
    await waiting;
    await gate.ready("cali1", NEVER);
  });

  it("asks the API server for a pod that the copy does not get, as one that is bound to another node, and takes no other pod's labels", async () => {
    const answers = [POD, { ...POD, uid: "another" }];
    const waits: string[] = [];
    for (const answer of answers) {
      const { gate, pods, clock, done } = world({ readPod: async () => answer });
      pods.delete("shop/web");
      await gate.admit(NEW, NEVER);
      const waiting = gate.ready("cali1", NEVER).then(
        () => "ready",
        () => "refused",
      );
      await settled();
      expect(done).not.toContain("cali1 told");
      await clock.advance(600);
      await clock.advance(9_900);
      waits.push(await waiting);
    }
    expect(waits).toEqual(["ready", "refused"]);
  });

  it("ends with its caller, and does not wait at all where the limit is 0", async () => {
    const waiting = world({ untilSynced: never, gap: () => "a list" });
    await waiting.gate.admit(NEW, NEVER);
    const caller = new AbortController();
    const ready = waiting.gate.ready("cali1", caller.signal);
    caller.abort(new Error("the caller is gone"));
    await expect(ready).rejects.toThrow("the caller is gone");
    const { gate } = world({ limitMs: 0, untilSynced: never, gap: () => "a list" });
    await gate.ready("cali1", NEVER);
  });

  it("asks the API server for a pod that no ADD has read and that the copy lacks, once, and refuses where it cannot say", async () => {
    const asked: string[] = [];
    const unread = { ...NEW, pod: { namespace: "shop", name: "other", uid: undefined, runtimeUid: undefined, labels: { app: "runtime" } } };
    const answer = (pod: Pod | undefined) => ({
      readPod: async (key: string) => {
        asked.push(key);
        return pod;
      },
    });
    for (const pod of [POD, undefined]) {
      const { gate } = world(answer(pod));
      await gate.admit(unread, NEVER);
      await gate.ready("cali1", NEVER);
    }
    expect(asked).toEqual(["shop/other", "shop/other"]);
    await world(answer(undefined)).gate.admit(NEW, NEVER);
    expect(asked).toHaveLength(2);
    const broken = world({ readPod: () => Promise.reject(new Error("no route")) });
    await expect(broken.gate.admit(unread, NEVER)).rejects.toThrow(
      "policy not ready: the labels of pod shop/other are not known: no route",
    );
  });

  it("names a host end that the kernel does not know", () => {
    expect(world().gate.differences("cali1")).toEqual([]);
    expect(world({ isInKernel: () => false }).gate.differences("cali1")).toEqual([expect.stringContaining("policy of cali1, found none")]);
  });
});
