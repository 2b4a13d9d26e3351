/** Whether virtual machines keep their addresses: `kubeVirtVMAddressPersistence` of the IPAM configuration (I§1.9, I§2.6). */

import type { IpamConfiguration } from "../../lib/datastore/resources.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import type { IpamServices } from "../services.ts";

/** Yes unless somebody said no; a configuration that cannot be read says nothing. */
export async function persistsAddresses(
  configuration: () => Promise<IpamConfiguration>,
  { log }: Pick<IpamServices, "log">,
): Promise<boolean> {
  try {
    return (await configuration()).kubeVirtVMAddressPersistence !== "Disabled";
  } catch (error) {
    log.error(`cannot read kubeVirtVMAddressPersistence, virtual machines keep their addresses: ${messageOf(error)}`);
    return true;
  }
}
