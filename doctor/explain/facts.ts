/** Holds what somebody has looked up about a subject: plain data, of which explain.ts makes the explanation. */
import type { Difference } from "../../dataplane/desired-state.ts";
import type { CheckResult } from "../report.ts";
import type { ExplainedAttachment, Explanation } from "./explanation.ts";

/**
 * `unknown`: no record says which it is, and none of this host's has the other end of the link. `lost`: the link is gone, and nobody can prove
 * which sandbox it was in: the container may live without a network, or be gone.
 */
export type SandboxStanding = "there" | "gone" | "unknown" | "lost";

export interface AttachmentFacts {
  readonly shown: ExplainedAttachment;
  /** What the kernel has otherwise; `undefined`: nobody could compare, and `uncompared` says why. */
  readonly differences: readonly Difference[] | undefined;
  readonly uncompared?: string;
  readonly sandbox: SandboxStanding;
  /** What the datastore's record says otherwise, one phrase each; `undefined`: it could not be asked. */
  readonly recordDifferences: readonly string[] | undefined;
  /** Addresses that its runtime asked for. */
  readonly requested?: readonly string[];
  /** Has the annotations of its namespace that are about networks; absent: nobody could read them. */
  readonly ofNamespace?: Readonly<Record<string, string>>;
  /** RFC 3339: since when its DEL waits for the agent. */
  readonly deletionWaitsSince?: string;
  /** How the policy's table stands to it; absent: policy is off here. */
  readonly policy?: PolicyStanding;
}

export interface PolicyStanding {
  /** Whether the table judges its packets, or lets them pass on purpose; `undefined`: the table is not there. */
  readonly isKnown: boolean | undefined;
  /** What the table has of it otherwise than the agent wants, one phrase each. */
  readonly differences: readonly string[];
  /** Whether an agent enforces policy, and mends the table when it is asked. */
  readonly isServed: boolean;
}

/** Names who has an attachment: "pod default/web", or "container 0123" outside of pods. */
export function ownerOf({ pod, containerId }: { readonly pod?: string; readonly containerId?: string }): string {
  return pod === undefined ? `container ${containerId}` : `pod ${pod}`;
}

/** Says what is wrong with the policy's table for an attachment, one phrase each. */
export function wrongInPolicy({ isKnown, differences }: PolicyStanding, hostInterface: string): readonly string[] {
  if (isKnown === undefined) return [`policy is on, and its table is missing: every packet of ${hostInterface} passes`];
  const closed = isKnown ? [] : [`policy is on, and its table does not know ${hostInterface}: every packet of it is dropped`];
  return [...closed, ...differences.map((one) => `the policy's table is not as the agent made it: ${one}`)];
}

export interface ExplainFacts extends Pick<Explanation, "time" | "host" | "version" | "subject" | "addresses" | "history"> {
  readonly attachments: readonly AttachmentFacts[];
  /** What is wrong or right with what all attachments need: agent, datastore, configuration, the addresses' rules. */
  readonly surroundings: readonly CheckResult[];
  /** Names of links, chains and the like that other plugins made for containers of the subject that are gone. */
  readonly leftovers: readonly { readonly place: string; readonly by: string; readonly containerId: string }[];
}
