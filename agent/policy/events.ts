/**
 * Says in events what policy does: at a pod that a policy drops its packets, at a policy that it is invalid. At most one in ten minutes for
 * the same pod and policies, and one for a version of a policy in the whole cluster, since the name of the event follows from what it says.
 * Who wants all drops asks the agent.
 */
import type { Clock } from "../../lib/system/waiting.ts";
import type { PolicyStatus } from "../../policy/model.ts";
import { type EventWriter, namedBy, SAME_EVENT_MS } from "../observe/events.ts";
import type { Drop, DropEnd } from "./drop.ts";

interface PolicyEventParts {
  readonly events: Pick<EventWriter, "report">;
  /** @returns the uid of a pod of this node; `undefined`: it is gone. @param pod "namespace/name" */
  readonly uidOf: (pod: string) => string | undefined;
  readonly clock: Pick<Clock, "date">;
}

export class PolicyEvents {
  readonly #parts: PolicyEventParts;

  constructor(parts: PolicyEventParts) {
    this.#parts = parts;
  }

  /** Tells of a drop at the pod whose policy dropped it. */
  dropped(drop: Drop): void {
    if (drop.reason !== "denied" || drop.pod === undefined) return;
    const { events, uidOf, clock } = this.#parts;
    const uid = uidOf(drop.pod);
    if (uid === undefined) return;
    const cause = [drop.pod, drop.direction, ...drop.policies].join(" ");
    const window = Math.floor(clock.date().getTime() / SAME_EVENT_MS);
    events.report({
      ...{ kind: "Pod", ...namedBy(drop.pod), uid, reason: "NetworkPolicyDrop" },
      ...{ message: dropMessage(drop), cause, identity: `${uid} ${cause} ${window}`, whenRepeated: "leave-out" },
    });
  }

  /** Tells of a policy that is invalid, at the policy. */
  invalid({ key, uid, resourceVersion, problem }: PolicyStatus): void {
    if (problem === undefined) return;
    this.#parts.events.report({
      ...{ kind: "NetworkPolicy", ...namedBy(key), uid, reason: "NetworkPolicyInvalid" },
      message: `it closes what it selects and opens nothing: ${problem}`,
      ...{ cause: `${key} ${resourceVersion}`, identity: `${uid} ${resourceVersion}`, whenRepeated: "leave-out" },
    });
  }
}

function dropMessage({ direction, protocol, source, destination, explanation }: Drop): string {
  const [what, other] = direction === "egress" ? ["to", destination] : ["from", source];
  const port = destination.port === undefined ? "" : ` port ${destination.port}`;
  return `${protocol}${port} ${what} ${endText(other)} was dropped: ${explanation}`;
}

function endText({ pod, address }: DropEnd): string {
  return pod === undefined ? address : `${pod} (${address})`;
}
