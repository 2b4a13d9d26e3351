/** The port between the plan of an attachment and whatever makes it true: Linux today; gRPC and eBPF have room beside it. */
import type { Undo } from "../lib/system/undo.ts";
import type { AppliedState, Attachment, DesiredState, Difference } from "./desired-state.ts";

export interface Dataplane {
  /**
   * Makes the pair of links of a state whose addresses are not known yet, while somebody finds them: `apply` goes on with it. Only where
   * nothing is in the way; whatever is, `apply` deals with or reports. Called again, it makes sure that nobody has changed them since, and gives the
   * pod its routes. Never fails.
   * @param isComplete everything else is known: the links are set up and go up as well
   */
  prepare(desired: DesiredState, isComplete: boolean, undo: Undo): void;
  /** Makes the kernel hold `desired`; whatever it makes is undone through `undo`, in reverse order, when the caller fails later. */
  apply(desired: DesiredState, undo: Undo): Promise<AppliedState>;
  /** Whether the sandbox holds a link of that name. @throws TortieError `netns-missing`, `netns-invalid` */
  hasPodEnd(sandbox: string, name: string): Promise<boolean>;
  /** Compares the kernel with `desired` and names every difference; empty when all is well. Changes nothing. */
  inspect(desired: DesiredState): Promise<readonly Difference[]>;
  /** Removes the link of an attachment. What is already gone counts as removed (C§4.7). */
  remove(attachment: Attachment): Promise<void>;
  /** The alias of a link of the host; `undefined` when there is none of that name, empty when it has no alias. */
  hostEndAlias(name: string): Promise<string | undefined>;
  /** Host ends by alias: every link of the host whose alias starts with `prefix`. */
  listOwned(prefix: string): Promise<readonly { readonly name: string; readonly alias: string }[]>;
  /**
   * Removes host ends that nobody finished making: named with `prefix`, with Calico's MAC, without alias and down. The alias follows the
   * link within a millisecond, so that only a killed process leaves such a link; call this only while nobody adds attachments.
   * @returns their names
   */
  removeUnfinished(prefix: string, mac: string): Promise<readonly string[]>;
  /** Removes a host end by name if its alias is still `alias`. */
  removeHostEnd(name: string, alias: string): Promise<void>;
}
