/**
 * Says at a pod why its ADD failed and what to do next. The kubelet has an event of its own for the same failure, with the runtime's words
 * around ours and one for each sandbox; this one has the stable word, and its count rises while the cause is the same.
 */
import { describeError } from "../../lib/cni/error-output.ts";
import { isPodOfUid, type Pod } from "../../lib/kubernetes/objects.ts";
import { excerpt } from "../../lib/log/format.ts";
import type { Secrets } from "../../lib/log/secrets.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import { parseCniArgs } from "../../lib/workload/requested.ts";
import { type EventText, type EventWriter, MOST_MESSAGE, namedBy } from "../observe/events.ts";

/** Docs/reference/errors.md and `kubectl get events --field-selector reason=…` know it by this name. */
const REASON = "NetworkAttachFailed";
/** Words that say that nobody waits for the pod any more, or that the plugin itself serves the call. */
const NO_FAILURES: readonly (string | undefined)[] = ["caller-gone", "attachment-deleted", "delegate-elsewhere"];

export interface FailureEventParts {
  readonly events: Pick<EventWriter, "report">;
  /** Reads a pod of this node from the watch. @param key "namespace/name" */
  readonly podOf: (key: string) => Pick<Pod, "uid" | "annotations"> | undefined;
  readonly clock: Pick<Clock, "date">;
}

/** Has what a failed ADD says of its pod, and what must not be shown. */
export interface FailedAdd {
  /** CNI_ARGS, with IgnoreUnknown. */
  readonly args: string;
  readonly secrets: Secrets;
}

/** Reports a failed ADD of a pod that is still there. Asks the server for nothing, and never throws. */
export function reportFailedAdd({ args, secrets }: FailedAdd, error: unknown, parts: FailureEventParts): void {
  const named = podOfArgs(args);
  const pod = named && parts.podOf(named.key);
  if (named === undefined || pod === undefined || (named.uid !== undefined && !isPodOfUid(pod, named.uid))) return;
  const event = eventOf(named.key, pod.uid, { error, secrets, time: parts.clock.date().toISOString() });
  if (event !== undefined) parts.events.report(event);
}

function podOfArgs(args: string): { readonly key: string; readonly uid: string | undefined } | undefined {
  try {
    const { podNamespace, podName, podUid } = parseCniArgs(args);
    return podNamespace === "" || podName === "" ? undefined : { key: `${podNamespace}/${podName}`, uid: podUid };
  } catch {
    // Arguments that cannot be read name no pod.
    return undefined;
  }
}

interface Failure extends Pick<FailedAdd, "secrets"> {
  readonly error: unknown;
  readonly time: string;
}

function eventOf(key: string, uid: string, { error, secrets, time }: Failure): EventText | undefined {
  const { code, msg, details, word, next } = describeError(error, secrets);
  if (NO_FAILURES.includes(word)) return undefined;
  // What another plugin said has no word of ours: its number tells causes apart.
  const advice = word === undefined ? ` (code ${code}${details === undefined ? "" : `; ${details}`})` : ` (${word}); next: ${next}`;
  const room = MOST_MESSAGE - 1 - Math.min(advice.length, MOST_MESSAGE / 2);
  return {
    ...{ kind: "Pod", ...namedBy(key), uid, reason: REASON },
    message: excerpt(msg, room - 1) + advice,
    cause: `${uid} ${word ?? code}`,
    identity: `${uid} ${word ?? code} ${time}`,
    whenRepeated: "count",
  };
}
