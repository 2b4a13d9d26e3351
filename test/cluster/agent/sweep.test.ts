/**
 * The sweep of an agent that has just started, with the pods of a real API server: those that went meanwhile, and a server that cannot be
 * believed (A§7.3, A§8.1). Its minutes are the test's.
 */

import { clusterOf } from "../../../agent/start/context.ts";
import { resolveOptions } from "../../../agent/start/options.ts";
import { AddressSweep } from "../../../agent/sweep/addresses.ts";
import { sweptPods, witnessPods } from "../../../agent/sweep/start.ts";
import { Sweep } from "../../../agent/sweep/sweep.ts";
import type { EndpointRecord } from "../../../handover/record.ts";
import { parseAddress } from "../../../lib/addresses/address.ts";
import { recordOf } from "../../support/endpoint-record.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { fresh, shared } from "../../support/fixtures.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";

const NAMESPACE = "test";
const NODE = "node1";
const MINUTE_MS = 60_000;
/** A runtime has ten minutes for its DEL; this is longer. */
const MANY_MINUTES = 15;
const NEVER = new AbortController().signal;

const cluster = shared(startCluster);
beforeEach(async () => {
  await cluster.reset();
  await cluster.setReady(true);
  await cluster.createNamespace(NAMESPACE);
  await cluster.createNode(NODE);
});
const proxy = fresh(() => cluster.proxy());

/** An endpoint whose link stands, of the pod of this name and UID. */
function endpointOf(id: number, pod: string, podUID: string): EndpointRecord {
  return recordOf(id, { pod: `${NAMESPACE}/${pod}`, podUID, linkForm: "attached" });
}

const createPod = async (name: string) =>
  (await cluster.createPod(name, { namespace: NAMESPACE, serviceAccountName: "default" })).metadata.uid;

/** @returns the ids of the endpoints that a fresh agent removes, after each of so many minutes */
async function removedBy(records: readonly EndpointRecord[], waitsForList: boolean): Promise<number[][]> {
  const flags = { "datastore-type": "kubernetes", kubeconfig: await proxy.kubeconfigFor("agent") };
  await using own = clusterOf({ options: resolveOptions(flags, {}, undefined), env: {}, node: NODE, log: { error: () => undefined } });
  if (own === undefined) throw new Error("the options name no API server");
  const pods = sweptPods(own);
  if (waitsForList) await until("the list of pods", () => pods.isComplete);
  else await until("a list that failed", () => own.pods.state.problem !== undefined);
  const clock = new FakeClock();
  const removed: number[] = [];
  const sweep = new Sweep({
    clock,
    isRestored: () => true,
    node: NODE,
    records: () => records.filter(({ id }) => !removed.includes(id)),
    links: () => [],
    dataplane: { list: async () => [], remove: async () => ({}) },
    isLeftToPlugins: () => false,
    pods,
    takeOver: async () => {},
    remove: async ({ id }) => void removed.push(id),
    onFound: () => undefined,
  });
  const afterEach: number[][] = [];
  for (let minute = 0; minute <= MANY_MINUTES; minute++) {
    // A server that answers with an error fails the look; the next one begins again.
    await sweep.run(NEVER).catch(() => undefined);
    afterEach.push([...removed]);
    await clock.advance(MINUTE_MS);
  }
  return afterEach;
}

describe("the sweep of an agent that has just started", () => {
  it("A-R05: removes the endpoint of a pod that went meanwhile, not at the first look", async () => {
    const [kept, gone] = [await createPod("kept"), await createPod("gone")];
    await cluster.remove("v1", "pods", "gone", NAMESPACE);
    const removed = await removedBy([endpointOf(1, "kept", kept), endpointOf(2, "gone", gone)], true);
    expect(removed.slice(0, 2)).toEqual([[], []]);
    expect(removed.at(-1)).toEqual([2]);
  });

  it("A-R06: removes the endpoint of a pod that was made anew under its name, and leaves the new one's alone", async () => {
    const old = await createPod("web");
    await cluster.remove("v1", "pods", "web", NAMESPACE);
    const present = await createPod("web");
    expect(present).not.toBe(old);
    expect((await removedBy([endpointOf(1, "web", old), endpointOf(2, "web", present)], true)).at(-1)).toEqual([1]);
  });

  it.each([500, 403])("A-R07: removes nothing while the server answers %i", async (status) => {
    const uid = await createPod("web");
    await cluster.remove("v1", "pods", "web", NAMESPACE);
    proxy.on({ path: "/pods", times: Infinity }, { kind: "answer", status, message: "made by the test" });
    expect((await removedBy([endpointOf(1, "web", uid)], false)).at(-1)).toEqual([]);
  });

  it("A-R07: removes nothing when the pod cannot be asked for alone, or the list is empty by mistake", async () => {
    const uid = await createPod("web");
    const list = { path: /^\/api\/v1\/pods\?(?!.*watch=)/, times: Infinity };
    proxy.on(list, { kind: "mix-up", path: "/api/v1/pods?fieldSelector=spec.nodeName%3Dnobody" });
    expect((await removedBy([endpointOf(1, "web", uid)], true)).at(-1)).toEqual([]);
    expect(proxy.requests.some(({ path }) => path.endsWith("/namespaces/test/pods/web"))).toBe(true);

    await cluster.remove("v1", "pods", "web", NAMESPACE);
    proxy.on({ path: "/namespaces/test/pods/web", times: Infinity }, { kind: "answer", status: 500, message: "made by the test" });
    expect((await removedBy([endpointOf(1, "web", uid)], true)).at(-1)).toEqual([]);
  });
});

const ADDRESS = parseAddress("10.60.0.1") ?? { family: 4, value: 0n };

/** @returns whether the address of a container of pod `web`, of which only the pod's own words are left, is released in many minutes */
async function isReleased(waitsForList = true): Promise<boolean> {
  const flags = { "datastore-type": "kubernetes", kubeconfig: await proxy.kubeconfigFor("agent") };
  await using own = clusterOf({ options: resolveOptions(flags, {}, undefined), env: {}, node: NODE, log: { error: () => undefined } });
  if (own === undefined) throw new Error("the options name no API server");
  const pods = witnessPods(own);
  if (waitsForList) await until("the list of pods", () => pods.isComplete);
  else await until("a list that failed", () => own.pods.state.problem !== undefined);
  const clock = new FakeClock();
  let isFree = false;
  const release = async () => {
    isFree = true;
    return true;
  };
  const holder = { network: "net1", containerId: "c1", ifname: "eth0", pod: `${NAMESPACE}/web`, addresses: [ADDRESS] };
  const sweep = new AddressSweep({
    clock,
    isRestored: () => true,
    store: { kind: "grant-without-endpoint", list: async () => (isFree ? [] : [{ key: "one", sinceMs: 0, ...holder, release }]) },
    witnesses: { records: () => [], links: () => [], pods },
    tryLock: () => ({ [Symbol.dispose]: () => undefined }),
    onReleased: () => undefined,
    onUnread: () => undefined,
  });
  for (let minute = 0; minute <= MANY_MINUTES; minute++) {
    await sweep.run(NEVER).catch(() => undefined);
    await clock.advance(MINUTE_MS);
  }
  return isFree;
}

describe("the sweep of addresses in a cluster", () => {
  const pod = (name: string, annotation: string) =>
    cluster.createPod(name, {
      namespace: NAMESPACE,
      serviceAccountName: "default",
      annotations: { "cni.projectcalico.org/podIPs": annotation },
    });

  it("releases the address of a pod that is gone, or has another one by now", async () => {
    expect(await isReleased()).toBe(true);
    await pod("web", "10.60.0.2/32");
    expect(await isReleased()).toBe(true);
  });

  it("S10: keeps one that its own pod names, and that of a pod that has named none, whatever annotations of others say", async () => {
    await pod("another", "10.60.0.2/32,10.60.0.1/32");
    expect(await isReleased()).toBe(true);
    await pod("web", "10.60.0.2/32,10.60.0.1/32");
    expect(await isReleased()).toBe(false);
    await cluster.remove("v1", "pods", "web", NAMESPACE);
    await pod("web", "");
    expect(await isReleased()).toBe(false);
  });

  it.each([500, 403])("keeps every one while the server answers %i", async (status) => {
    proxy.on({ path: "/pods", times: Infinity }, { kind: "answer", status, message: "made by the test" });
    expect(await isReleased(false)).toBe(false);
  });

  it("keeps it while the pod cannot be asked for alone", async () => {
    proxy.on({ path: "/namespaces/test/pods/web", times: Infinity }, { kind: "answer", status: 500, message: "made by the test" });
    expect(await isReleased()).toBe(false);
  });
});
