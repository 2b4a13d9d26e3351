/** Whether virtual machines keep their addresses: `kubeVirtVMAddressPersistence` of the IPAM configuration (I§1.9, I§2.6). */
import { messageOf } from "../../lib/errors.ts";
import type { IpamServices } from "../services.ts";

/** Yes unless somebody said no; a configuration that cannot be read says nothing. */
export async function persistsAddresses({ datastore, log }: Pick<IpamServices, "datastore" | "log">): Promise<boolean> {
  try {
    const configuration = await datastore.ipamConfiguration.get("default");
    return configuration?.value.kubeVirtVMAddressPersistence !== "Disabled";
  } catch (error) {
    log.error(`cannot read kubeVirtVMAddressPersistence, virtual machines keep their addresses: ${messageOf(error)}`);
    return true;
  }
}
