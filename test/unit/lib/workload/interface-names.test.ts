import {
  containerHostInterfaceName,
  hostInterfaceName,
  hostInterfaceNameIfAny,
  podHostInterfaceName,
} from "../../../../lib/workload/names.ts";

describe("names of host ends", () => {
  // Vectors of C§4.1 and of the recordings version-1.0.0 and prefix.
  it.each([
    ["default", "podA", undefined, "cali7f94ce7c295"],
    ["default", "podB", undefined, "cali92cf1f5e9f6"],
    ["namespace", "podname", "eni,veth,foo", "eni82111e10a96"],
    ["rec", "pod1", undefined, "calif3c3d6a083e"],
    ["rec", "pod1", "eni,veth", "enif3c3d6a083e"],
    ["rec", "pod1", "", "calif3c3d6a083e"],
    ["rec", "pod1", ",veth", "calif3c3d6a083e"],
    ["rec", "pod1", "abcd", "abcdf3c3d6a083e"],
  ])("pod %s/%s with the prefixes %j is %s", (namespace, pod, prefixes, name) => {
    expect(podHostInterfaceName(namespace, pod, prefixes)).toBe(name);
  });

  it.each([
    ["cid1", "calicid1"],
    ["0123456789abcdef", "cali0123456789a"],
    ["a_b.c-d", "calia_b.c-d"],
  ])("container %s is %s", (id, name) => {
    expect(containerHostInterfaceName(id)).toBe(name);
  });

  it("ask for the prefix of pods only", () => {
    const identity = { node: "n", namespace: "rec", pod: "pod1", containerId: "cid1", endpoint: "eth0" };
    expect(hostInterfaceName({ ...identity, orchestrator: "k8s" }, "eni")).toBe("enif3c3d6a083e");
    expect(hostInterfaceName({ ...identity, orchestrator: "cni" }, "much-too-long")).toBe("calicid1");
  });

  it.each(["longpref", "abcde", "a/b", "a:b", "ä", "a b"])("refuse the prefix %j by name (recording prefix-long)", (prefix) => {
    expect(() => podHostInterfaceName("rec", "pod1", prefix)).toThrow(
      expect.objectContaining({ word: "interface-prefix-invalid", message: expect.stringContaining(JSON.stringify(prefix)) }),
    );
  });

  it("are empty for a DEL whose prefix fits no interface, instead of an error", () => {
    const identity = { orchestrator: "k8s", node: "n", namespace: "rec", pod: "pod1", containerId: "cid1", endpoint: "eth0" } as const;
    expect(hostInterfaceNameIfAny(identity, "longpref")).toBe("");
    expect(hostInterfaceNameIfAny(identity, "eni,veth")).toBe("enif3c3d6a083e");
  });
});
