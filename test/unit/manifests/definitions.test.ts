/** The CustomResourceDefinitions as files: one kind each, named and versioned as Calico's, and of the same fields in both groups. */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { memberAt } from "../../support/kubernetes/json.ts";
import { readManifest } from "../../support/kubernetes/manifests.ts";
import type { ApiObject } from "../../support/kubernetes/resources.ts";

const CRDS = resolve("manifests/crds");

/** I§2.1: kinds and plurals; the configuration's differ between the groups. */
const COMMON = {
  blockaffinities: "BlockAffinity",
  clusterinformations: "ClusterInformation",
  ipamblocks: "IPAMBlock",
  ipamhandles: "IPAMHandle",
  ippools: "IPPool",
  ipreservations: "IPReservation",
};
const GROUPS = [
  { group: "crd.projectcalico.org", version: "v1", kinds: { ...COMMON, ipamconfigs: "IPAMConfig" } },
  { group: "projectcalico.org", version: "v3", kinds: { ...COMMON, ipamconfigurations: "IPAMConfiguration" } },
];

function definition(group: string, plural: string): ApiObject {
  const [object] = readManifest(join(CRDS, group, `${plural}.yaml`));
  if (object === undefined) throw new Error(`${plural}.yaml is empty`);
  return object;
}

/** Schema of an object's `spec` in the one version there is. */
function specSchema(object: ApiObject): unknown {
  const [version] = Object.values(memberAt(object, "spec", "versions") ?? {});
  return memberAt(version, "schema", "openAPIV3Schema", "properties", "spec");
}

function fieldsOf(object: ApiObject): string[] {
  return Object.keys(memberAt(specSchema(object), "properties") ?? {}).toSorted();
}

describe.each(GROUPS)("manifests/crds/$group", ({ group, version, kinds }) => {
  it("has one file for each kind of the plugins, and no other", () => {
    expect(readdirSync(join(CRDS, group)).toSorted()).toEqual(
      Object.keys(kinds)
        .map((plural) => `${plural}.yaml`)
        .toSorted(),
    );
  });

  it.each(Object.entries(kinds))("defines %s as %s, cluster-scoped, in one version that is served and stored", (plural, kind) => {
    expect(readManifest(join(CRDS, group, `${plural}.yaml`))).toEqual([
      expect.objectContaining({
        apiVersion: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        metadata: { name: `${plural}.${group}` },
        spec: expect.objectContaining({
          group,
          scope: "Cluster",
          names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase() },
          versions: [expect.objectContaining({ name: version, served: true, storage: true })],
        }),
      }),
    ]);
  });

  it.each(Object.keys(kinds))("keeps fields of %s that it does not know", (plural) => {
    expect(memberAt(specSchema(definition(group, plural)), "x-kubernetes-preserve-unknown-fields")).toBe(true);
  });

  it("requires of a block what readers cannot do without", () => {
    const required = ["cidr", "allocations", "unallocated", "attributes", "strictAffinity"];
    expect(memberAt(specSchema(definition(group, "ipamblocks")), "required")).toEqual(required);
  });

  it("gives sequence numbers 64 bits", () => {
    const properties = memberAt(specSchema(definition(group, "ipamblocks")), "properties");
    expect(memberAt(properties, "sequenceNumber")).toEqual({ type: "integer", format: "int64", default: 0 });
    expect(memberAt(properties, "sequenceNumberForAllocation", "additionalProperties")).toEqual({ type: "integer", format: "int64" });
  });
});

describe("the two groups", () => {
  it.each(Object.keys(COMMON).filter((plural) => plural !== "ippools"))("have the same fields of %s", (plural) => {
    expect(fieldsOf(definition("projectcalico.org", plural))).toEqual(fieldsOf(definition("crd.projectcalico.org", plural)));
  });

  it("differ in the type of an affinity's mark", () => {
    const marks = GROUPS.map(({ group }) => memberAt(specSchema(definition(group, "blockaffinities")), "properties", "deleted"));
    expect(marks).toEqual([
      { type: "string", enum: ["true", "false"] },
      { type: "boolean", default: false },
    ]);
  });

  it("differ in what a pool's status is written through", () => {
    const subresources = GROUPS.map(({ group }) => {
      const [version] = Object.values(memberAt(definition(group, "ippools"), "spec", "versions") ?? {});
      return memberAt(version, "subresources");
    });
    expect(subresources).toEqual([undefined, { status: {} }]);
  });
});

describe("every manifest", () => {
  it("says in its first line what it is", () => {
    const files = GROUPS.flatMap(({ group, kinds }) => Object.keys(kinds).map((plural) => join(CRDS, group, `${plural}.yaml`)));
    for (const file of [...files, resolve("manifests/plugins/rbac.yaml"), resolve("manifests/node/daemonset.yaml")])
      expect(readFileSync(file, "utf8")).toMatch(/^# [A-Z]/);
  });
});
