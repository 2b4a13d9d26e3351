/** What must hold before an address is given out, and is of no interest when one is given back. */

import { checkPolicyType, chooseDatastore } from "../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { isSubdomain } from "../lib/system/subdomain.ts";
import { checkIdentity } from "../lib/workload/identity-checks.ts";
import type { IpamServices } from "./services.ts";
import type { Workload } from "./workload.ts";

/** @throws TortieError `netconf-value`, `identity-invalid` */
export function checkAdd(
  workload: Workload,
  network: string,
  config: NetworkConfig,
  { datastore, env, node }: Pick<IpamServices, "datastore" | "env" | "node">,
): void {
  const type = chooseDatastore(config, env);
  checkPolicyType(config, type);
  checkIdentity(workload.identity, network, type);
  if (datastore.traits.nodesAreObjects) checkNode(node);
}

/** Said in Calico's words without asking: no node can have such a name, and no affinity either (recordings node-name-capital, long-node-260). */
function checkNode(name: string): void {
  if (isSubdomain(name)) return;
  throw new TortieError("identity-invalid", `resource does not exist: Node(${name}) with error: nodes "${name}" not found`);
}
