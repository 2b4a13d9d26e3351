/** Which pod an ADD sees: the copy's, or the server's where the runtime's call names another one (A§11.4). */
import { CachedCore } from "../../../../agent/addresses/cached-datastore.ts";
import type { KubernetesCore } from "../../../../lib/datastore/datastore.ts";
import type { Pod } from "../../../../lib/kubernetes/objects.ts";
import { podOf } from "../../../support/pods.ts";
import { sampleEndpoint } from "../../../support/samples.ts";

const KEY = { namespace: "rec", name: "pod1" };

/** A copy of one pod, and a server that has another of the same name; `asked` are the server's answers. */
function coreWith(copied: Pod) {
  const asked: string[] = [];
  const server: KubernetesCore = {
    pod: async ({ name }) => {
      asked.push(name);
      return podOf({ uid: "on-the-server" });
    },
    namespace: async () => undefined,
    node: async () => undefined,
    serverVersion: async () => "",
  };
  const empty = { isUsable: true, get: () => undefined, list: () => [] };
  const known = { name: "rec/pod1", stored: { value: copied, revision: "1" }, isMarked: false };
  const pods = { isUsable: true, get: (key: string) => (key === "rec/pod1" ? known : undefined), list: () => [known] };
  return { asked, core: new CachedCore(server, { namespaces: empty, nodes: empty, pods }) };
}

describe("a pod from its watch", () => {
  it("G5: is read from the server when the call is of another pod of that name", async () => {
    const { asked, core } = coreWith(podOf({ uid: "of-the-copy" }));
    expect((await core.pod(KEY, { mayBeOld: true, uid: "on-the-server" }))?.uid).toBe("on-the-server");
    expect(asked).toEqual(["pod1"]);
  });

  it.each([
    ["the pod itself", "of-the-copy"],
    ["a static pod by the digest of its file", "digest"],
    ["a runtime that names no UID", undefined],
  ])("costs no request for %s", async (_whose, uid) => {
    const { asked, core } = coreWith(podOf({ uid: "of-the-copy", annotations: { "kubernetes.io/config.hash": "digest" } }));
    expect((await core.pod(KEY, { mayBeOld: true, uid }))?.uid).toBe("of-the-copy");
    expect(asked).toEqual([]);
  });

  it("is read from the server after its record was written, until the watch tells of that", async () => {
    const annotations = { "cni.projectcalico.org/containerID": "c1", "cni.projectcalico.org/podIP": "10.0.0.1/32" };
    const { asked, core } = coreWith(podOf({ uid: "of-the-copy", annotations }));
    const writes: string[] = [];
    const records = core.noting({
      read: async () => undefined,
      write: async ({ containerID }) => void writes.push(containerID),
      clear: async () => "cleared",
    });
    const key = { namespace: "rec", name: "node1-k8s-pod1-eth0" };
    const uid = async () => (await core.pod(KEY, { mayBeOld: true }))?.uid;
    await records.write(sampleEndpoint(key.namespace, key.name, { containerID: "c2", ipNetworks: ["10.0.0.2/32"] }));
    expect([await uid(), await uid()]).toEqual(["on-the-server", "on-the-server"]);
    await records.write(sampleEndpoint(key.namespace, key.name, { containerID: "c1", ipNetworks: ["10.0.0.1/32"] }));
    expect(await uid()).toBe("of-the-copy");
    await records.clear(key, "c1");
    expect(await uid()).toBe("on-the-server");
    expect([asked.length, writes]).toEqual([3, ["c2", "c1"]]);
  });
});
