/** Waits until the kernel holds what the policies say, or says what it does not hold and why. */
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { PendingEndpoint, PolicyView } from "./view.ts";

export interface WaitFor {
  /** "namespace/name"; `undefined`: all of them. */
  readonly policy: string | undefined;
  /** The version of the policy that must be in the kernel; `undefined`: the one that the server has now. */
  readonly resourceVersion: string | undefined;
}

export interface WaitResult {
  readonly isRealised: boolean;
  readonly pending: readonly PendingEndpoint[];
  /** What else stands in the way; empty where it is realised. */
  readonly reasons: readonly string[];
}

type WaitView = Pick<PolicyView, "policies" | "realisation" | "pending" | "gaps" | "caughtUp" | "changed">;

/**
 * @param signal ends the wait, whose result then says what is missing
 * @throws TortieError `policy-unknown` when the policy is not there after everything was read
 */
export async function waitForPolicy(view: WaitView, wanted: WaitFor, signal: AbortSignal): Promise<WaitResult> {
  try {
    await view.caughtUp(signal);
  } catch (error) {
    const reason = signal.aborted ? "not everything is read that was there when the wait began" : messageOf(error);
    return { isRealised: false, pending: pendingOf(view, wanted), reasons: [reason, ...view.gaps()] };
  }
  for (;;) {
    const result = look(view, wanted);
    if (result.isRealised || signal.aborted) return result;
    await view.changed(signal).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }
}

function look(view: WaitView, wanted: WaitFor): WaitResult {
  const pending = pendingOf(view, wanted);
  const reasons = [...(wanted.policy === undefined ? [] : versionMissing(view, wanted.policy, wanted.resourceVersion)), ...view.gaps()];
  return { isRealised: pending.length === 0 && reasons.length === 0, pending, reasons };
}

function pendingOf(view: WaitView, { policy }: WaitFor): readonly PendingEndpoint[] {
  return policy === undefined ? view.pending() : view.realisation(policy).pending;
}

/** @throws TortieError `policy-unknown` */
function versionMissing(view: WaitView, policy: string, wanted: string | undefined): readonly string[] {
  const status = view.policies().find(({ key }) => key === policy);
  const { resourceVersion } = view.realisation(policy);
  if (status === undefined && wanted === undefined) {
    throw new TortieError("policy-unknown", `there is no NetworkPolicy ${JSON.stringify(policy)}`);
  }
  const version = wanted ?? status?.resourceVersion;
  if (version === resourceVersion) return [];
  return [`the kernel holds version ${resourceVersion ?? "none"} of ${policy}, not ${version}`];
}
