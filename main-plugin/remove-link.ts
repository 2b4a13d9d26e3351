/** The link of an attachment that ends. */
import { parseAttachmentAlias } from "../lib/workload/alias.ts";
import type { Attachment } from "./attachment.ts";
import type { Services } from "./services.ts";

/**
 * Both ends, unless the host end, whose name is the pod's own, belongs to another container by now: its ADD has replaced the link of
 * this one, and the interface that a sandbox both share has under this name is the newer one's (design, invariant 7; Calico takes it
 * away, recordings add-twice-new-id, del-foreign-id).
 */
export async function removeLink(attachment: Attachment, { dataplane, log }: Pick<Services, "dataplane" | "log">): Promise<void> {
  const { hostInterface } = attachment;
  const alias = hostInterface === "" ? undefined : await dataplane.hostEndAlias(hostInterface);
  if (alias !== undefined && isOfAnotherContainer(alias, attachment)) {
    log.info(`${hostInterface} is another container's by now and stays`, { alias });
    return;
  }
  await dataplane.remove(attachment);
}

/** An alias that is no attachment's (none at all, or somebody's own) says nothing about whose the link is. */
function isOfAnotherContainer(alias: string, attachment: Attachment): boolean {
  if (alias === attachment.alias || !alias.startsWith("tortie:")) return false;
  return parseAttachmentAlias(alias)?.containerId !== attachment.identity.containerId;
}
