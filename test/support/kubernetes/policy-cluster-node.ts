/** A node of a real API server with an agent that enforces its policies, and pods with probers in them. */
import type { Agent } from "../agent.ts";
import { BIN_DIR, type RunResult } from "../node.ts";
import { placeOf } from "../policy-agent.ts";
import { Dialogue, type Place } from "../policy-node.ts";
import { ApiServerNode, type PodCall } from "./api-server-node.ts";
import type { TestCluster } from "./test-cluster.ts";

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
  /** `tortiectl policy` of the agent. */
  tortiectl(...argv: readonly string[]): Promise<RunResult>;
  wait(policy?: string): Promise<RunResult>;
}

export async function createPolicyClusterNode(cluster: TestCluster, args: readonly string[] = []): Promise<PolicyClusterNode> {
  const stack = new AsyncDisposableStack();
  const api = stack.use(await ApiServerNode.create(cluster, { pools: ["10.71.0.0/24"] }));
  await api.node.run(["/bin/sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
  // Proxy ARP answers for the pods' gateway where a route leads to it.
  for (const command of ["link add up0 type veth peer name up1", "link set up0 up", "link set up1 up", "route add default dev up0"]) {
    await api.node.ip(...command.split(" "));
  }
  const agent = stack.use(await api.startAgent(args));
  const attach = async (name: string) => {
    const call = { ...(await api.callOf(name)), conf: agent.netconf };
    const result = await api.add(call);
    const prober = stack.use(new Dialogue(api.node.commandLine(["/usr/bin/python3", "test/support/programs/prober.py"], {}, call.sandbox)));
    await prober.ask("serve", { protocol: "tcp", port: 80 });
    return { pod: call.sandbox, prober, call, ...placeOf({ interfaces: [...result.interfaces], ips: [...result.ips] }) };
  };
  const tortiectl = (...argv: readonly string[]) => api.node.run([`${BIN_DIR}/tortiectl`, "policy", ...argv, "--socket", agent.socket]);
  return {
    api,
    agent,
    attach,
    tortiectl,
    async pod(name, labels, node) {
      await api.pod(name, { labels, ...(node === undefined ? {} : { node }) });
      return attach(name);
    },
    wait: (policy) => tortiectl("wait", ...(policy === undefined ? [] : ["--policy", policy])),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
