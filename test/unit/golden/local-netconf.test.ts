import { rewriteForLocal } from "../../golden/store/local-netconf.ts";

describe("a recorded network configuration for the local store", () => {
  it("has the store's type changed and loses the keys of the other stores", () => {
    const rewritten = rewriteForLocal({
      name: "net1",
      datastore_type: "kubernetes",
      kubernetes: { kubeconfig: "/k" },
      calico_api_group: "crd.projectcalico.org/v1",
      policy: { type: "k8s" },
      mtu: 1400,
    });
    expect(JSON.parse(rewritten)).toEqual({ name: "net1", datastore_type: "local", mtu: 1400 });
  });

  it("keeps values of a wrong type, which are what the scenario is about", () => {
    const wrong = { datastore_type: "redis", kubernetes: 1, policy: [], calico_api_group: 5 };
    expect(JSON.parse(rewriteForLocal(wrong))).toEqual(wrong);
  });

  it("keeps the oddities of an exact text", () => {
    const text =
      '{"datastore_type": "kubernetes", "calico_api_group": "g", "mtu": 1, "mtu": 2, "policy": {"type": "k8s"}, "kubernetes": {"kubeconfig": "/k"}}x';
    expect(rewriteForLocal(text)).toBe('{"datastore_type": "local", "mtu": 1, "mtu": 2}x');
  });

  it("keeps every digit of a long number", () => {
    expect(rewriteForLocal({ big: "12345678901234567890" })).toBe('{"big":12345678901234567890}');
  });
});
