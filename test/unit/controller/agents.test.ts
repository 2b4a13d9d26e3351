/** What becomes of the condition NetworkUnavailable of a node, by what is known of its agent. */
import { agentsCheck } from "../../../controller/health.ts";
import { conditionPatch, judgeAgent, type NodeAgent } from "../../../controller/judge/agents.ts";
import { decodePodView, type NodeView } from "../../../controller/view/cluster-view.ts";

const LINUX = { "kubernetes.io/os": "linux" };
const READY = agentPod("True");
const BROKEN = agentPod("False");
const NO_CONDITION = undefined;

function agentPod(status: string) {
  const metadata = { namespace: "kube-system", name: "tortie-node-x", uid: "u" };
  return decodePodView({ metadata, spec: { nodeName: "n" }, status: { conditions: [{ type: "Ready", status }] } });
}

function judged(reason: string | undefined, facts: Partial<NodeAgent>, node: Partial<NodeView> = {}) {
  const network = reason === undefined ? undefined : { reason };
  const rest = { labels: LINUX, resourceVersion: "7", isReady: true, ranges: [], addresses: [] };
  return judgeAgent({ node: { ...rest, network, ...node }, pods: [], isAwayLong: true, isCalicoThere: false, ...facts });
}

describe("the condition of a node", () => {
  it.each<readonly [string, string | undefined, Partial<NodeAgent>, ReturnType<typeof judgeAgent>]>([
    ["is made when its agent is ready for the first time", NO_CONDITION, { pods: [READY] }, "up"],
    ["is not made while its first agent is not ready", NO_CONDITION, { pods: [BROKEN] }, undefined],
    ["stays while the agent is ready", "TortieIsUp", { pods: [READY] }, undefined],
    ["stays while one of two agents is ready, as in a roll-out", "TortieIsUp", { pods: [BROKEN, READY] }, undefined],
    ["stays within the grace period", "TortieIsUp", { pods: [BROKEN], isAwayLong: false }, undefined],
    ["turns when the agent is not ready", "TortieIsUp", { pods: [BROKEN] }, "down"],
    ["turns when the agent's pod is gone", "TortieIsUp", { pods: [] }, "down"],
    ["stays turned", "TortieIsDown", { pods: [BROKEN] }, undefined],
    ["turns back", "TortieIsDown", { pods: [READY] }, "up"],
    ["turns when a DaemonSet means the node", "TortieIsUp", { sets: [{ nodeSelector: LINUX }] }, "down"],
    ["goes when no DaemonSet means the node", "TortieIsDown", { sets: [{ nodeSelector: { a: "b" } }] }, "gone"],
    ["goes when there is no DaemonSet", "TortieIsUp", { sets: [] }, "gone"],
    ["of a cloud provider stays", "RouteCreated", { pods: [READY] }, undefined],
    ["of a cloud provider stays without an agent", "NoRouteCreated", {}, undefined],
    ["of calico-node stays while that is there", "CalicoIsDown", { pods: [READY], isCalicoThere: true }, undefined],
    ["that a former calico-node has left is taken over", "CalicoIsDown", { pods: [READY] }, "up"],
    ["that a former calico-node has left stays without an agent", "CalicoIsUp", {}, undefined],
  ])("%s", (_, reason, facts, verdict) => {
    expect(judged(reason, facts)).toBe(verdict);
  });

  it("stays while the node's kubelet is silent, and turns back even then", () => {
    expect(judged("TortieIsUp", { pods: [BROKEN] }, { isReady: false })).toBeUndefined();
    expect(judged("TortieIsDown", { pods: [READY] }, { isReady: false })).toBe("up");
  });
});

describe("the patch", () => {
  const NOW = "2030-01-01T00:00:00Z";

  it("names one condition, and the version of the node that was judged", () => {
    expect(conditionPatch("down", "7", NOW)).toMatchObject({
      metadata: { resourceVersion: "7" },
      status: { conditions: [{ type: "NetworkUnavailable", status: "True", reason: "TortieIsDown", lastTransitionTime: NOW }] },
    });
    expect(conditionPatch("up", "7", NOW)).toMatchObject({ status: { conditions: [{ status: "False", reason: "TortieIsUp" }] } });
  });

  it("removes the condition by its type", () => {
    expect(conditionPatch("gone", "7", NOW)).toMatchObject({ status: { conditions: [{ type: "NetworkUnavailable", $patch: "delete" }] } });
  });
});

it("the health names the nodes that new pods are kept from", () => {
  expect(agentsCheck(() => []).look()).toMatchObject({ state: "ok" });
  expect(agentsCheck(() => ["n1"]).look()).toMatchObject({ state: "warning", message: expect.stringContaining("n1") });
});
