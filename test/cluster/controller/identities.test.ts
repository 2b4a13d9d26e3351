/** Identities on a real API server with the controller's own role: who gets a number, who loses it, and what the definition refuses. */
import { objectsOf } from "../../../controller/duties/identities.ts";
import type { ClusterView } from "../../../controller/view/cluster-view.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { IDENTITY_PATH, IDENTITY_PLURAL, IdentityIndex, type IdentityStore, newIdentity } from "../../../lib/identity/identity-object.ts";
import { ensureIdentity } from "../../../lib/identity/identity-writer.ts";
import { type LabelSet, labelSetOf, labelsOfPod } from "../../../lib/identity/labels.ts";
import { candidatesOf } from "../../../lib/identity/numbers.ts";
import { createApiClient } from "../../../lib/kubernetes/client/client.ts";
import { resolveApiConfig } from "../../../lib/kubernetes/config/resolve.ts";
import { SYSTEM_CLOCK } from "../../../lib/system/waiting.ts";
import { ClusterAddresses, NAMESPACE } from "../../support/cluster-addresses.ts";
import { ControllerTerm } from "../../support/controller-term.ts";
import { shared } from "../../support/fixtures.ts";
import { memberAt } from "../../support/kubernetes/json.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

const API_VERSION = "tortie.dev/v1alpha1";

const cluster = shared(startCluster);
const addresses = shared(() => ClusterAddresses.open(cluster));
beforeEach(() => addresses.clear(["node1"]));

/** Set of a pod with the label `app`, in the namespace as the API server has made it. */
function setOf(app: string, team?: string): LabelSet {
  const namespaceLabels = { "kubernetes.io/metadata.name": NAMESPACE, ...(team === undefined ? {} : { team }) };
  return labelSetOf(labelsOfPod({ namespace: NAMESPACE, labels: { app }, serviceAccountName: "" }, namespaceLabels));
}

const numberOf = (set: LabelSet) => candidatesOf(set.key)[0] ?? 0;
const addPod = (name: string, app = "web") => cluster.createPod(name, { namespace: NAMESPACE, node: "node1", labels: { app } });

async function stored(): Promise<ReadonlyMap<number, unknown>> {
  const list = await cluster.list(API_VERSION, IDENTITY_PLURAL);
  return new Map(list.map((object) => [Number(object.metadata.name), object.spec]));
}

const keys = async () => [...(await stored())].map(([number, spec]): [number, unknown] => [number, memberAt(spec, "key")]);
const stateOf = async (number: number) => memberAt((await stored()).get(number), "state");

/** As `controllers` processes would, each with its own connection and what it believes is there. */
async function writers(count: number): Promise<readonly IdentityStore[]> {
  const kubernetes = { kubeconfig: await cluster.kubeconfigFor("controller") };
  const api = resolveApiConfig(decodeNetworkConfig({ datastore_type: "kubernetes", qps: 1000, burst: 1000, kubernetes }), {});
  return Array.from({ length: count }, () => objectsOf({ client: createApiClient(api), clock: SYSTEM_CLOCK }));
}

const identityOf = ({ identities }: ClusterView, wanted: number) => identities?.identities.find(({ number }) => number === wanted);

const NOTHING_KNOWN = new IdentityIndex([]);

describe("Writers that all create identities at once", () => {
  it("I2: get one object with one number for one set of labels, whichever of 50 wins", async () => {
    const set = setOf("web");
    const written = await Promise.all((await writers(50)).map((writer) => ensureIdentity(writer, set, NOTHING_KNOWN)));
    expect(written.filter((one) => one?.isNew === true)).toHaveLength(1);
    expect(new Set(written.map((one) => one?.number))).toEqual(new Set([numberOf(set)]));
    expect(await keys()).toEqual([[numberOf(set), set.key]]);
  });

  it("I3: get 1,000 numbers for 1,000 sets, none of them twice", async () => {
    const written = await Promise.all(
      (await writers(10)).map(async (writer, index) => {
        const numbers: number[] = [];
        for (let set = 0; set < 100; set++)
          numbers.push((await ensureIdentity(writer, setOf(`app-${index}-${set}`), NOTHING_KNOWN))?.number ?? 0);
        return numbers;
      }),
    );
    expect(new Set(written.flat()).size).toBe(1_000);
    const found = await keys();
    expect(found).toHaveLength(1_000);
    expect(new Set(found.map(([, key]) => key)).size).toBe(1_000);
  });

  it("I4: pass by a number that is another's, and all come to the same next one", async () => {
    const set = setOf("web");
    const [first = 0, second = 0] = candidatesOf(set.key);
    await cluster.api("POST", IDENTITY_PATH, newIdentity(first, setOf("other"), "test", new Date().toISOString()));
    const written = await Promise.all((await writers(10)).map((writer) => ensureIdentity(writer, set, NOTHING_KNOWN)));
    expect(new Set(written.map((one) => one?.number))).toEqual(new Set([second]));
    expect((await stored()).size).toBe(2);
  });
});

describe("The controller", () => {
  it("gives the labels of pods a number, and takes it back when nobody has used it for 15 minutes", async () => {
    await addPod("a");
    await addPod("b");
    const old = newIdentity(300, setOf("old"), "test", "2029-01-01T00:00:00Z");
    const retired = { state: "retired", retiredAt: "2029-12-01T00:00:00Z" };
    await cluster.api("POST", IDENTITY_PATH, { ...old, spec: { ...Object(old.spec), ...retired } });
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(1);
    expect([await stateOf(numberOf(setOf("web"))), await stateOf(300), (await stored()).size]).toEqual(["active", "retired", 2]);
    await addresses.removePod("a");
    await controller.minutes(20);
    expect(await keys()).toEqual([[numberOf(setOf("web")), setOf("web").key]]);
    expect(await stateOf(numberOf(setOf("web")))).toBe("active");
    await addresses.removePod("b");
    await controller.sees("the pods gone", (view) => view.pods.length === 0);
    await controller.minutes(17);
    expect(await stateOf(numberOf(setOf("web")))).toBe("retired");
    await addPod("c");
    await controller.sees("the new pod", (view) => view.pods.length === 1);
    await controller.minutes(1);
    expect(await stateOf(numberOf(setOf("web")))).toBe("active");
    expect(controller.log.filter((line) => line.startsWith("identities"))).toEqual([]);
  });

  it("I5: finds what a controller has created that was killed before it could do the rest", async () => {
    for (const app of ["a", "b", "c"]) await addPod(app, app);
    {
      await using killed = await ControllerTerm.begin(cluster, {}, { mostWrites: 1 });
      await killed.minutes(1);
    }
    expect((await stored()).size).toBe(1);
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(1);
    const wanted = ["a", "b", "c"].map((app): [number, unknown] => [numberOf(setOf(app)), setOf(app).key]);
    expect(new Map(await keys())).toEqual(new Map(wanted));
  });

  it("L6: gives pods another number when their namespace's labels change", async () => {
    await addPod("a");
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(1);
    const labels = { labels: { team: "blue" } };
    await cluster.api("PATCH", `/api/v1/namespaces/${NAMESPACE}`, { metadata: labels });
    const pod = () => controller.term.view.pod(NAMESPACE, "a");
    await controller.sees("the namespace's labels", (view) => {
      const seen = pod();
      return seen !== undefined && view.identities?.setOf(seen)?.key === setOf("web", "blue").key;
    });
    await controller.minutes(1);
    expect(await stateOf(numberOf(setOf("web", "blue")))).toBe("active");
    await controller.minutes(17);
    expect(await stateOf(numberOf(setOf("web")))).toBe("retired");
  });

  it("I9: creates an identity that is deleted by hand while a pod uses it again, with the same number", async () => {
    await addPod("a");
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(1);
    const number = numberOf(setOf("web"));
    const before = await cluster.get(API_VERSION, IDENTITY_PLURAL, String(number));
    await controller.sees("the identity", (view) => identityOf(view, number) !== undefined);
    await cluster.remove(API_VERSION, IDENTITY_PLURAL, String(number));
    await controller.sees("its end", (view) => identityOf(view, number) === undefined);
    await controller.minutes(1);
    const after = await cluster.get(API_VERSION, IDENTITY_PLURAL, String(number));
    expect(memberAt(after?.spec, "key")).toBe(setOf("web").key);
    expect(after?.metadata.uid).not.toBe(before?.metadata.uid);
    expect((await stored()).size).toBe(1);
  });

  it("I10: gives the next number when the deleted one was taken by other labels meanwhile, and says so", async () => {
    const [first = 0, second = 0] = candidatesOf(setOf("web").key);
    await addPod("a");
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(1);
    await controller.sees("the identity", (view) => identityOf(view, first) !== undefined);
    await controller.minutes(1);
    await cluster.remove(API_VERSION, IDENTITY_PLURAL, String(first));
    await cluster.api("POST", IDENTITY_PATH, newIdentity(first, setOf("other"), "test", new Date().toISOString()));
    await controller.sees("the other one", (view) => identityOf(view, first)?.key === setOf("other").key);
    await controller.minutes(1);
    expect(await keys()).toEqual(
      [
        [first, setOf("other").key],
        [second, setOf("web").key],
      ].sort(([a], [b]) => String(a).localeCompare(String(b))),
    );
    expect(controller.log).toContainEqual(expect.stringContaining(`identity ${first} was deleted while pods used it`));
  });

  it("I12: does no harm beside another one that believes to lead", async () => {
    await addPod("a");
    await cluster.api("POST", IDENTITY_PATH, newIdentity(300, setOf("unused"), "test", new Date().toISOString()));
    await using one = await ControllerTerm.begin(cluster);
    await using two = await ControllerTerm.begin(cluster);
    for (let minute = 0; minute < 18; minute++) await Promise.all([one.minutes(1), two.minutes(1)]);
    expect(await stateOf(numberOf(setOf("web")))).toBe("active");
    expect(await stateOf(300)).toBe("retired");
    expect((await stored()).size).toBe(2);
    expect([...one.log, ...two.log].filter((line) => line.startsWith("identities"))).toEqual([]);
  });
});

describe("The definition of TortieIdentity", () => {
  const object = (name: string, spec: Record<string, unknown> = {}) => ({
    ...newIdentity(1, setOf("web"), "test", "2030-01-01T00:00:00Z"),
    metadata: { name },
    spec: { key: setOf("web").key, labels: setOf("web").labels, state: "active", createdAt: "2030-01-01T00:00:00Z", ...spec },
  });

  it.each<[string, string, Record<string, unknown>]>([
    ["a name that is no number", "web", {}],
    ["a number that is reserved", "255", {}],
    ["a number of more than 24 bits", "16777216", {}],
    ["a number with a leading zero", "0300", {}],
    ["a retired one that does not say since when", "300", { state: "retired" }],
    ["an active one that is retired", "300", { retiredAt: "2030-01-01T00:00:00Z" }],
    ["another state", "300", { state: "gone" }],
    ["no key", "300", { key: "" }],
    ["a key over 16 KiB", "300", { key: "x".repeat(16_385) }],
  ])("refuses %s", async (_which, name, spec) => {
    expect((await cluster.api("POST", IDENTITY_PATH, object(name, spec))).status).toBe(422);
  });

  it("takes numbers of 256 and of 24 bits, and lets nobody change what a number stands for", async () => {
    for (const name of ["256", "16777215"]) expect((await cluster.api("POST", IDENTITY_PATH, object(name))).status).toBe(201);
    const change = (spec: unknown) => cluster.api("PATCH", `${IDENTITY_PATH}/256`, { spec });
    expect((await change({ key: "k8s:other=1;" })).text).toContain("a number never stands for other labels");
    expect((await change({ labels: ["k8s:other=1"] })).status).toBe(422);
    expect((await change({ state: "retired", retiredAt: "2030-01-01T00:00:00Z" })).status).toBe(200);
  });

  it("is read by agents, and written by the controller alone", async () => {
    const token = await cluster.tokenFor("agent");
    expect((await cluster.apiAs(token, "GET", IDENTITY_PATH)).status).toBe(200);
    expect((await cluster.apiAs(token, "POST", IDENTITY_PATH, object("300"))).status).toBe(403);
  });
});
