/** Which numbers an agent shows, from the objects that it watches and without any. */
import { WatchedIdentities } from "../../../../agent/policy/identities/lookup.ts";
import { AgentIdentities, type PolicyLabels } from "../../../../agent/policy/identities/start.ts";
import { IDENTITIES, IDENTITY_PATH, type StoredIdentity } from "../../../../lib/identity/identity-object.ts";
import { type LabelledPod, labelSetOf, labelsOfPod } from "../../../../lib/identity/labels.ts";
import { decodePod } from "../../../../lib/kubernetes/objects.ts";
import type { Selection } from "../../../../lib/kubernetes/watch/kubernetes-feed.ts";
import type { ResourceCache } from "../../../../lib/kubernetes/watch/resource-cache.ts";
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

describe("Identities", () => {
  it("I1: answer for any set of labels, for a reserved one without an object", () => {
    const { lookup } = watched(stored(70_000));
    const host = { source: "reserved", key: "host", value: "" };
    const labels = labelsOfPod(POD, { team: "blue" });
    expect([[host], labels, [...labels, host]].map((set) => lookup.identityOf(set))).toEqual([1, 70_000, 1]);
  });
});

/** A cache that has just these. */
function cacheOf(...identities: StoredIdentity[]): ResourceCache<StoredIdentity> {
  const api = new ApiInMemory();
  for (const { number, key, labels } of identities) api.put(`${IDENTITY_PATH}/${number}`, { spec: { key, labels } });
  return api.watch(IDENTITIES);
}

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

  it("is the agents' own where etcd is the datastore, and without an API server from what the runtime said", () => {
    const own = setOf({ labels: { app: "local" }, serviceAccountName: "" });
    const cache = cacheOf(stored(70_001), stored(70_002, { labels: { app: "local" }, serviceAccountName: "" }));
    const shared = new AgentIdentities({ informers, pods, isDatastore: false }, true, { cache });
    expect(shared.ofEndpoint(web)?.number).toBe(70_001);
    expect(shared.ownSets([web, { pod: "shop/db", podUID: "u1" }])).toEqual({ used: new Map([[key, { key, labels }]]), isWhole: true });
    const local = new AgentIdentities(undefined, false, { cache });
    expect(local.ofEndpoint(web)).toBeUndefined();
    local.join(policy);
    expect(local.ofEndpoint(web)).toEqual({ number: 70_002, labels: own.labels });
    expect(local.ofEndpoint({ pod: "shop/db", podUID: undefined })).toBeUndefined();
    expect([...local.ownSets([web]).used.keys()]).toEqual([own.key]);
    local.join({ ...policy, ofNamespace: () => undefined });
    expect(local.ownSets([web])).toEqual({ used: new Map(), isWhole: false });
  });
});
