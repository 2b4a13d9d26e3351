import type { PolicyView, Realisation } from "../../../../agent/policy/view.ts";
import { waitForPolicy } from "../../../../agent/policy/wait.ts";
import { NEVER } from "../../../../lib/system/waiting.ts";
import { POLICY, policyView } from "../../../support/policy-view.ts";

const PENDING = { hostInterface: "caliweb", reason: "its pass is under way" };
const late = () => AbortSignal.timeout(20);

/** Says one state after the other, each after a change. */
function passing(states: readonly Realisation[], given: Partial<PolicyView> = {}): PolicyView {
  let at = 0;
  const now = () => states[Math.min(at, states.length - 1)] ?? { resourceVersion: undefined, pending: [] };
  return policyView({
    policies: () => [POLICY],
    realisation: now,
    pending: () => now().pending,
    async changed(signal) {
      if (++at >= states.length) await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    },
    ...given,
  });
}

const OLD = { resourceVersion: "40", pending: [] };
const UNDER_WAY = { resourceVersion: "41", pending: [PENDING] };
const HELD = { resourceVersion: "41", pending: [] };
const one = { policy: "shop/close", resourceVersion: undefined };
const all = { policy: undefined, resourceVersion: undefined };

describe("a wait for policy", () => {
  it("P18: ends when the kernel holds the policy's present version for every endpoint", async () => {
    const realised = { isRealised: true, pending: [], reasons: [] };
    expect(await waitForPolicy(passing([OLD, UNDER_WAY, HELD]), one, NEVER)).toEqual(realised);
    expect(await waitForPolicy(passing([UNDER_WAY, HELD]), all, NEVER)).toEqual(realised);
  });

  it("P18: says at its end which endpoints wait, and for what", async () => {
    expect(await waitForPolicy(passing([UNDER_WAY]), one, late())).toEqual({ isRealised: false, pending: [PENDING], reasons: [] });
    expect(await waitForPolicy(passing([OLD]), one, late())).toEqual({
      isRealised: false,
      pending: [],
      reasons: ["the kernel holds version 40 of shop/close, not 41"],
    });
    const gone = passing([HELD], { gaps: () => ["the namespaces have not been read"] });
    expect(await waitForPolicy(gone, all, late())).toEqual({
      isRealised: false,
      pending: [],
      reasons: ["the namespaces have not been read"],
    });
  });

  it("waits for a version that was asked for, although the policy is not there yet", async () => {
    const wanted = { policy: "shop/close", resourceVersion: "41" };
    const view = passing([{ resourceVersion: undefined, pending: [] }, HELD], { policies: () => [] });
    expect((await waitForPolicy(view, wanted, NEVER)).isRealised).toBe(true);
  });

  it("knows no policy that is not there when everything was read", async () => {
    const view = passing([HELD], { policies: () => [] });
    await expect(waitForPolicy(view, one, NEVER)).rejects.toMatchObject({ word: "policy-unknown" });
  });

  it("says so when the sources cannot be asked, or do not answer in time", async () => {
    const away = passing([HELD], { caughtUp: () => Promise.reject(new Error("the server is away")), gaps: () => ["no pods"] });
    expect(await waitForPolicy(away, all, NEVER)).toMatchObject({ isRealised: false, reasons: ["the server is away", "no pods"] });
    const silent = passing([HELD], {
      caughtUp: (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    });
    expect(await waitForPolicy(silent, all, late())).toMatchObject({
      isRealised: false,
      reasons: ["not everything is read that was there when the wait began"],
    });
  });
});
