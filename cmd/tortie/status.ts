/** CNI STATUS: could an ADD be served now? The IPAM plugin is asked too; an error has code 50 (CNI 1.1.0). */
import type { CniRequest } from "../../lib/cni/protocol.ts";
import type { NetworkConfig } from "../../lib/config/network-config.ts";
import { messageOf, TortieError } from "../../lib/errors.ts";
import { assertAddPossible } from "./attachment.ts";
import { chooseIpam } from "./ipam.ts";
import { ipamStdinForDel } from "./ipam-stdin.ts";
import type { Services } from "./services.ts";

export async function status(request: CniRequest, config: NetworkConfig, services: Services): Promise<void> {
  await unavailableUnless("configuration", async () => assertAddPossible(config, services.env));
  await unavailableUnless("datastore", async () => (await services.datastore()).clusterInformation.get("default"));
  await chooseIpam(request, config, ipamStdinForDel(request), services).run("STATUS");
}

async function unavailableUnless(what: string, probe: () => Promise<unknown>): Promise<void> {
  try {
    await probe();
  } catch (error) {
    throw new TortieError("status-unavailable", `${what}: ${messageOf(error)}`, { cause: error });
  }
}
