/** What the agent makes of a call that has come over the call socket (A§11.3): one that it serves, or one that its caller is to serve. */

import { type CallerNamespace, type PreparedCall, prepareCall } from "../../handover/call.ts";
import { type CallFrame, FLAGS } from "../../handover/call-frame.ts";

export interface FramedCall {
  readonly call: PreparedCall;
  /** Milliseconds that the caller waits; by its configuration where it has not said. */
  readonly limitMs: number;
  /** W3C trace context of the caller, as it came. */
  readonly traceparent?: string;
}

/** IPAM plugins whose programs need nothing of the caller's environment, since they run in this process. */
const TORTIE_IPAM = "tortie-ipam";
const CALICO_IPAM = "calico-ipam";
const IN_PROCESS: readonly string[] = [TORTIE_IPAM, CALICO_IPAM, "tortie-host-scope", ""];

/**
 * @param ownDirectory the agent's run directory
 * @returns `undefined` for a call that its caller serves: there is something wrong with it, or this agent is not the one that is meant
 */
export function callOfFrame(frame: CallFrame, ownDirectory: string): FramedCall | undefined {
  const call = prepareCall(frame.env, () => frame.stdin);
  if (call === undefined) return undefined;
  const isJudged = (frame.flags & FLAGS.isJudged) !== 0;
  if (!isJudged && !isForUs(call, ownDirectory)) return undefined;
  const { command, netns, settings } = call;
  // Only a DEL may miss its sandbox; what else is wrong with the path the caller's own program says.
  if (!isJudged && frame.sandbox === undefined && netns.path !== "" && command !== "DEL") return undefined;
  const ownIpam = isOwnIpam(frame, settings.ipamType, isJudged) || undefined;
  return {
    call: { ...call, netns: netns.path === "" ? netns : { path: netns.path, ...sandboxOf(frame) }, ownIpam },
    limitMs: frame.deadlineMs === 0 ? settings.timeoutMs : frame.deadlineMs,
    traceparent: frame.env.TRACEPARENT,
  };
}

/** Judges for a caller that has not read the configuration, as the plugin does for itself. */
function isForUs({ settings, runDirectory }: PreparedCall, ownDirectory: string): boolean {
  return settings.mode !== "off" && runDirectory.path === ownDirectory && IN_PROCESS.includes(settings.ipamType);
}

function sandboxOf({ sandbox }: CallFrame): Omit<CallerNamespace, "path"> {
  return sandbox === undefined ? {} : { dev: String(sandbox.dev), ino: String(sandbox.ino), fd: sandbox.fd };
}

function isOwnIpam({ flags }: CallFrame, ipamType: string, isJudged: boolean): boolean {
  if (isJudged) return (flags & FLAGS.ownIpam) !== 0;
  if (ipamType === TORTIE_IPAM) return (flags & FLAGS.ownTortieIpam) !== 0;
  return ipamType === CALICO_IPAM && (flags & FLAGS.ownCalicoIpam) !== 0;
}
