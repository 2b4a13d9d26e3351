/**
 * CNI STATUS: could an ADD be served now? The IPAM plugin is asked too. Code 50 says no; code 51 says that the network of containers
 * which run already may be limited as well, which is what a closed readiness gate means: it is the node agent's (CNI 1.1.0).
 */
import type { CniRequest } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { type ErrorWord, messageOf, TortieError } from "../lib/errors/errors.ts";
import { assertAddPossible } from "./attachment.ts";
import { assertClusterReady } from "./cluster-ready.ts";
import { chooseIpam } from "./ipam.ts";
import { ipamStdinForDel } from "./ipam-stdin.ts";
import type { Services } from "./services.ts";

export async function status(request: CniRequest, config: NetworkConfig, services: Services): Promise<void> {
  await orElse("status-unavailable", "configuration", async () => assertAddPossible(config, services.env));
  await orElse("status-unavailable", "datastore", () => assertReadable(services));
  await orElse("status-impaired", "readiness gates", () => assertGates(config));
  await chooseIpam(request, config, ipamStdinForDel(request), services).run("STATUS");
}

async function assertGates({ readinessGates }: NetworkConfig): Promise<void> {
  if (readinessGates.length === 0) return;
  const { assertReadinessGates } = await import("./readiness-gates.ts");
  await assertReadinessGates(readinessGates);
}

async function assertReadable(services: Services): Promise<void> {
  if (services.isStandalone) await (await services.datastore()).clusterInformation.get("default");
  else await assertClusterReady(services);
}

async function orElse(word: ErrorWord, what: string, probe: () => Promise<unknown>): Promise<void> {
  try {
    await probe();
  } catch (error) {
    throw new TortieError(word, `${what}: ${messageOf(error)}`, { cause: error });
  }
}
