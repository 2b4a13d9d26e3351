/** What a new cluster gets: Calico's and KubeVirt's definitions, the plugins' account with its role, and the accounts of the tests. */
import { join } from "node:path";
import { writeKubeconfig } from "./credentials.ts";
import {
  agentAccess,
  calicoDefinitions,
  controllerAccess,
  installAccess,
  kubevirtDefinitions,
  newClusterAccess,
  ownDefinitions,
  pluginAccess,
} from "./manifests.ts";
import { type ApiObject, calicoPlurals, KUBEVIRT_KINDS, LEGACY, OWN_KINDS, pathOf } from "./resources.ts";
import type { TestCluster } from "./test-cluster.ts";
import { until } from "./until.ts";

/**
 * Who a kubeconfig speaks for: somebody who may do everything, the plugins' service account with exactly the role of
 * manifests/plugins/rbac.yaml, the agent and the controller with exactly those of manifests/node/rbac.yaml and manifests/controller/rbac.yaml, or somebody who may do
 * nothing.
 */
export type Identity = "admin" | "agent" | "cni" | "controller" | "stranger";

/** Names of their service accounts in kube-system. */
export const ACCOUNTS: Readonly<Record<Identity, string>> = {
  admin: "test-admin",
  agent: "tortie-node",
  cni: "calico-cni-plugin",
  controller: "tortie-controller",
  stranger: "test-stranger",
};

const TEST_ACCESS: readonly ApiObject[] = [
  ...[ACCOUNTS.admin, ACCOUNTS.stranger].map((name) => ({
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name, namespace: "kube-system" },
  })),
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name: ACCOUNTS.admin },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "ServiceAccount", name: ACCOUNTS.admin, namespace: "kube-system" }],
  },
];

/** Only the administrator's kubeconfig, and what the API server makes by itself. */
export async function leaveBare(cluster: TestCluster): Promise<void> {
  const administrator = { certificate: join(cluster.dir, "admin.crt"), key: join(cluster.dir, "admin.key") };
  writeKubeconfig(cluster.adminKubeconfig, cluster.server, cluster.caPath, administrator);
  await until("namespace kube-system", async () => (await cluster.get("v1", "namespaces", "kube-system")) !== undefined);
}

/** Puts everything in place and waits until it has effect. */
export async function install(cluster: TestCluster): Promise<void> {
  await leaveBare(cluster);
  const objects = [
    ...cluster.groups.flatMap(calicoDefinitions),
    ...kubevirtDefinitions(),
    ...ownDefinitions(),
    ...pluginAccess(),
    ...agentAccess(),
    ...installAccess(),
    ...controllerAccess(),
    ...newClusterAccess(),
    ...TEST_ACCESS,
  ];
  await Promise.all(objects.map((object) => cluster.apply(object)));
  await answersForEveryKind(cluster);
  // The authorizer learns of a role a moment after it was stored.
  const probe = pathOf(cluster.groups[0] ?? LEGACY, "clusterinformations", "default");
  for (const identity of ["cni", "agent", "controller"] as const) {
    const token = await cluster.tokenFor(identity);
    await until(`the role of ${ACCOUNTS[identity]}`, async () => (await cluster.apiAs(token, "GET", probe)).status === 404);
  }
}

/** The server answers 404 for a kind it has just got, and 429 for a while after its own start. */
export async function answersForEveryKind(cluster: TestCluster): Promise<void> {
  const calico = cluster.groups.flatMap((group) => calicoPlurals(group).map((plural) => [group, plural] as const));
  await Promise.all(
    [...calico, ...KUBEVIRT_KINDS, ...OWN_KINDS].map(async ([group, plural]) => {
      const path = pathOf(group, plural);
      await until(path, async () => (await cluster.api("GET", path)).status === 200);
    }),
  );
}
