/** Decides what a repair does about an attachment, from what an explanation has looked up. Pure; whoever carries it out is elsewhere. */
import { type AttachmentFacts, wrongInPolicy } from "../explain/facts.ts";
import { ONLY_AGENT } from "../explain/judge.ts";

/**
 * `mend`: the link with its routes and settings, by the agent's own mending. `record`: what the datastore, in a cluster the pod, says of it.
 * `remove`: what a container that is gone has left, as its DEL would. `policy`: what the policy's table has of it, by the agent.
 */
export type RepairKind = "mend" | "record" | "remove" | "policy";

export interface RepairAction {
  readonly kind: RepairKind;
  /** What it is about, one phrase each. */
  readonly what: readonly string[];
}

/** Names what differs and is nobody's to mend: it is inside the container. */
export interface RepairPlan {
  readonly actions: readonly RepairAction[];
  readonly left: readonly string[];
}

export function planRepair({
  sandbox,
  differences = [],
  recordDifferences = [],
  shown,
  deletionWaitsSince,
  policy,
}: AttachmentFacts): RepairPlan {
  if (deletionWaitsSince !== undefined) return { actions: [], left: ["its DEL waits for the agent, which removes it"] };
  if (sandbox === "lost") {
    const release = `tortiectl ipam release --container ${shown.containerId}`;
    return {
      actions: [],
      left: [`its link is gone, and nobody can prove its sandbox: make it again; if the runtime does not know it: ${release}`],
    };
  }
  if (sandbox === "gone") {
    const taken = shown.addresses.length === 0 ? "its record" : `its record, and gives back ${shown.addresses.join(", ")}`;
    return { actions: [{ kind: "remove", what: [`removes what its container has left: ${taken}`] }], left: [] };
  }
  const texts = ({ side, object, wanted, found }: (typeof differences)[number]) =>
    `${side} ${object}: wanted ${wanted}, found ${found || "nothing"}`;
  const isOurs = ({ side, object }: (typeof differences)[number]) => side === "host" || object === `link ${shown.ifname}`;
  const ours = differences.filter(isOurs).map(texts);
  const theirs = differences
    .filter((one) => !isOurs(one))
    .map((one) => `${texts(one)} (inside the container, where Tortie changes nothing)`);
  const table = policy === undefined ? [] : wrongInPolicy(policy, shown.hostEnd?.name ?? "");
  return {
    actions: [
      ...(ours.length === 0 ? [] : [{ kind: "mend" as const, what: ours }]),
      ...(recordDifferences.length === 0 ? [] : [{ kind: "record" as const, what: recordDifferences }]),
      ...(table.length > 0 && policy?.isServed === true ? [{ kind: "policy" as const, what: table }] : []),
    ],
    left: [...theirs, ...(policy?.isServed === true ? [] : table.map((one) => `${one}; ${ONLY_AGENT}`))],
  };
}
