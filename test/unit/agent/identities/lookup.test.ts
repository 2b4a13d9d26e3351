/** Which numbers an agent shows, from the objects that it watches and without any. */
import { DerivedIdentities, WatchedIdentities } from "../../../../agent/identities/lookup.ts";
import { AgentIdentities, type PolicyLabels } from "../../../../agent/identities/start.ts";
import type { StoredIdentity } from "../../../../lib/identity/identity-object.ts";
import { type LabelledPod, labelSetOf, labelsOfPod } from "../../../../lib/identity/labels.ts";
import { candidatesOf } from "../../../../lib/identity/numbers.ts";
import { decodePod } from "../../../../lib/kubernetes/objects.ts";
import type { Selection } from "../../../../lib/kubernetes/watch/kubernetes-feed.ts";
import { ApiInMemory } from "../../../support/api-in-memory.ts";

const NAMESPACES: Readonly<Record<string, Readonly<Record<string, string>>>> = { shop: { team: "blue" } };
const namespaceLabels = (name: string) => NAMESPACES[name];

const POD: LabelledPod = { namespace: "shop", labels: { app: "web" }, serviceAccountName: "cart" };
const setOf = (pod: Partial<LabelledPod> = {}) => labelSetOf(labelsOfPod({ ...POD, ...pod }, { team: "blue" }));

function stored(number: number, pod: Partial<LabelledPod> = {}, more: Partial<StoredIdentity> = {}): StoredIdentity {
  const made = { createdBy: "test", createdAt: "2030-01-01T00:00:00Z", keeper: "", uid: "u", resourceVersion: "1" };
  return { ...setOf(pod), number, state: "active", retiredAt: "", ...made, ...more };
}

/** A cache that a test fills. */
function watched(...identities: StoredIdentity[]) {
  const listeners: (() => void)[] = [];
  const list = [...identities];
  const lookup = new WatchedIdentities(
    { list: () => list, onChange: (listener) => listeners.push(() => listener({ key: "", before: undefined, after: undefined })) as never },
    namespaceLabels,
  );
  const put = (identity: StoredIdentity) => {
    list.push(identity);
    for (const listener of listeners) listener();
  };
  return { lookup, put };
}

describe("The identities that the controller has written", () => {
  it("give a pod its number as soon as there is one, and 0 until then", () => {
    const { lookup, put } = watched(stored(70_001, { labels: { app: "db" } }));
    expect(lookup.ofPod(POD)).toEqual({ number: 0, labels: setOf().labels });
    put(stored(70_000));
    expect(lookup.ofPod(POD)).toEqual({ number: 70_000, labels: setOf().labels });
    put(stored(70_002, {}, { state: "retired" }));
    expect(lookup.ofPod(POD)?.number).toBe(70_000);
  });

  it("say nothing of a pod whose namespace is not known", () => {
    expect(watched().lookup.ofPod({ ...POD, namespace: "other" })).toBeUndefined();
  });

  it("tell a peer's number without its account, unless accounts make two", () => {
    const { lookup, put } = watched(stored(70_000));
    const { serviceAccountName: _, ...peer } = POD;
    expect(lookup.ofPeer(peer)).toBe(70_000);
    expect(lookup.ofPeer({ ...peer, labels: { app: "db" } })).toBe(0);
    expect(lookup.ofPeer({ ...peer, namespace: "other" })).toBe(0);
    put(stored(70_002, {}, { state: "retired" }));
    expect(lookup.ofPeer(peer)).toBe(70_000);
    put(stored(70_001, { serviceAccountName: "other" }));
    expect(lookup.ofPeer(peer)).toBe(0);
  });

  it("are listed by their numbers, and the reserved ones can be had without an object", () => {
    const { lookup } = watched(stored(100_000, { labels: { app: "db" } }), stored(70_000, {}, { state: "retired" }));
    expect(lookup.list().map(({ number, state }) => [number, state])).toEqual([
      [70_000, "retired"],
      [100_000, "active"],
    ]);
    expect(lookup.get(70_000)).toEqual({ number: 70_000, labels: setOf().labels, state: "retired", createdAt: "2030-01-01T00:00:00Z" });
    expect(lookup.get(1)).toEqual({ number: 1, labels: ["reserved:host"], state: "reserved", createdAt: "" });
    expect([lookup.get(0), lookup.get(7), lookup.get(70_001)]).toEqual([undefined, undefined, undefined]);
  });
});

describe.each([
  ["written", new WatchedIdentities({ list: () => [stored(70_000)], onChange: () => () => undefined }, namespaceLabels), 70_000],
  ["derived", new DerivedIdentities(namespaceLabels, true), candidatesOf(setOf().key)[0]],
])("Identities that are %s", (_how, lookup, number) => {
  it("I1: answer for any set of labels, for a reserved one without an object", () => {
    const host = { source: "reserved", key: "host", value: "" };
    const labels = labelsOfPod(POD, { team: "blue" });
    expect([[host], labels, [...labels, host]].map((set) => lookup.identityOf(set))).toEqual([1, number, 1]);
  });
});

describe("Identities that a node derives by itself", () => {
  it("are the controller's numbers, as long as no other set of the node has them", () => {
    const lookup = new DerivedIdentities(namespaceLabels, true);
    const [first] = candidatesOf(setOf().key);
    expect(lookup.list()).toEqual([]);
    expect(lookup.ofPod(POD)).toMatchObject({ number: first, labels: setOf().labels });
    expect(lookup.ofPod({ ...POD, labels: { app: "web", "pod-template-hash": "1" } })?.number).toBe(first);
    expect(lookup.ofPod({ ...POD, labels: { app: "db" } })?.number).not.toBe(first);
    expect(lookup.list().map(({ state }) => state)).toEqual(["derived", "derived"]);
    expect(lookup.get(first ?? 0)).toMatchObject({ labels: setOf().labels });
    expect([lookup.get(6)?.labels, lookup.ofPeer(POD), lookup.ofPod({ ...POD, namespace: "other" })]).toEqual([
      ["reserved:remote-node"],
      0,
      undefined,
    ]);
  });

  it("are known of peers where pods have no accounts", () => {
    const lookup = new DerivedIdentities(namespaceLabels, false);
    const { serviceAccountName: _, ...peer } = POD;
    expect(lookup.ofPeer(peer)).toBe(lookup.ofPod({ ...peer, serviceAccountName: "" })?.number ?? -1);
    expect(lookup.ofPeer({ ...peer, namespace: "other" })).toBe(0);
  });

  it("I4: pass by a number that another set of the node has", () => {
    const lookup = new DerivedIdentities(namespaceLabels, true);
    // Two sets whose rows begin at the same number; found by trying.
    const [one, two] = ["a1865", "a6422"].map((app) => lookup.ofPod({ ...POD, labels: { app } })?.number ?? 0);
    expect(two).toBe((one ?? 0) + 1);
  });
});

describe("The identity of an endpoint", () => {
  const api = new ApiInMemory();
  api.put("/api/v1/namespaces/shop", { metadata: { labels: { team: "blue" } } });
  api.put("/api/v1/namespaces/shop/pods/web", { metadata: { uid: "u1", labels: POD.labels }, spec: { serviceAccountName: "cart" } });
  const { key, labels } = setOf();
  api.put("/apis/tortie.dev/v1alpha1/tortieidentities/70000", { spec: { key, labels, state: "active" } });
  const watched: string[] = [];
  const informers = {
    watch<T>(selection: Selection<T>) {
      watched.push(selection.name);
      return api.watch(selection);
    },
  };
  const pods = api.watch({ name: "pods", path: "/api/v1/pods", decode: decodePod });
  const identities = (isDatastore: boolean, isShown = true) => new AgentIdentities({ informers, pods, isDatastore }, isShown);
  const policy: PolicyLabels = { ofNamespace: namespaceLabels, ofOwnPod: (pod) => (pod === "shop/web" ? { app: "local" } : undefined) };
  const web = { pod: "shop/web", podUID: "u1" };
  beforeEach(() => {
    watched.length = 0;
  });

  it("is that of its pod, of the pod with the endpoint's UID only", () => {
    const found = identities(true);
    expect(found.ofEndpoint(web)).toEqual({ number: 70_000, labels });
    expect(found.ofEndpoint({ pod: "shop/web", podUID: "u2" })).toBeUndefined();
    expect(found.ofEndpoint({ pod: "shop/db", podUID: "u1" })).toBeUndefined();
    expect(found.ofEndpoint({ pod: undefined, podUID: undefined })).toBeUndefined();
  });

  it("is looked at when somebody asks, and where something shows it", async () => {
    const shown = identities(true);
    expect(watched).toEqual([]);
    expect((await shown.ready())?.get(70_000)).toBeDefined();
    shown.ofEndpoint(web);
    expect(watched).toEqual(["tortieidentities", "labels of namespaces"]);
    const hidden = identities(true, false);
    expect([await hidden.ready(), hidden.ofEndpoint(web), hidden.ofPeer({ ...POD, name: "web" })]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(watched).toHaveLength(2);
  });

  it("is known where policy is on, which has the namespaces already, until it is off", () => {
    const found = identities(true, false);
    found.join(policy);
    expect(found.ofEndpoint(web)?.number).toBe(70_000);
    expect(found.ofPeer({ ...POD, name: "elsewhere" })).toBe(70_000);
    expect(found.ofPeer({ ...POD, name: "web", labels: {} })).toBe(70_000);
    expect(found.ofPeer({ ...POD, name: "elsewhere", labels: {} })).toBeUndefined();
    expect(watched).toEqual(["tortieidentities"]);
    found.join(undefined);
    expect(found.ofEndpoint(web)).toBeUndefined();
  });

  it("is derived where etcd is the datastore, and without an API server from what the runtime said", () => {
    expect(identities(false).ofEndpoint(web)?.number).toBe(candidatesOf(key)[0]);
    const local = new AgentIdentities(undefined, true);
    expect(local.ofEndpoint(web)).toBeUndefined();
    local.join(policy);
    const own = setOf({ labels: { app: "local" }, serviceAccountName: "" });
    expect(local.ofEndpoint(web)).toMatchObject({ number: candidatesOf(own.key)[0], labels: own.labels });
    expect(local.ofEndpoint({ pod: "shop/db", podUID: undefined })).toBeUndefined();
  });
});
