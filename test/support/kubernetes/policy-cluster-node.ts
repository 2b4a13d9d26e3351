/** A node of a real API server with an agent that enforces its policies, and pods with probers in them. */
import { Agent } from "../agent.ts";
import { BIN_DIR } from "../node.ts";
import { placeOf } from "../policy-agent.ts";
import { Dialogue, type Place } from "../policy-node.ts";
import { ApiServerNode, NAMESPACE, type PodCall } from "./api-server-node.ts";
import type { TestCluster } from "./test-cluster.ts";

export const POLICIES = `/apis/networking.k8s.io/v1/namespaces/${NAMESPACE}/networkpolicies`;

export interface PolicyClusterPod extends Place {
  readonly call: PodCall;
  readonly hostInterface: string;
}

export interface PolicyClusterNode extends AsyncDisposable {
  readonly api: ApiServerNode;
  readonly agent: Agent;
  /** @param node that it is bound to, if that is another one */
  pod(name: string, labels: Readonly<Record<string, string>>, node?: string): Promise<PolicyClusterPod>;
  /** Attaches a pod whose object is there. */
  attach(name: string): Promise<PolicyClusterPod>;
  wait(policy?: string): Promise<{ readonly exit: number | null; readonly stdout: string; readonly stderr: string }>;
}

export async function createPolicyClusterNode(cluster: TestCluster, args: readonly string[] = []): Promise<PolicyClusterNode> {
  const stack = new AsyncDisposableStack();
  const api = stack.use(await ApiServerNode.create(cluster));
  await api.pool("pool4", "10.71.0.0/24");
  await api.node.run(["/bin/sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
  // Proxy ARP answers for the pods' gateway where a route leads to it.
  for (const command of ["link add up0 type veth peer name up1", "link set up0 up", "link set up1 up", "route add default dev up0"]) {
    await api.node.ip(...command.split(" "));
  }
  const kubeconfig = await cluster.kubeconfigFor("agent");
  const agent = stack.use(await Agent.start(api.node, { args: ["--datastore-type", "kubernetes", "--kubeconfig", kubeconfig, ...args] }));
  const attach = async (name: string) => {
    const sandbox = await api.sandbox(name);
    const call = { pod: name, container: `c-${name}`, sandbox, conf: agent.netconf };
    const result = await api.add(call);
    const prober = stack.use(new Dialogue(api.node.commandLine(["/usr/bin/python3", "test/support/programs/prober.py"], {}, sandbox)));
    await prober.ask("serve", { protocol: "tcp", port: 80 });
    return { pod: sandbox, prober, call, ...placeOf({ interfaces: [...result.interfaces], ips: [...result.ips] }) };
  };
  return {
    api,
    agent,
    attach,
    async pod(name, labels, node) {
      await api.pod(name, { labels, ...(node === undefined ? {} : { node }) });
      return attach(name);
    },
    wait: (policy) =>
      api.node.run([
        `${BIN_DIR}/tortiectl`,
        "policy",
        "wait",
        ...(policy === undefined ? [] : ["--policy", policy]),
        "--socket",
        agent.socket,
      ]),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** A NetworkPolicy of the tests' namespace. */
export const apiPolicy = (name: string, spec: object) => ({
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name, namespace: NAMESPACE },
  spec,
});
