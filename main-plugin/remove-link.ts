/** The link of an attachment that ends. */
import type { Attachment } from "./attachment.ts";
import type { Services } from "./services.ts";

export async function removeLink(attachment: Attachment, { dataplane, log }: Pick<Services, "dataplane" | "log">): Promise<void> {
  const { sandbox, podInterface, hostInterface, owner } = attachment;
  const { keptFor } = await dataplane.remove({ sandbox, podInterface, hostInterface, owner });
  if (keptFor !== undefined) log.info(`${hostInterface} is another container's by now and stays`, { alias: keptFor });
}
