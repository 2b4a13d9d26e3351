/** An ADD that was killed half-way is undone by the next ADD of its attachment, as by its DEL or by GC (design, invariant 5). */
import { workloadEndpointNamePrefix } from "../../lib/workload/endpoint-name.ts";
import type { Attachment } from "./attachment.ts";
import type { Ipam } from "./ipam.ts";
import type { Services } from "./services.ts";

/**
 * Called when this attachment has no record. Addresses that its container holds all the same are what a killed ADD took, unless another
 * interface of the container has a record: then they may be that one's, and its DEL frees them.
 *
 * The link of the killed ADD goes first: it may carry the addresses (design, invariant 3).
 */
export async function undoKilledAdd(attachment: Attachment, ipam: Ipam, services: Services): Promise<void> {
  if (!(await ipam.holdsAddresses())) return;
  const { endpoints } = await services.datastore();
  const { identity } = attachment;
  const prefix = workloadEndpointNamePrefix({ ...identity, endpoint: "" });
  const siblings = await endpoints.listByPrefix(attachment.endpointKey.namespace, prefix);
  if (siblings.some(({ value }) => value.containerID === identity.containerId)) return;
  services.log.info("an earlier ADD of this attachment was killed: what it took is given back first");
  await services.dataplane.removeHostEnd(attachment.hostInterface, attachment.alias);
  await ipam.run("DEL");
}
