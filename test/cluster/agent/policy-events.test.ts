/**
 * What an agent says of policy on a real API server, with its own account: events at pods and policies, and when the kernel holds what
 * somebody has just changed.
 */
import { Agent } from "../../support/agent.ts";
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR } from "../../support/node.ts";

const cluster = shared(startCluster);
const POLICIES = `/apis/networking.k8s.io/v1/namespaces/${NAMESPACE}/networkpolicies`;
const KNOCK = `import socket,sys
s = socket.socket(); s.settimeout(0.1)
try: s.connect((sys.argv[1], 8081))
except OSError: pass`;

interface Event {
  readonly reason: string;
  readonly message: string;
  readonly type: string;
  readonly involvedObject: { readonly kind: string; readonly name: string; readonly uid: string };
}

interface World extends AsyncDisposable {
  readonly agent: Agent;
  policy(name: string, spec: object): Promise<void>;
  remove(name: string): Promise<void>;
  tortie(...argv: string[]): ReturnType<ApiServerNode["node"]["run"]>;
  /** Tries to connect from pod a to pod b. */
  knock(): Promise<void>;
  events(): Promise<readonly Event[]>;
}

/** An agent with policy, and pods a and b of its node. */
async function start(): Promise<World> {
  const stack = new AsyncDisposableStack();
  const world = stack.use(await ApiServerNode.create(cluster));
  await world.pool("pool4", "10.69.0.0/24");
  // Kubelet does this, or kube-proxy.
  await world.node.run(["/bin/sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"]);
  // A host answers for 169.254.1.1 only where it has a route there.
  await world.node.ip("route", "add", "default", "dev", "lo");
  const args = ["--datastore-type", "kubernetes", "--kubeconfig", await cluster.kubeconfigFor("agent")];
  const agent = stack.use(await Agent.start(world.node, { args }));
  const addresses: string[] = [];
  for (const name of ["a", "b"]) {
    await world.pod(name, { labels: { app: name } });
    const { ips } = await world.add({ pod: name, container: `c-${name}`, sandbox: await world.sandbox(name), conf: agent.netconf });
    addresses.push(ips[0]?.address.split("/")[0] ?? "");
  }
  const made = stack.move();
  return {
    agent,
    async policy(name, spec) {
      const object = { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata: { name, namespace: NAMESPACE }, spec };
      expect((await cluster.api("POST", POLICIES, object)).status).toBe(201);
    },
    async remove(name) {
      await cluster.api("DELETE", `${POLICIES}/${name}`);
    },
    tortie: (...argv) => world.node.run([`${BIN_DIR}/tortiectl`, "policy", ...argv, "--socket", agent.socket]),
    async knock() {
      await world.node.run(["/usr/bin/python3", "-c", KNOCK, addresses[1] ?? ""], {}, await world.sandbox("a"));
    },
    async events() {
      const { body } = await cluster.api("GET", `/api/v1/namespaces/${NAMESPACE}/events`);
      return (body as { readonly items: readonly Event[] }).items;
    },
    async [Symbol.asyncDispose]() {
      for (const name of ["close", "late"]) await cluster.api("DELETE", `${POLICIES}/${name}`);
      await made.disposeAsync();
    },
  };
}

describe("An agent that enforces policy", () => {
  it("tells of drops by one event at the pod, however many there are", async () => {
    await using world = await start();
    await world.policy("close", { podSelector: { matchLabels: { app: "b" } }, policyTypes: ["Ingress"] });
    expect(await world.tortie("wait")).toMatchObject({ exit: 0, stderr: "" });
    for (let i = 0; i < 5; i++) await world.knock();
    await until("an event", async () => (await world.events()).length > 0);
    await world.knock();
    const uid = (await cluster.get("v1", "pods", "b", NAMESPACE))?.metadata.uid;
    expect(await world.events()).toEqual([
      expect.objectContaining({
        type: "Warning",
        reason: "NetworkPolicyDrop",
        message: expect.stringMatching(/^TCP port 8081 from test\/a \(10\.69\.0\.\d+\) was dropped: .*test\/close/),
        involvedObject: expect.objectContaining({ kind: "Pod", name: "b", uid }),
      }),
    ]);
    expect((await world.agent.request("GET", "/healthz")).text).not.toContain("may not create and patch events");
  }, 120_000);

  it("waits for what was changed a moment ago, and says when it is gone", async () => {
    await using world = await start();
    for (let round = 0; round < 5; round++) {
      await world.policy("late", { podSelector: {}, policyTypes: ["Ingress"] });
      expect(await world.tortie("wait")).toMatchObject({ exit: 0, stderr: "" });
      expect((await world.tortie("explain", "test/a", "test/b", "8081")).exit).toBe(1);
      expect(await world.tortie("wait", "--policy", "test/late")).toMatchObject({ exit: 0, stderr: "" });
      await world.remove("late");
      expect(await world.tortie("wait")).toMatchObject({ exit: 0, stderr: "" });
      expect((await world.tortie("explain", "test/a", "test/b", "8081")).exit).toBe(0);
    }
    expect((await world.tortie("wait", "--policy", "test/late")).stderr).toContain("policy-unknown");
  }, 120_000);
});
