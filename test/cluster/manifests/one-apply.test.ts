/**
 * manifests/tortie.yaml in a cluster that somebody has just made: one `kubectl apply` at the first try, then the controller of the file's
 * own Deployment, with its account, makes what the network begins with.
 */
import { execFileSync } from "node:child_process";
import { join, resolve } from "node:path";
import { readDocuments } from "../../../scripts/manifests/kustomization.ts";
import { shared } from "../../support/fixtures.ts";
import { connectNode } from "../../support/kubernetes/connect-node.ts";
import { memberAt } from "../../support/kubernetes/json.ts";
import { endProcess, startProcess } from "../../support/kubernetes/process.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR } from "../../support/node.ts";
import { PageHost } from "../../support/page-host.ts";

const LIMIT_MS = 120_000;
const APPLY = "kubectl apply --server-side -f manifests/tortie.yaml";

const cluster = shared(() => startCluster({ isBare: true }));
const host = shared(() => {
  const programs = execFileSync("bash", [resolve("scripts/cluster-servers"), "control-plane"], { encoding: "utf8" }).trim();
  return PageHost.create({ kubeconfig: cluster.adminKubeconfig, programs: [programs] });
});
beforeAll(() => connectNode(host.node, cluster));

/** The arguments that the Deployment of the file gives its program. */
function argumentsOfController(): readonly string[] {
  const deployment = readDocuments(resolve("manifests/tortie.yaml")).find(({ kind }) => kind === "Deployment");
  const args = memberAt(deployment, "spec", "template", "spec", "containers", "0", "args");
  if (!Array.isArray(args)) throw new Error("the Deployment gives no arguments");
  return args.map(String);
}

it("one apply succeeds at the first try, and the controller makes ClusterInformation and the pool of kubeadm's range", async () => {
  const data = { ClusterConfiguration: "networking:\n  podSubnet: 10.244.0.0/16\n" };
  await cluster.apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "kubeadm-config", namespace: "kube-system" }, data });
  await cluster.createNode("node1");

  expect(await host.run(APPLY)).toContain("deployment.apps/tortie-controller serverside-applied");

  const flags = ["--kubeconfig", await cluster.kubeconfigFor("controller"), "--health-port=0", "--lease-duration=3"];
  const program = [join(BIN_DIR, "tortie-controller"), ...argumentsOfController(), ...flags];
  const controller = startProcess(program, join(cluster.dir, "controller.log"));
  try {
    await until("the pool", async () => (await host.run("kubectl get ippools -o name")) !== "", LIMIT_MS);
  } finally {
    await endProcess(controller);
  }
  expect(await host.run("kubectl get ippools -o jsonpath='{.items[*].spec.cidr}'")).toBe("10.244.0.0/16");
  expect(await host.run("kubectl get clusterinformations default -o jsonpath='{.spec.datastoreReady}'")).toBe("true");
});

it("the same apply again changes nothing that the administrator has changed of the pool", async () => {
  await host.run(`kubectl patch ippools default-ipv4 --type merge -p '{"spec":{"natOutgoing":false}}'`);
  await host.run(APPLY);
  expect(await host.run("kubectl get ippools default-ipv4 -o jsonpath='{.spec.natOutgoing}'")).toBe("false");
});
