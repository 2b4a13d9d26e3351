/** The agent's connection to a cluster of tests, or to a fault proxy before one. */

import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { ApiConnection, type OnAnswer } from "../../../lib/kubernetes/client/connection.ts";
import { resolveApiConfig } from "../../../lib/kubernetes/config/resolve.ts";
import type { Identity } from "../../support/kubernetes/test-cluster.ts";

interface Reachable {
  kubeconfigFor(identity: Identity): Promise<string>;
}

export async function openConnection(
  reachable: Reachable,
  identity: Identity = "admin",
  onAnswer?: OnAnswer,
): Promise<ApiConnection & Disposable> {
  const kubernetes = { kubeconfig: await reachable.kubeconfigFor(identity) };
  const config = resolveApiConfig(decodeNetworkConfig({ name: "net1", datastore_type: "kubernetes", kubernetes }), {});
  const connection = new ApiConnection(config, onAnswer);
  return Object.assign(connection, { [Symbol.dispose]: () => connection.close() });
}
