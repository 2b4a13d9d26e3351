/**
 * Rights against the audit log of a real API server, over the life of a pod: what the programs ask for with their own accounts is granted,
 * and what is granted outside of Calico's groups is asked for, or stands here with its reason. In Calico's groups the rights are one rule,
 * which is Calico's own (C§8.2).
 */
import { Agent } from "../../support/agent.ts";
import { startCluster, type TestCluster } from "../../support/kubernetes/cluster.ts";
import { agentAccess, pluginAccess } from "../../support/kubernetes/manifests.ts";
import { NAMESPACE, PodNode } from "../../support/kubernetes/pod-node.ts";
import { granted, usedBy } from "../../support/kubernetes/rights.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster[Symbol.asyncDispose]());

const OUTSIDE_OF_CALICO = /^(|tortie\.dev|kubevirt\.io)$/;

describe("the plugins' account", () => {
  it("has every right that the life of pods needs, and outside of Calico's groups needs what it has", async () => {
    await using node = await PodNode.create(cluster);
    await node.pool("pool4", "10.60.0.0/26");
    const since = await cluster.mark();
    await node.pod("pod");
    await node.add();
    await node.del();

    const { used, refused } = await usedBy(cluster, "calico-cni-plugin", since);

    expect(refused).toEqual([]);
    const rights = granted(pluginAccess());
    expect([...used].filter((right) => !rights.has(right))).toEqual([]);
    // KubeVirt's pods, which this one is not, need the rest.
    expect([...granted(pluginAccess(), OUTSIDE_OF_CALICO)].filter((right) => !used.has(right))).toEqual([
      "get virtualmachineinstances",
      "get virtualmachines",
    ]);
  });
});

/** What the agent may do and this pod does not always need. */
const ELSEWHERE = new Set([
  // In place of a watch that has no answer yet, and for calls whose network configuration brings no kubeconfig of its own.
  "get pods",
  "get nodes",
  "get namespaces",
  "patch pods/status",
  // Host scope, and --node-routes.
  "patch nodes",
  "patch nodes/status",
  // An object that is there already, or changes.
  "get tortieendpoints",
  "patch tortieendpoints",
  "patch tortieendpoints/status",
  // KubeVirt.
  "get virtualmachineinstances",
  "get virtualmachines",
]);

describe("the agent's account", () => {
  it("has every right that the life of pods needs, and lists and watches what it may", async () => {
    await using node = await PodNode.create(cluster);
    await node.pool("pool4", "10.60.0.0/26");
    const since = await cluster.mark();
    await node.pod("pod");
    const args = ["--datastore-type", "kubernetes", "--kubeconfig", await cluster.kubeconfigFor("agent"), "--endpoint-objects"];
    await using agent = await Agent.start(node.node, { args });
    await node.add({ conf: agent.netconf });
    const object = () => cluster.get("tortie.dev/v1alpha1", "tortieendpoints", "pod", NAMESPACE);
    await agent.until("the object", async () => (await object()) !== undefined);
    await node.del({ conf: agent.netconf });
    await agent.until("the end of the object", async () => (await object()) === undefined);
    // A watch is in the audit log when it ends.
    await agent.stop();

    const { used, refused } = await usedBy(cluster, "tortie-node", since);

    expect(refused).toEqual([]);
    const rights = granted(agentAccess());
    expect([...used].filter((right) => !rights.has(right))).toEqual([]);
    const idle = [...granted(agentAccess(), OUTSIDE_OF_CALICO)].filter((right) => !used.has(right));
    expect(idle.filter((right) => !ELSEWHERE.has(right))).toEqual([]);
  });
});
