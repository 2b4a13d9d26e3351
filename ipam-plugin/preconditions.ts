/** What must hold before an address is given out, and is of no interest when one is given back. */

import { checkPolicyType, chooseDatastore } from "../lib/config/datastore-choice.ts";
import type { DatastoreType, NetworkConfig } from "../lib/config/network-config.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { isSubdomain } from "../lib/system/subdomain.ts";
import { checkIdentity } from "../lib/workload/identity-checks.ts";
import type { IpamServices } from "./services.ts";
import type { Workload } from "./workload.ts";

/**
 * @returns the kind of datastore, for the one step that differs by it (label-upgrade.ts)
 * @throws TortieError `netconf-value`, `identity-invalid`
 */
export function checkAdd(
  workload: Workload,
  network: string,
  config: NetworkConfig,
  services: Pick<IpamServices, "env" | "node">,
): DatastoreType {
  const type = chooseDatastore(config, services.env);
  checkPolicyType(config, type);
  checkIdentity(workload.identity, network, type);
  if (type === "kubernetes") checkNode(services.node);
  return type;
}

/** Said in Calico's words without asking: no node can have such a name, and no affinity either (recordings node-name-capital, long-node-260). */
function checkNode(name: string): void {
  if (isSubdomain(name)) return;
  throw new TortieError("identity-invalid", `resource does not exist: Node(${name}) with error: nodes "${name}" not found`);
}
