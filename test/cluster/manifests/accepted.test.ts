/** Every overlay, as a real API server judges it: applied on the server's side, with strict validation, and nothing stored. */
import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { renderFolder } from "../../../scripts/manifests/kustomization.ts";
import { shared } from "../../support/fixtures.ts";
import { memberAt } from "../../support/kubernetes/json.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

const cluster = shared(startCluster);
// An object of another file's tests may have fields that nobody can change.
beforeAll(() => cluster.reset());

/** Plural, and whether objects live in a namespace. */
const KINDS: Readonly<Record<string, readonly [string, boolean]>> = {
  CustomResourceDefinition: ["customresourcedefinitions", false],
  ServiceAccount: ["serviceaccounts", true],
  ClusterRole: ["clusterroles", false],
  ClusterRoleBinding: ["clusterrolebindings", false],
  Role: ["roles", true],
  RoleBinding: ["rolebindings", true],
  ValidatingAdmissionPolicy: ["validatingadmissionpolicies", false],
  ValidatingAdmissionPolicyBinding: ["validatingadmissionpolicybindings", false],
  ConfigMap: ["configmaps", true],
  DaemonSet: ["daemonsets", true],
  Deployment: ["deployments", true],
  ClusterInformation: ["clusterinformations", false],
  IPPool: ["ippools", false],
};

async function applied(object: object): Promise<{ readonly status: number; readonly text: string }> {
  const version = String(memberAt(object, "apiVersion"));
  const [plural, isNamespaced] = KINDS[String(memberAt(object, "kind"))] ?? ["unknown", false];
  const place = isNamespaced ? `namespaces/${String(memberAt(object, "metadata", "namespace"))}/` : "";
  const root = version.includes("/") ? `/apis/${version}` : `/api/${version}`;
  const query = "fieldManager=test&force=true&dryRun=All&fieldValidation=Strict";
  const path = `${root}/${place}${plural}/${String(memberAt(object, "metadata", "name"))}?${query}`;
  return cluster.api("PATCH", path, object, "application/apply-patch+yaml");
}

describe("a real API server", () => {
  it.each(readdirSync(resolve("manifests/overlays")))("takes every object of the overlay %s", async (overlay) => {
    const refused: string[] = [];
    for (const object of renderFolder(resolve("manifests/overlays", overlay))) {
      const { status, text } = await applied(object);
      if (status >= 300) refused.push(`${status} ${text}`);
    }
    expect(refused).toEqual([]);
  });

  it("refuses a field that it does not know, so that the test above can fail", async () => {
    const [object] = renderFolder(resolve("manifests/node")).filter(({ kind }) => kind === "DaemonSet");
    const spec = memberAt(object, "spec");
    if (object === undefined || typeof spec !== "object") throw new Error("there is no DaemonSet");
    const { status, text } = await applied({ ...object, spec: { ...spec, updateStrategie: {} } });
    expect(status).toBeGreaterThanOrEqual(400);
    expect(text).toContain("updateStrategie");
  });
});
