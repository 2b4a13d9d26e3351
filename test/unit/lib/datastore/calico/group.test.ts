import { configuredGroup, discoverGroup, servedGroup } from "../../../../../lib/datastore/calico/codec.ts";
import { ScriptedClient } from "../../../../support/scripted-api-client.ts";

describe("the configured group of Calico's objects", () => {
  it.each([
    [undefined, {}, undefined],
    ["", {}, undefined],
    ["projectcalico.org/v3", {}, "projectcalico.org/v3"],
    ["ProjectCalico.org/V3", {}, "projectcalico.org/v3"],
    ["crd.projectcalico.org/v1", {}, "crd.projectcalico.org/v1"],
    ["anything", {}, "crd.projectcalico.org/v1"],
    [undefined, { CALICO_API_GROUP: "projectcalico.org/v3" }, "projectcalico.org/v3"],
    ["crd.projectcalico.org/v1", { CALICO_API_GROUP: "projectcalico.org/v3" }, "crd.projectcalico.org/v1"],
    ["crd.projectcalico.org/v1", { CALICO_CALICO_API_GROUP: "projectcalico.org/v3" }, "projectcalico.org/v3"],
  ])("of %p with %p is %p", (calicoApiGroup, env, expected) => {
    expect(configuredGroup({ calicoApiGroup }, env)).toBe(expected);
  });
});

describe("the discovered group", () => {
  it.each([
    [["apps", "crd.projectcalico.org"], "crd.projectcalico.org/v1"],
    [["apps", "projectcalico.org"], "projectcalico.org/v3"],
    [["crd.projectcalico.org", "projectcalico.org"], "crd.projectcalico.org/v1"],
    [[], "crd.projectcalico.org/v1"],
  ])("where %p are served is %p, found with one request", async (names, expected) => {
    const client = new ScriptedClient(["GET /apis", { kind: "APIGroupList", groups: names.map((name) => ({ name })) }]);
    expect(await discoverGroup(client)).toBe(expected);
  });

  it.each([[{ status: 403 }], [{ status: 0 }], ["<html>"], [{ groups: "none" }]])(
    "is the legacy one when the server answers %p",
    async (answer) => {
      expect(await discoverGroup(new ScriptedClient(["GET /apis", answer]))).toBe("crd.projectcalico.org/v1");
    },
  );
});

describe("the group that a server serves, for a program that keeps to it", () => {
  it.each([
    [["apps", "crd.projectcalico.org", "projectcalico.org"], "crd.projectcalico.org/v1"],
    [["projectcalico.org"], "projectcalico.org/v3"],
    [["apps"], undefined],
  ])("of %p is %p", async (names, expected) => {
    const client = new ScriptedClient(["GET /apis", { groups: names.map((name) => ({ name })) }]);
    expect(await servedGroup(client)).toBe(expected);
  });

  it.each([[{ status: 403 }], [{ status: 0 }], ["<html>"], [{ groups: "none" }]])("is not guessed when it answers %p", async (answer) => {
    await expect(servedGroup(new ScriptedClient(["GET /apis", answer]))).rejects.toThrow();
  });
});
