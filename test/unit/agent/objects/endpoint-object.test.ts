import { newObject, type ObjectEndpoint, withPresentMirror } from "../../../../agent/objects/endpoint-object.ts";

const ENDPOINT: ObjectEndpoint = {
  id: 4,
  attachment: { network: "net", containerId: "c1", ifname: "eth0" },
  addresses: [],
  pod: "kube-system/proxy-node1",
  podUID: "mirror-1",
  state: "ready",
};
const mirrorOf = (hash: string) => ({ uid: "mirror-2", annotations: { "kubernetes.io/config.mirror": hash } });

function ownerUid(endpoint: ObjectEndpoint): unknown {
  const { metadata } = newObject(endpoint, { labels: {}, spec: {}, state: "ready" });
  return metadata;
}

describe("G4: the object of a static pod", () => {
  it("belongs to the mirror that there is now", () => {
    const shown = withPresentMirror(ENDPOINT, { runtimePodUID: "hash" }, mirrorOf("hash"));
    expect(ownerUid(shown)).toMatchObject({ ownerReferences: [{ uid: "mirror-2" }] });
  });

  it("does not belong to the mirror of another file, and that of an ordinary pod not to a pod made anew", () => {
    const pods = [mirrorOf("other"), { uid: "uid-2", annotations: {} }, undefined];
    expect(pods.map((pod) => withPresentMirror(ENDPOINT, { runtimePodUID: "hash" }, pod).podUID)).toEqual(Array(3).fill("mirror-1"));
    expect(withPresentMirror(ENDPOINT, {}, mirrorOf("hash")).podUID).toBe("mirror-1");
  });
});
