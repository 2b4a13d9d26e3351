import { kubernetesDatastore } from "../../../../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import { recordOfPod } from "../../../../../lib/datastore/kubernetes/pod-record.ts";
import { sampleEndpoint } from "../../../../support/samples.ts";
import { type Exchange, ScriptedClient } from "../../../../support/scripted-api-client.ts";

const PATH = "/api/v1/namespaces/shop/pods/cart";
const STATUS = `PATCH ${PATH}/status`;
const KEY = { namespace: "shop", name: "node1-k8s-cart-eth0" };
const PLAIN = { namespace: "default", name: "node1-cni-c1-eth0" };
const PREFIX = "cni.projectcalico.org/";
const stored = { metadata: { namespace: "shop", name: "cart", uid: "u1", resourceVersion: "5" }, spec: { nodeName: "node1" }, status: {} };

function records(...script: readonly Exchange[]) {
  const client = new ScriptedClient(...script);
  return { client, records: kubernetesDatastore(client, { group: "projectcalico.org/v3" }).records };
}

function endpoint(changes: Partial<ReturnType<typeof sampleEndpoint>> = {}) {
  return sampleEndpoint(KEY.namespace, KEY.name, { containerID: "c1", ipNetworks: ["10.60.0.1/32"], ...changes });
}

describe("writing the record of a pod", () => {
  it("is one patch with the uid, so that the server refuses it for another pod of the name", async () => {
    const { client, records: subject } = records([STATUS, stored]);
    await subject.write(endpoint(), { podUid: "u1" });
    expect(client.asked[0]?.contentType).toBe("application/strategic-merge-patch+json");
    expect(client.sent(0)).toEqual({
      metadata: {
        uid: "u1",
        annotations: { [`${PREFIX}containerID`]: "c1", [`${PREFIX}podIP`]: "10.60.0.1/32", [`${PREFIX}podIPs`]: "10.60.0.1/32" },
      },
    });
  });

  it("reads the pod first when nobody has", async () => {
    const { client, records: subject } = records([`GET ${PATH}`, stored], [STATUS, stored]);
    await subject.write(endpoint());
    expect(client.sent(1)).toMatchObject({ metadata: { uid: "u1" } });
    await expect(records([`GET ${PATH}`, { status: 404 }]).records.write(endpoint())).rejects.toMatchObject({ failure: "not-found" });
  });

  const cause = (field: string) => ({ reason: "FieldValueInvalid", field, message: "field is immutable" });

  it.each([
    ["another pod's", { status: 422, reason: "Invalid", causes: [cause("metadata.uid"), cause("metadata.uid")] }, "not-found"],
    ["nobody's", { status: 404, reason: "NotFound" }, "not-found"],
    ["one with an impossible annotation", { status: 422, reason: "Invalid", causes: [cause("metadata.annotations")] }, "invalid"],
    ["one that changes too fast", { status: 409, reason: "Conflict" }, "conflict"],
    ["not to be written", { status: 403, reason: "Forbidden" }, "unauthorized"],
  ])("that is %s fails, says so, and asks nothing more", async (_, answer, failure) => {
    const { client, records: subject } = records([STATUS, answer]);
    await expect(subject.write(endpoint(), { podUid: "u1" })).rejects.toMatchObject({ failure });
    expect(client.asked.length).toBe(1);
  });

  it("that may have been carried out although no answer came is taken back", async () => {
    const { client, records: subject } = records([STATUS, { status: 503 }], [STATUS, stored]);
    await expect(subject.write(endpoint(), { podUid: "u1" })).rejects.toMatchObject({ failure: "unavailable" });
    expect(client.sent(1)).toEqual(expect.arrayContaining([expect.objectContaining({ op: "test", value: "c1" })]));
    expect(client.left).toEqual([]);
  });

  it("that is not answered is left alone when an earlier ADD of the same container wrote one", async () => {
    const { client, records: subject } = records([STATUS, { status: 503 }]);
    await expect(subject.write(endpoint(), { podUid: "u1", containerID: "c1" })).rejects.toMatchObject({ failure: "unavailable" });
    expect(client.asked.length).toBe(1);
  });

  it("that is neither answered nor taken back fails with both errors", async () => {
    const { records: subject } = records([STATUS, { status: 503 }], [STATUS, { status: 403 }]);
    const error = await subject.write(endpoint(), { podUid: "u1" }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ suppressed: { failure: "unavailable" }, error: { failure: "unauthorized" } });
  });

  it("of a plain container is refused before anything is asked", async () => {
    const { client, records: subject } = records();
    await expect(subject.write(sampleEndpoint(PLAIN.namespace, PLAIN.name))).rejects.toMatchObject({ failure: "not-found" });
    expect(client.asked).toEqual([]);
  });
});

describe("clearing the record of a pod", () => {
  it("is one patch, which the server carries out for this container only", async () => {
    const { client, records: subject } = records([STATUS, stored]);
    expect(await subject.clear(KEY, "c1")).toBe("cleared");
    expect(client.asked[0]?.contentType).toBe("application/json-patch+json");
    expect(client.sent(0)).toEqual([
      { op: "test", path: "/metadata/annotations/cni.projectcalico.org~1containerID", value: "c1" },
      { op: "add", path: "/metadata/annotations/cni.projectcalico.org~1podIP", value: "" },
      { op: "add", path: "/metadata/annotations/cni.projectcalico.org~1podIPs", value: "" },
    ]);
  });

  it("comes to nothing for another container's pod, for none, and for a plain container", async () => {
    expect(await records([STATUS, { status: 422, reason: "Invalid" }]).records.clear(KEY, "c1")).toBe("not-ours");
    expect(await records([STATUS, { status: 404, reason: "NotFound" }]).records.clear(KEY, "c1")).toBe("gone");
    expect(await records().records.clear(PLAIN, "c1")).toBe("gone");
  });

  it("does not take every refusal for another container", async () => {
    const causes = [{ reason: "FieldValueInvalid", field: "metadata.annotations", message: "too long" }];
    const attempt = records([STATUS, { status: 422, reason: "Invalid", causes }]).records.clear(KEY, "c1");
    await expect(attempt).rejects.toMatchObject({ failure: "invalid" });
    await expect(records([STATUS, { status: 503 }]).records.clear(KEY, "c1")).rejects.toMatchObject({ failure: "unavailable" });
  });
});

describe("the record that a pod's annotations are", () => {
  const of = (annotations: Readonly<Record<string, string>>) =>
    recordOfPod({ annotations: Object.fromEntries(Object.entries(annotations).map(([name, value]) => [PREFIX + name, value])) });

  it("is of the container and its addresses, whatever the status says", async () => {
    expect(of({ containerID: "c1", podIP: "10.60.0.1/32", podIPs: "10.60.0.1/32,fd60::1/128" })).toEqual({
      containerID: "c1",
      ipNetworks: ["10.60.0.1/32", "fd60::1/128"],
    });
    expect(of({ containerID: "c1", podIP: "10.60.0.1/32" })).toEqual({ containerID: "c1", ipNetworks: ["10.60.0.1/32"] });
    const annotations = { [`${PREFIX}containerID`]: "c1", [`${PREFIX}podIPs`]: "10.60.0.1/32" };
    const { records: subject } = records([`GET ${PATH}`, { ...stored, metadata: { ...stored.metadata, annotations } }]);
    expect(await subject.read(KEY)).toEqual({ containerID: "c1", ipNetworks: ["10.60.0.1/32"] });
  });

  it("S11: has 64 addresses at most, whatever the annotation holds", () => {
    const record = of({
      containerID: "c1",
      podIPs: Array.from({ length: 20_000 }, (_, index) => `10.0.${index >> 8}.${index & 255}/32`).join(","),
    });
    expect(record?.ipNetworks.length).toBe(64);
  });

  it("is none before an ADD, after a DEL, and where no address can be read", async () => {
    expect(of({})).toBeUndefined();
    expect(of({ containerID: "c1", podIP: "", podIPs: "" })).toBeUndefined();
    expect(of({ containerID: "c1", podIP: "no address" })).toBeUndefined();
    expect(of({ podIP: "10.60.0.1/32" })).toBeUndefined();
  });
});
