import { conditionOf, isInside, usageOf, withCondition } from "../../../controller/duties/pools.ts";
import { departedNodes, judgeAllocations, mayStillUse, type Verdict } from "../../../controller/judge/allocations.ts";
import type { PodView } from "../../../controller/view/cluster-view.ts";
import { placedBlocks } from "../../../doctor/snapshot.ts";
import type { Block } from "../../../lib/datastore/resources.ts";
import { Claimed } from "../../../lib/system/claimed.ts";
import { address } from "../../support/addresses.ts";
import { heldBlock } from "../../support/samples.ts";

const ADDRESS_KEY = `4:${10n * 2n ** 24n}`;
const POD: PodView = {
  namespace: "ns",
  name: "web",
  uid: "u",
  node: "there",
  isReady: true,
  isFinished: false,
  addresses: [ADDRESS_KEY],
  annotated: new Claimed([]),
  isWhole: true,
  containerId: "c",
  isAnnotated: true,
  isKubeControllers: false,
  labels: {},
  serviceAccountName: "",
  isHostNetwork: false,
};
const OWNER = { node: "there", namespace: "ns", pod: "web" };
/** Without a status, and with an annotation that names the address. */
const CLAIMANT: PodView = { ...POD, addresses: [], annotated: new Claimed([ADDRESS_KEY]) };

function blockOf(owner: Record<string, string>, handleId = "net1.c", alternateOwner?: Record<string, string>): Block {
  const handle = handleId === "" ? {} : { handleId };
  return heldBlock("10.0.0.0/32", [{ ...handle, activeOwner: owner, ...(alternateOwner === undefined ? {} : { alternateOwner }) }]);
}

function verdict(
  owner: Record<string, string>,
  pods: readonly PodView[],
  handleId?: string,
  alternateOwner?: Record<string, string>,
): Verdict | undefined {
  const value = blockOf(owner, handleId, alternateOwner);
  const holders = {
    nodes: new Set(["there"]),
    pods,
    pod: (namespace: string, name: string) => pods.find((pod) => pod.namespace === namespace && pod.name === name),
  };
  return judgeAllocations(placedBlocks([{ value, revision: "r" }]), holders)[0]?.verdict;
}

describe("the judgement of an allocation", () => {
  const cases: readonly [string, Verdict, Record<string, string>, readonly PodView[], string?][] = [
    ["its pod has the address", "valid", OWNER, [POD]],
    ["its pod has named no address yet", "valid", OWNER, [{ ...POD, addresses: [] }]],
    ["its pod is on no node yet", "valid", OWNER, [{ ...POD, addresses: [], node: "" }]],
    ["its pod has other addresses", "leaked", OWNER, [{ ...POD, addresses: ["4:1"] }]],
    ["its pod is on another node without an address", "leaked", OWNER, [{ ...POD, addresses: [], node: "other" }]],
    ["its pod has ended", "leaked", OWNER, [{ ...POD, isFinished: true }]],
    ["there is no such pod", "leaked", OWNER, []],
    ["another pod has the address", "valid", OWNER, [{ ...POD, name: "other" }]],
    ["the node is gone", "departed", { ...OWNER, node: "gone" }, []],
    ["the node is gone, and a pod has the address", "valid", { ...OWNER, node: "gone" }, [POD]],
    ["a tunnel of a node that exists", "valid", { node: "there", type: "ipipTunnelAddress" }, []],
    ["a tunnel of a node that is gone", "departed", { node: "gone", type: "ipipTunnelAddress" }, []],
    ["a load balancer's", "unjudged", { node: "gone", type: "LoadBalancer" }, []],
    ["a container of a node that exists", "unjudged", { node: "there" }, []],
    ["G15: a container without a pod of a node that is gone", "unjudged", { node: "gone" }, []],
    ["G15: a purpose that is not known of a node that is gone", "unjudged", { node: "gone", type: "somethingElse" }, []],
    ["no node", "unjudged", { namespace: "ns", pod: "web" }, []],
    ["no handle", "unjudged", { ...OWNER, node: "gone" }, [], ""],
    ["Windows' own", "unjudged", { ...OWNER, node: "gone" }, [], "windows-reserved-ipam-handle"],
  ];
  for (const [title, expected, owner, pods, handle] of cases) {
    it(`${title}: ${expected}`, () => {
      expect(verdict(owner, pods, handle)).toBe(expected);
    });
  }
});

describe("S10: what a pod's annotations say of an address", () => {
  it.each<readonly [string, Verdict, Record<string, string>, readonly PodView[]]>([
    ["that was given to that pod counts", "valid", OWNER, [CLAIMANT]],
    ["that was given to it on a node that is gone counts", "valid", { ...OWNER, node: "gone" }, [CLAIMANT]],
    ["that was given to a pod of the same name elsewhere does not", "leaked", OWNER, [{ ...CLAIMANT, namespace: "tenant" }]],
    ["that was given to another pod of its node does not", "leaked", OWNER, [{ ...CLAIMANT, name: "greedy" }]],
    ["that was given to a pod of a node that is gone does not", "departed", { ...OWNER, node: "gone" }, [{ ...CLAIMANT, name: "greedy" }]],
    ["that was given to nobody by name counts on its own node", "valid", { node: "there" }, [CLAIMANT]],
    ["that was given to nobody by name does not on another node", "departed", { node: "gone", type: "vxlanTunnelAddress" }, [CLAIMANT]],
  ])("%s: %s", (_, expected, owner, pods) => {
    expect(verdict(owner, pods)).toBe(expected);
  });

  it("counts for the pod that a virtual machine moves to", () => {
    const target = { node: "other", namespace: "ns", pod: "target" };
    const pods = [{ ...CLAIMANT, name: "target", node: "other" }];
    expect(verdict(OWNER, pods, undefined, target)).toBe("valid");
    expect(verdict(OWNER, pods)).toBe("leaked");
  });

  it("does not outweigh a status of any pod", () => {
    expect(verdict(OWNER, [{ ...POD, namespace: "tenant", node: "other" }])).toBe("valid");
  });
});

describe("the last look at a pod before its address is released", () => {
  const owner = { namespace: "ns", name: "web", node: "there" };
  it.each([
    ["its annotations name the address", CLAIMANT, true],
    ["its annotations name another address", { ...CLAIMANT, annotated: new Claimed(["4:1"]) }, false],
    ["S11: its annotations were not read to their end", { ...POD, addresses: ["4:1"], isWhole: false }, true],
    ["it is not the pod that the address was given to", { ...CLAIMANT, name: "other" }, false],
    ["it has the address, on whatever node", { ...POD, node: "other" }, true],
    ["it has named no address yet", { ...POD, addresses: [] }, true],
    ["it has another address", { ...POD, addresses: ["4:1"] }, false],
    ["it has ended", { ...POD, isFinished: true }, false],
    ["there is none", undefined, false],
  ])("%s: %p may use it: %p", (_, pod, expected) => {
    expect(mayStillUse(pod, owner, address("10.0.0.0"))).toBe(expected);
  });
});

describe("the nodes that are gone", () => {
  it("are those that own a block or have an address, and do not exist", () => {
    const blocks = placedBlocks([{ value: blockOf({ node: "gone", type: "ipipTunnelAddress" }), revision: "r" }]);
    const holders = { nodes: new Set(["there"]), pods: [], pod: () => undefined };
    const judged = judgeAllocations(blocks, holders);
    expect(departedNodes(judged, ["there", "owner"], holders.nodes)).toEqual(new Set(["owner", "gone"]));
    expect(departedNodes(judgeAllocations(placedBlocks([{ value: blockOf({}), revision: "r" }]), holders), [], holders.nodes)).toEqual(
      new Set(),
    );
  });
});

describe("the condition of a pool", () => {
  it.each([
    [0n, "True", "Available"],
    [230n, "True", "Available"],
    [231n, "True", "NearlyFull"],
    [256n, "False", "Full"],
  ] as const)("with %s of 256 in use is %s, %s", (inUse, status, reason) => {
    expect(conditionOf({ size: 256n, inUse })).toMatchObject({ status, reason });
  });

  it("counts the addresses of the blocks inside the pool, and nothing of a pool whose CIDR cannot be read", () => {
    const blocks = [{ value: blockOf({}), revision: "r" }];
    expect(usageOf({ cidr: "10.0.0.3/30", blockSize: 30 }, blocks)).toMatchObject({ size: 4n, inUse: 1n });
    expect(usageOf({ cidr: "10.1.0.0/30", blockSize: 30 }, blocks)).toMatchObject({ size: 4n, inUse: 0n });
    expect(usageOf({ cidr: "nonsense", blockSize: 30 }, blocks)).toBeUndefined();
    expect(["10.0.0.3/30", "10.1.0.0/30", "nonsense"].map((cidr) => isInside({ cidr }, "10.0.0.0/32"))).toEqual([true, false, false]);
  });

  it("says that blocks have another size than the pool's, and what to do", () => {
    const usage = usageOf({ cidr: "10.0.0.0/26", blockSize: 28 }, [{ value: blockOf({}), revision: "r" }]);
    expect(usage && conditionOf(usage).message).toMatch(
      /^0 % or more of 64 addresses are in use; blockSize is 28, but 1 of 1 block have another: 1 of \/\d+; .*; next: tortiectl ipam check$/,
    );
  });

  it("is written when it changes, keeps its time while the status stays, and leaves others alone", () => {
    const other = { type: "Allocatable", status: "True" };
    const first = withCondition([other], conditionOf({ size: 256n, inUse: 0n }), "t1") ?? [];
    expect(first).toEqual([other, expect.objectContaining({ lastTransitionTime: "t1" })]);
    expect(withCondition(first, conditionOf({ size: 256n, inUse: 20n }), "t2")).toBeUndefined();
    const second = withCondition(first, conditionOf({ size: 256n, inUse: 100n }), "t2") ?? [];
    expect(second[1]).toMatchObject({ lastTransitionTime: "t1" });
    expect(withCondition(second, conditionOf({ size: 256n, inUse: 256n }), "t3")?.[1]).toMatchObject({ lastTransitionTime: "t3" });
  });
});
