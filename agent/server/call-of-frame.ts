/** What the agent makes of a call that has come over the call socket (A§11.3): one that it serves, or one that its caller is to serve. */
import { type CallFrame, FLAGS } from "../forward/call-frame.ts";
import { type PreparedCall, prepareCall } from "../forward/prepared-call.ts";
import { CNI_VERBS, type CniCallBody, type CniVerb } from "../forward/protocol.ts";

export interface FramedCall {
  readonly verb: CniVerb;
  readonly body: CniCallBody;
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
  const call = prepareCall(frame.env, frame.plugin, () => frame.stdin);
  if (call === undefined) return undefined;
  const isJudged = (frame.flags & FLAGS.isJudged) !== 0;
  if (!isJudged && !isForUs(call, ownDirectory)) return undefined;
  const { command, body, settings } = call;
  // Only a DEL may miss its sandbox; what else is wrong with the path the caller's own program says.
  if (!isJudged && frame.sandbox === undefined && body.netns !== undefined && command !== "DEL") return undefined;
  const traceparent = frame.env.TRACEPARENT;
  return {
    verb: CNI_VERBS[command],
    limitMs: frame.deadlineMs === 0 ? settings.timeoutMs : frame.deadlineMs,
    ...(traceparent === undefined ? {} : { traceparent }),
    body: {
      ...body,
      ...(body.netns === undefined ? {} : { netns: { path: body.netns.path, ...sandboxOf(frame) } }),
      ...(isOwnIpam(frame, settings.ipamType, isJudged) ? { ownIpam: true } : {}),
    },
  };
}

/** Judges for a caller that has not read the configuration, as the plugin does for itself. */
function isForUs({ settings, runDirectory }: PreparedCall, ownDirectory: string): boolean {
  return settings.mode !== "off" && runDirectory.path === ownDirectory && IN_PROCESS.includes(settings.ipamType);
}

function sandboxOf({ sandbox }: CallFrame): { readonly dev?: string; readonly ino?: string; readonly fd?: number } {
  if (sandbox === undefined) return {};
  const { dev, ino, fd } = sandbox;
  return { dev: String(dev), ino: String(ino), ...(fd === undefined ? {} : { fd }) };
}

function isOwnIpam({ flags }: CallFrame, ipamType: string, isJudged: boolean): boolean {
  if (isJudged) return (flags & FLAGS.ownIpam) !== 0;
  if (ipamType === TORTIE_IPAM) return (flags & FLAGS.ownTortieIpam) !== 0;
  return ipamType === CALICO_IPAM && (flags & FLAGS.ownCalicoIpam) !== 0;
}
