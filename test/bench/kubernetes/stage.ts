/** The cluster that is measured in, its node and pods, and the calls that a runtime would make for them. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LEGACY, startCluster, type TestCluster } from "../../support/kubernetes/test-cluster.ts";
import type { Call, Contender } from "../contender.ts";

const NAMESPACE = "default";

export interface Stage extends AsyncDisposable {
  readonly cluster: TestCluster;
  /** Names of network namespaces, one a pod. */
  readonly sandboxes: readonly string[];
  /** The plugin on one node of the cluster, with the kubeconfig of this file. @param bin the folder of its executables */
  plugin(node: string, kubeconfig: string, bin: string): Contender;
  /** Calico's, the same way. @param bin the folder of `calico` and `calico-ipam` */
  calico(node: string, kubeconfig: string, bin: string): Contender;
  /** One operation of the pod with this number: its ADD and DEL share a container id as long as the round is the same. */
  call(command: "ADD" | "DEL", pod: number, round: string): Call;
}

/** A cluster with one pool of 1024 addresses, as many pods as asked for on `node`, and one pod on each other node. */
export async function setUpStage(
  node: string,
  pods: number,
  ...others: readonly { readonly node: string; readonly pod: string }[]
): Promise<Stage> {
  const cluster = await startCluster();
  const directory = mkdtempSync(join(tmpdir(), "tortie-bench-"));
  const sandboxes = Array.from({ length: pods }, (_, i) => `bench-${process.pid}-${i}`);
  await cluster.setReady(true);
  await cluster.createPool("bench", { cidr: "10.99.0.0/22" });
  await Promise.all([node, ...others.map((other) => other.node)].map((name) => cluster.createNode(name)));
  await Promise.all(sandboxes.map((_, i) => cluster.createPod(`pod-${i}`, { node })));
  await Promise.all(others.map((other) => cluster.createPod(other.pod, { node: other.node })));
  for (const name of sandboxes) execFileSync("ip", ["netns", "add", name]);
  return {
    cluster,
    sandboxes,
    plugin: (name, kubeconfig, bin) => contender(directory, "tortie", { node: name, kubeconfig, bin }),
    calico: (name, kubeconfig, bin) => contender(directory, "calico", { node: name, kubeconfig, bin }),
    call: (command, pod, round) => callFor(command, `pod-${pod}`, `${round}-${pod}`, sandboxes[pod] ?? ""),
    // The network namespaces are the sandbox's (scripts/sandbox), and end with it.
    async [Symbol.asyncDispose]() {
      rmSync(directory, { recursive: true, force: true });
      await cluster[Symbol.asyncDispose]();
    },
  };
}

export function callFor(command: "ADD" | "DEL", pod: string, containerId: string, sandbox: string): Call {
  const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=${NAMESPACE};K8S_POD_NAME=${pod};K8S_POD_INFRA_CONTAINER_ID=${containerId}`;
  return { command, containerId, netns: `/run/netns/${sandbox}`, args };
}

interface Installed {
  readonly node: string;
  readonly kubeconfig: string;
  /** The folder of its executables. */
  readonly bin: string;
}

/** The configuration that Calico's installer writes (C§9.4), with the API group said. */
function contender(directory: string, type: "tortie" | "calico", { node, kubeconfig, bin }: Installed): Contender {
  const nodenameFile = join(directory, `nodename-${node}`);
  writeFileSync(nodenameFile, node);
  return {
    name: type,
    executable: join(bin, type),
    path: bin,
    netconf: JSON.stringify({
      cniVersion: "1.0.0",
      name: "k8s-pod-network",
      type,
      datastore_type: "kubernetes",
      calico_api_group: LEGACY,
      nodename: node,
      nodename_file: nodenameFile,
      ipam_lock_file: join(directory, `ipam-${node}.lock`),
      mtu: 1450,
      ipam: { type: `${type}-ipam` },
      policy: { type: "k8s" },
      kubernetes: { kubeconfig },
    }),
  };
}
