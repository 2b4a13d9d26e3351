/** The CustomResourceDefinitions of manifests/: they take what Calico's programs write (I§2), and refuse what nobody could read. */
import { shared } from "../../support/fixtures.ts";
import { AFFINITY_LABELS, BLOCK_SPEC, CONFIGURATION, POOL_SPEC } from "../../support/kubernetes/calico-examples.ts";
import { ipamConfigurationOf, kindOf, pathOf } from "../../support/kubernetes/resources.ts";
import { type CalicoGroup, type Fields, LEGACY, startCluster, V3 } from "../../support/kubernetes/test-cluster.ts";

const cluster = shared(startCluster);
beforeEach(() => cluster.reset());

const KINDS = ["IPPool", "IPAMBlock", "BlockAffinity", "IPAMHandle", "IPReservation", "ClusterInformation"];
const pluralOf = (apiVersion: CalicoGroup, kind: string) => kindOf({ apiVersion, kind }).plural;

/** The server's verdict, without storing anything. */
async function verdict(group: CalicoGroup, kind: string, spec: Fields, metadata: Fields = { name: "default" }): Promise<string> {
  const path = `${pathOf(group, pluralOf(group, kind))}?dryRun=All&fieldValidation=Strict`;
  const answer = await cluster.api("POST", path, { apiVersion: group, kind, metadata, spec });
  return answer.status === 201 ? "accepted" : String(answer.status);
}

const POOL = { ...POOL_SPEC, vxlanMode: "CrossSubnet" };
const BLOCK = BLOCK_SPEC;
const HANDLE = { handleID: "k8s-pod-network.7f3c9d0e5b1a", block: { "10.40.0.8/29": 1 }, deleted: false };
const RESERVATION = { reservedCIDRs: ["10.40.0.1/32", "10.40.0.240/28"] };
const READY = { clusterGUID: "4d1b7c", clusterType: "k8s,kdd", calicoVersion: "v3.31.0", datastoreReady: true };

/** Its `deleted` is the one thing that differs in type between the groups (I§2.3). */
function affinity(group: CalicoGroup): Fields {
  return { state: "confirmed", node: "worker-1", type: "host", cidr: "10.40.0.8/29", deleted: group === LEGACY ? "false" : false };
}

function without(spec: Fields, key: string): Fields {
  return Object.fromEntries(Object.entries(spec).filter(([name]) => name !== key));
}

const configurationKind = (group: CalicoGroup) => ipamConfigurationOf(group).kind;

describe.each([LEGACY, V3] as const)("the definitions of %s", (group) => {
  it.each([
    ["IPPool", POOL],
    ["IPAMBlock", BLOCK],
    ["IPAMHandle", HANDLE],
    [configurationKind(group), CONFIGURATION],
    ["IPReservation", RESERVATION],
    ["ClusterInformation", READY],
    ["BlockAffinity", affinity(group)],
  ] as const)("store the example %s unchanged", async (kind, spec) => {
    await cluster.apply({ apiVersion: group, kind, metadata: { name: "example" }, spec });
    expect((await cluster.get(group, pluralOf(group, kind), "example"))?.spec).toEqual(spec);
  });

  it("keep the labels that affinities are found by", async () => {
    const labels = AFFINITY_LABELS;
    await cluster.apply({ apiVersion: group, kind: "BlockAffinity", metadata: { name: "a", labels }, spec: affinity(group) });
    const selector = encodeURIComponent(
      Object.entries(labels)
        .map((pair) => pair.join("="))
        .join(","),
    );
    const { body } = await cluster.api("GET", `${pathOf(group, "blockaffinities")}?labelSelector=${selector}`);
    expect(body).toMatchObject({ items: [{ metadata: { name: "a", labels } }] });
  });

  it.each([
    ["a block that no node owns", "IPAMBlock", without(without(BLOCK, "affinity"), "affinityClaimTime")],
    ["a block of the load balancer", "IPAMBlock", { ...BLOCK, affinity: "virtual:load-balancer" }],
    ["a block of IPv6", "IPAMBlock", { ...BLOCK, cidr: "fd80:24e2:f998:72d6::/122" }],
    ["a block without sequence number", "IPAMBlock", without(without(BLOCK, "sequenceNumber"), "sequenceNumberForAllocation")],
    ["a block marked deleted", "IPAMBlock", { ...BLOCK, deleted: true }],
    [
      "an address kept for a machine that moves",
      "IPAMBlock",
      { ...BLOCK, attributes: [{ handle_id: "h", alternateOwnerAttrs: { pod: "p" } }] },
    ],
    ["an affinity from before there were states", "BlockAffinity", { ...affinity(group), state: "" }],
    ["an affinity from before there were types", "BlockAffinity", without(affinity(group), "type")],
    ["an affinity of the load balancer", "BlockAffinity", { ...affinity(group), node: "load-balancer", type: "virtual" }],
    ["a handle that holds nothing", "IPAMHandle", { ...HANDLE, block: {} }],
    ["the largest configuration", configurationKind(group), { ...CONFIGURATION, maxBlocksPerHost: 1_000_000, ipCooldownSeconds: 1200 }],
    ["a configuration of the two old fields", configurationKind(group), { strictAffinity: true, autoAllocateBlocks: true }],
    ["the smallest pool", "IPPool", { cidr: "fd00::/48" }],
    ["a pool of load balancers", "IPPool", { ...POOL, allowedUses: ["LoadBalancer"], assignmentMode: "Manual", disableBGPExport: true }],
    ["reservations that readers skip", "IPReservation", { reservedCIDRs: ["nonsense", " 10.0.0.1"] }],
    ["a cluster that never said it was ready", "ClusterInformation", { clusterGUID: "4d1b7c" }],
    ["a cluster whose readiness is null", "ClusterInformation", { datastoreReady: null }],
    ["a field of a later release", "IPPool", { ...POOL, laterField: { any: "thing" } }],
  ] as const)("accept %s", async (_what, kind, spec) => {
    expect(await verdict(group, kind, spec)).toBe("accepted");
  });

  it.each([
    ["a block without CIDR", "IPAMBlock", without(BLOCK, "cidr")],
    ["a block without allocations", "IPAMBlock", without(BLOCK, "allocations")],
    ["a block without free ordinals", "IPAMBlock", without(BLOCK, "unallocated")],
    ["a block without attributes", "IPAMBlock", without(BLOCK, "attributes")],
    ["a block without strictAffinity", "IPAMBlock", without(BLOCK, "strictAffinity")],
    ["a block whose free ordinals are null", "IPAMBlock", { ...BLOCK, unallocated: null }],
    ["a free ordinal that is null", "IPAMBlock", { ...BLOCK, unallocated: [null] }],
    ["an allocation that is text", "IPAMBlock", { ...BLOCK, allocations: ["0"] }],
    ["a negative allocation", "IPAMBlock", { ...BLOCK, allocations: [-1] }],
    ["a block of no CIDR", "IPAMBlock", { ...BLOCK, cidr: "10.40.0.8" }],
    ["a block marked deleted by text", "IPAMBlock", { ...BLOCK, deleted: "true" }],
    ["a sequence number beyond 64 bits", "IPAMBlock", { ...BLOCK, sequenceNumber: 2n ** 64n }],
    ["an attribute that is no text", "IPAMBlock", { ...BLOCK, attributes: [{ secondary: { pod: 1 } }] }],
    ["a time that is none", "IPAMBlock", { ...BLOCK, affinityClaimTime: "yesterday" }],
    ["an affinity in an unknown state", "BlockAffinity", { ...affinity(group), state: "claimed" }],
    ["an affinity without node", "BlockAffinity", without(affinity(group), "node")],
    ["an affinity of an unknown type", "BlockAffinity", { ...affinity(group), type: "rack" }],
    ["a handle without id", "IPAMHandle", without(HANDLE, "handleID")],
    ["a handle without blocks", "IPAMHandle", without(HANDLE, "block")],
    ["a handle that counts with text", "IPAMHandle", { ...HANDLE, block: { "10.40.0.8/29": "1" } }],
    ["a configuration without strictAffinity", configurationKind(group), without(CONFIGURATION, "strictAffinity")],
    ["a configuration without autoAllocateBlocks", configurationKind(group), without(CONFIGURATION, "autoAllocateBlocks")],
    ["a cooldown of more than 20 minutes", configurationKind(group), { ...CONFIGURATION, ipCooldownSeconds: 1201 }],
    ["fewer than no blocks a node", configurationKind(group), { ...CONFIGURATION, maxBlocksPerHost: -1 }],
    ["an unknown persistence", configurationKind(group), { ...CONFIGURATION, kubeVirtVMAddressPersistence: "enabled" }],
    ["a pool without CIDR", "IPPool", without(POOL, "cidr")],
    ["a block size that is text", "IPPool", { ...POOL, blockSize: "29" }],
    ["an unknown way of assigning", "IPPool", { ...POOL, assignmentMode: "Sometimes" }],
    ["reservations that are one text", "IPReservation", { reservedCIDRs: "10.40.0.1/32" }],
    ["a readiness that is text", "ClusterInformation", { datastoreReady: "true" }],
  ] as const)("refuse %s", async (_what, kind, spec) => {
    expect(await verdict(group, kind, spec)).toBe("422");
  });

  it("refuse an object without spec", async () => {
    for (const kind of [...KINDS, configurationKind(group)]) {
      const object = { apiVersion: group, kind, metadata: { name: "default" } };
      const answer = await cluster.api("POST", `${pathOf(group, pluralOf(group, kind))}?dryRun=All`, object);
      expect(`${kind} ${answer.status}`).toBe(`${kind} 422`);
    }
  });
});

describe("the mark of a deleted affinity", () => {
  it.each([
    [LEGACY, "true", "accepted"],
    [LEGACY, true, "422"],
    [LEGACY, "yes", "422"],
    [V3, true, "accepted"],
    [V3, "true", "422"],
  ] as const)("in %s the value %p is judged so: %s", async (group, deleted, expected) => {
    expect(await verdict(group, "BlockAffinity", { ...affinity(group), deleted })).toBe(expected);
  });

  it("must be there in crd.projectcalico.org, and is filled in by projectcalico.org", async () => {
    expect(await verdict(LEGACY, "BlockAffinity", without(affinity(LEGACY), "deleted"))).toBe("422");
    await cluster.apply({ apiVersion: V3, kind: "BlockAffinity", metadata: { name: "a" }, spec: without(affinity(V3), "deleted") });
    expect((await cluster.get(V3, "blockaffinities", "a"))?.spec).toEqual(affinity(V3));
  });
});

describe("what only projectcalico.org/v3 refuses", () => {
  it.each([
    ["IPPool", { ...POOL, cidr: "nonsense" }],
    ["IPPool", { ...POOL, vxlanMode: "Sometimes" }],
    ["IPPool", { ...POOL, allowedUses: ["Lunch"] }],
    ["IPAMBlock", { ...BLOCK, affinity: "worker-1" }],
  ] as const)("%s %#", async (kind, spec) => {
    expect([await verdict(LEGACY, kind, spec), await verdict(V3, kind, spec)]).toEqual(["accepted", "422"]);
  });

  it("more than a million blocks a node", async () => {
    const spec = { ...CONFIGURATION, maxBlocksPerHost: 2_147_483_647 };
    expect([await verdict(LEGACY, "IPAMConfig", spec), await verdict(V3, "IPAMConfiguration", spec)]).toEqual(["accepted", "422"]);
  });

  it("another CIDR or block size for a pool that is there", async () => {
    const put = (spec: Fields) => cluster.apply({ apiVersion: V3, kind: "IPPool", metadata: { name: "p" }, spec });
    for (const changes of [{ cidr: "10.41.0.0/24" }, { blockSize: 28 }]) {
      await put(POOL);
      await expect(put({ ...POOL, ...changes })).rejects.toThrow("cannot be changed");
    }
  });

  it("a status that comes with the pool itself", async () => {
    const status = { conditions: [{ type: "Allocatable", status: "False" }] };
    for (const apiVersion of [LEGACY, V3]) {
      await cluster.api("POST", pathOf(apiVersion, "ippools"), { apiVersion, kind: "IPPool", metadata: { name: "p" }, spec: POOL, status });
    }
    expect((await cluster.get(LEGACY, "ippools", "p"))?.status).toEqual(status);
    expect((await cluster.get(V3, "ippools", "p"))?.status).toBeUndefined();
  });
});
