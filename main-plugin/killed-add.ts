/** An ADD that was killed half-way is undone by the next ADD of its attachment, as by its DEL or by GC (design, invariant 5). */
import type { CniResult } from "../lib/cni/protocol.ts";
import type { Undo } from "../lib/system/undo.ts";
import type { Attachment } from "./attachment.ts";
import { HOLDS_ADDRESSES, type Ipam } from "./ipam.ts";
import type { Services } from "./services.ts";
import type { Subject } from "./subject.ts";

/**
 * ADD of the IPAM plugin for an attachment that has no record. Only a container that turns out to hold addresses is looked into, so
 * that the others pay no request for it.
 */
export async function addAddresses(
  attachment: Attachment,
  subject: Pick<Subject, "hasSibling">,
  ipam: Ipam,
  undo: Undo,
  services: Services,
): Promise<CniResult> {
  const first = await ipam.addFirst(undo);
  if (first !== HOLDS_ADDRESSES) return first;
  if (!(await subject.hasSibling())) await undoKilledAdd(attachment, ipam, services);
  return ipam.add(undo, false);
}

/**
 * Addresses that the container of an attachment without record holds are what a killed ADD took, unless another interface of the
 * container has a record: then they may be that one's, and its DEL frees them.
 *
 * The link of the killed ADD goes first: it may carry the addresses (design, invariant 3).
 */
async function undoKilledAdd(attachment: Attachment, ipam: Ipam, { log, dataplane }: Services): Promise<void> {
  log.info("an earlier ADD of this attachment was killed: what it took is given back first");
  await dataplane.removeHostEnd(attachment.hostInterface, attachment.alias);
  await ipam.run("DEL");
}
