/** Stores with the addresses of many containers, filled through the allocator as ADDs fill them, and read back as plain values. */
import { Allocator } from "../../../ipam-plugin/allocator/allocator.ts";
import { systemClock } from "../../../ipam-plugin/host.ts";
import { formatPrefix, hostPrefix } from "../../../lib/addresses/address.ts";
import type { Datastore } from "../../../lib/datastore/datastore.ts";
import type { WorkloadEndpoint } from "../../../lib/workload/endpoint.ts";
import { buildEndpoint } from "../../../lib/workload/endpoint.ts";
import { samplePool } from "../../support/samples.ts";

export const NODES = ["node0", "node1", "node2", "node3", "node4"];
const POOLS = { four: "10.64.0.0/16", six: "fd80:64::/112" };

export function podName(number: number): string {
  return `web-${number}`;
}

export function nodeOf(number: number): string {
  return NODES[number % NODES.length] ?? "node0";
}

/** One IPv4 address for each pod, and an IPv6 address for every tenth. */
export async function fill(store: Datastore, count: number): Promise<void> {
  await store.pools.create("four", samplePool("four", POOLS.four, { natOutgoing: true }));
  await store.pools.create("six", samplePool("six", POOLS.six));
  await store.reservations.create("kept", { name: "kept", reservedCIDRs: ["10.64.0.0/30"] });
  await store.ipamConfiguration.create("default", {
    strictAffinity: false,
    autoAllocateBlocks: true,
    maxBlocksPerHost: 0,
    kubeVirtVMAddressPersistence: "Enabled",
    ipCooldownSeconds: 300,
  });
  for (let number = 0; number < count; number++) await addPod(store, number);
  // An address in cooldown, and a number in the middle that is free.
  await removePod(store, 3);
}

async function addPod(store: Datastore, number: number): Promise<void> {
  const allocator = new Allocator({ datastore: store, clock: systemClock });
  const [node, pod, containerId] = [nodeOf(number), podName(number), `c${number}`];
  const timestamp = `${new Date().toISOString().replace("T", " ").replace("Z", "")} +0000 UTC`;
  const { ipv4, ipv6 } = await allocator.autoAssign({
    count4: 1,
    count6: number % 10 === 0 ? 1 : 0,
    handle: `net1.${containerId}`,
    attributes: { node, pod, namespace: "default", timestamp },
    owner: { type: "host", name: node },
    use: "Workload",
  });
  const addresses = [ipv4, ipv6].flatMap((family) => family?.addresses ?? []).map(({ prefix }) => formatPrefix(hostPrefix(prefix.address)));
  if (addresses.length === 0) throw new Error(`no address for pod ${number}: ${String(ipv4?.error)}`);
  const identity = { orchestrator: "k8s", node, namespace: "default", pod, containerId, endpoint: "eth0" } as const;
  const facts = { network: "net1", policyType: "k8s", addresses, hostInterface: `cali${number}`, mac: "ee:ee:ee:ee:ee:ee" };
  const endpoint = buildEndpoint({ identity, ...facts });
  await store.endpoints.create({ namespace: endpoint.namespace, name: endpoint.name }, endpoint);
}

export async function removePod(store: Datastore, number: number): Promise<void> {
  await forgetPod(store, number);
  await new Allocator({ datastore: store, clock: systemClock }).releaseByHandle(`net1.c${number}`);
}

/** Removes the endpoint and leaves the address: an ADD that is not over looks like this. */
export async function forgetPod(store: Datastore, number: number): Promise<WorkloadEndpoint> {
  const key = { namespace: "default", name: `${nodeOf(number)}-k8s-${podName(number).replaceAll("-", "--")}-eth0` };
  const there = await store.endpoints.get(key);
  if (there === undefined) throw new Error(`no endpoint ${key.name}`);
  await store.endpoints.delete(key, there.revision);
  return there.value;
}

/** Every value that decides about addresses, as text without revisions. */
export async function ipamValues(store: Datastore): Promise<readonly string[]> {
  const values = [
    ...(await store.pools.list()),
    ...(await store.reservations.list()),
    ...(await store.blocks.list()),
    ...(await store.affinities.listAll()),
    ...(await store.handles.list()),
    (await store.ipamConfiguration.get("default")) ?? [],
  ].flat();
  return values.map(({ value }) => textOf({ ...value })).sort();
}

export async function endpointValues(store: Datastore): Promise<readonly string[]> {
  return (await store.endpoints.list()).map(({ value }) => textOf(value)).sort();
}

/** Who has which addresses. */
export async function recordValues(store: Datastore): Promise<readonly string[]> {
  const endpoints = (await store.endpoints.list()).filter(({ value }) => value.containerID !== "");
  return endpoints.map(({ value }) => `${value.namespace}/${value.name} ${value.containerID} ${value.ipNetworks.join(",")}`).sort();
}

/** Writes members in the order of their names, since an API server sorts them; those that are absent or `undefined` are the same. */
function textOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(textOf).join()}]`;
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  members.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${name}:${textOf(member)}`).join()}}`;
}
