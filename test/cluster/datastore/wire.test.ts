/**
 * Compatibility by data: what Calico's components wrote is understood, and what we write is what they expect (the examples of I§2.11).
 * Both sides are plain HTTP, and the server's schemas judge every write.
 */
import type { Block } from "../../../lib/datastore/resources.ts";
import { fresh, shared } from "../../support/fixtures.ts";
import { AFFINITY_LABELS, BLOCK_SPEC, CONFIGURATION, POOL_SPEC } from "../../support/kubernetes/calico-examples.ts";
import { ipamConfigurationOf } from "../../support/kubernetes/resources.ts";
import { type CalicoGroup, type Fields, LEGACY, startCluster, V3 } from "../../support/kubernetes/test-cluster.ts";
import { sampleAffinity, samplePool } from "../../support/samples.ts";
import { openDatastoreOf } from "./open-datastore.ts";

const cluster = shared(startCluster);

const OWNER = { type: "host", name: "worker-1" } as const;

const BLOCK: Block = {
  cidr: "10.40.0.8/29",
  affinity: OWNER,
  affinityClaimTime: "2026-08-22T13:33:20Z",
  allocations: [0, 1, null, 2, null, null, null, null],
  unallocated: [4, 5, 6, 7, 2],
  attributes: [
    { handleId: "vxlan-tunnel-addr-worker-1", activeOwner: { node: "worker-1", type: "vxlanTunnelAddress" } },
    {
      handleId: "k8s-pod-network.7f3c9d0e5b1a",
      activeOwner: { node: "worker-1", namespace: "shop", pod: "cart-6d9f7-x2x8q", timestamp: "2026-08-22 13:33:24.5 +0000 UTC" },
    },
    { releasedAt: "2026-08-22T13:41:07Z" },
  ],
  sequenceNumber: 1787405600123456006n,
  sequenceNumberForAllocation: { 0: 1787405600123456000n, 1: 1787405600123456001n, 3: 1787405600123456005n },
};

const AFFINITY = sampleAffinity("worker-1", BLOCK.cidr);
const HANDLE_ID = "k8s-pod-network.7f3c9d0e5b1a";
const RESERVED = ["10.40.0.1/32", "10.40.0.240/28"];

describe.each([LEGACY, V3] as const)("objects of %s", (group: CalicoGroup) => {
  const deleted = group === LEGACY ? "false" : false;
  const { kind: configurationKind, plural: configurationPlural } = ipamConfigurationOf(group);
  const affinitySpec = { state: "confirmed", node: "worker-1", type: "host", cidr: "10.40.0.8/29", deleted };
  beforeEach(() => cluster.reset());
  const store = fresh(() => openDatastoreOf(cluster, { group }));

  const put = (kind: string, name: string, spec: Fields, more: Fields = {}) =>
    cluster.apply({ apiVersion: group, kind, metadata: { name, ...more }, spec });
  const stored = async (plural: string, name: string) => {
    const object = await cluster.get(group, plural, name);
    return { name: object?.metadata.name, labels: object?.metadata.labels, annotations: object?.metadata.annotations, spec: object?.spec };
  };
  const plain = { labels: undefined, annotations: undefined };

  it("are written as Calico writes them", async () => {
    await store.blocks.create(BLOCK.cidr, BLOCK);
    await store.affinities.create(AFFINITY, AFFINITY);
    await store.handles.create(HANDLE_ID, { id: HANDLE_ID, blocks: { "10.40.0.8/29": 1 } });
    await store.ipamConfiguration.create("default", CONFIGURATION);
    await store.reservations.create("keep-gateways", { name: "keep-gateways", reservedCIDRs: RESERVED });
    const pool = samplePool("edge-v4", "10.40.0.0/24", { blockSize: 29, nodeSelector: "zone == 'edge'" });
    await store.pools.create(pool.name, pool);

    expect(await stored("ipamblocks", "10-40-0-8-29")).toEqual({ name: "10-40-0-8-29", ...plain, spec: BLOCK_SPEC });
    expect(await stored("blockaffinities", "worker-1-10-40-0-8-29")).toEqual({
      name: "worker-1-10-40-0-8-29",
      labels: AFFINITY_LABELS,
      annotations: undefined,
      spec: affinitySpec,
    });
    const handle = { handleID: HANDLE_ID, block: { "10.40.0.8/29": 1 }, deleted: false };
    expect(await stored("ipamhandles", HANDLE_ID)).toEqual({ name: HANDLE_ID, ...plain, spec: handle });
    expect(await stored(configurationPlural, "default")).toEqual({ name: "default", ...plain, spec: CONFIGURATION });
    expect((await cluster.get(group, configurationPlural, "default"))?.kind).toBe(configurationKind);
    expect((await stored("ipreservations", "keep-gateways")).spec).toEqual({ reservedCIDRs: RESERVED });
    expect((await stored("ippools", "edge-v4")).spec).toEqual({ ...POOL_SPEC, ipipMode: "Never", vxlanMode: "Never" });
  });

  it("are understood as Calico wrote them", async () => {
    const calicos = { "projectcalico.org/metadata": "{}" };
    await put("IPAMBlock", "10-40-0-8-29", BLOCK_SPEC, { annotations: calicos });
    await put("BlockAffinity", "worker-1-10-40-0-8-29", affinitySpec, { labels: AFFINITY_LABELS });
    await put("IPAMHandle", HANDLE_ID, { handleID: HANDLE_ID, block: { "10.40.0.8/29": 1 }, deleted: false });
    await put(configurationKind, "default", CONFIGURATION);
    await put("IPReservation", "keep-gateways", { reservedCIDRs: RESERVED });
    await put("IPPool", "edge-v4", { ...POOL_SPEC, vxlanMode: "CrossSubnet" });

    expect((await store.blocks.get(BLOCK.cidr))?.value).toEqual(BLOCK);
    expect((await store.blocks.list()).map(({ value }) => value)).toEqual([BLOCK]);
    const rows = await store.affinities.listByOwner(OWNER, 4);
    expect(rows.map(({ value }) => value)).toEqual([AFFINITY]);
    expect((await store.handles.get(HANDLE_ID))?.value).toEqual({ id: HANDLE_ID, blocks: { "10.40.0.8/29": 1 } });
    expect((await store.ipamConfiguration.get("default"))?.value).toEqual(CONFIGURATION);
    expect((await store.reservations.get("keep-gateways"))?.value.reservedCIDRs).toEqual(RESERVED);
    const pool = samplePool("edge-v4", "10.40.0.0/24", { blockSize: 29, nodeSelector: "zone == 'edge'" });
    expect((await store.pools.list()).map(({ value }) => value)).toEqual([pool]);
  });

  it("keep their case in the handle's spec, and are found in any", async () => {
    await store.handles.create("Net1.C1", { id: "Net1.C1", blocks: { "10.40.0.8/29": 1 } });
    expect(await stored("ipamhandles", "net1.c1")).toMatchObject({ spec: { handleID: "Net1.C1" } });
    expect((await store.handles.get("net1.C1"))?.value.id).toBe("Net1.C1");
  });

  it("keep what others wrote on them when we update them", async () => {
    const metadata = {
      labels: { "x.org/l": "1" },
      annotations: { "x.org/a": "1", "projectcalico.org/metadata": '{"labels":{"team":"edge"}}' },
      finalizers: ["x.org/f"],
    };
    await put("BlockAffinity", "worker-1-10-40-0-8-29", { ...affinitySpec, newField: { deep: [1] } }, metadata);
    await put("IPPool", "edge-v4", { ...POOL_SPEC, vxlanMode: "CrossSubnet", disableBGPExport: true }, metadata);
    const [row] = await store.affinities.listAll();
    const pool = await store.pools.get("edge-v4");
    if (row === undefined || pool === undefined) throw new Error("nothing there");

    const updated = await store.affinities.update(row.value, { ...row.value, state: "pending" }, row.revision);
    await store.affinities.update(row.value, { ...row.value, state: "pendingDeletion" }, updated.revision);
    await store.pools.update("edge-v4", { ...pool.value, disabled: true }, pool.revision);

    const affinity = await cluster.get(group, "blockaffinities", "worker-1-10-40-0-8-29");
    expect(affinity?.metadata).toMatchObject({ ...metadata, labels: { ...metadata.labels, ...AFFINITY_LABELS } });
    expect(affinity?.spec).toEqual({ ...affinitySpec, state: "pendingDeletion", newField: { deep: [1] } });
    const after = await cluster.get(group, "ippools", "edge-v4");
    expect(after?.metadata).toMatchObject(metadata);
    expect(after?.spec).toEqual({ ...POOL_SPEC, disabled: true, vxlanMode: "CrossSubnet", disableBGPExport: true });
  });

  it("show a pool that is being deleted, and one that kube-controllers judged", async () => {
    await cluster.createPool("going", { group, cidr: "10.61.0.0/24", finalizers: ["projectcalico.org/ippool-finalizer"] });
    await cluster.api("DELETE", `/apis/${group}/ippools/going`);
    const conditions = [{ type: "Allocatable", status: "False", reason: "CIDROverlap" }];
    await cluster.createPool("overlapping", { group, cidr: "10.62.0.0/24", status: { conditions } });
    await cluster.createPool("plain", { group, cidr: "10.63.0.0/24" });
    expect((await store.pools.list()).map(({ value }) => [value.name, value.deleting, value.allocatable])).toEqual([
      ["going", true, undefined],
      ["overlapping", false, false],
      ["plain", false, undefined],
    ]);
  });

  it("are ready or not as ClusterInformation says", async () => {
    expect(await store.clusterInformation.get("default")).toBeUndefined();
    await cluster.setReady(false);
    expect((await store.clusterInformation.get("default"))?.value.datastoreReady).toBe(false);
    await cluster.setReady(true);
    expect((await store.clusterInformation.get("default"))?.value.datastoreReady).toBe(true);
  });

  it("from before there were labels are missed by the look-up, found by themselves, and labelled by the next update", async () => {
    const { type: _type, ...old } = affinitySpec;
    await put("BlockAffinity", "worker-1-10-40-0-8-29", { ...old, state: "" });
    await put(
      "BlockAffinity",
      "worker-2-10-40-0-16-29",
      { ...affinitySpec, node: "worker-2", cidr: "10.40.0.16/29" },
      { labels: AFFINITY_LABELS },
    );
    expect(await store.affinities.listByOwner(OWNER, 4)).toEqual([]);
    const [row, ...others] = await store.affinities.listUnlabelled();
    if (row === undefined) throw new Error("the row is not listed");
    expect(others).toEqual([]);
    expect(row.value).toEqual({ ...AFFINITY, labelled: false });
    expect((await store.affinities.listAll()).map(({ value }) => value.labelled)).toEqual([false, false]);

    const labelled = await store.affinities.update(row.value, row.value, row.revision);
    expect(labelled.value.labelled).toBe(true);
    expect((await store.affinities.listByOwner(OWNER, 4)).map(({ value }) => value.cidr)).toEqual([BLOCK.cidr]);
  });
});

describe("the group that nobody configured", () => {
  it("is asked for once, with the first request, and is the legacy one where both are", async () => {
    await cluster.reset();
    await cluster.createPool("a", { group: V3 });
    await using store = await openDatastoreOf(cluster);
    expect(store.description).toContain("not known yet");
    const mark = await cluster.mark();
    expect(await store.pools.list()).toEqual([]);
    await store.reservations.list();
    expect((await cluster.requests(mark)).map(({ verb, uri }) => `${verb} ${uri}`)).toEqual([
      "get /apis",
      "list /apis/crd.projectcalico.org/v1/ippools?limit=500",
      "list /apis/crd.projectcalico.org/v1/ipreservations?limit=500",
    ]);
    expect(store.description).toBe(`Kubernetes API server ${cluster.server}, group crd.projectcalico.org/v1`);
  });
});
