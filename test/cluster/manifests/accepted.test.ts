/** Every overlay, as a real API server judges it: applied on the server's side, with strict validation, and nothing stored. */
import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { renderFolder } from "../../../scripts/manifests/kustomization.ts";
import { shared } from "../../support/fixtures.ts";
import { apiObjects } from "../../support/kubernetes/manifests.ts";
import { type ApiObject, kindOf, pathOf } from "../../support/kubernetes/resources.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

const cluster = shared(startCluster);
// An object of another file's tests may have fields that nobody can change.
beforeAll(() => cluster.reset());

async function applied(object: ApiObject): Promise<{ readonly status: number; readonly text: string }> {
  const { apiVersion, metadata } = object;
  const { plural, isNamespaced } = kindOf(object);
  const path = pathOf(apiVersion, plural, metadata.name, isNamespaced ? metadata.namespace : undefined);
  const query = "fieldManager=test&force=true&dryRun=All&fieldValidation=Strict";
  return cluster.api("PATCH", `${path}?${query}`, object, "application/apply-patch+yaml");
}

describe("a real API server", () => {
  it.each(readdirSync(resolve("manifests/overlays")))("takes every object of the overlay %s", async (overlay) => {
    const refused: string[] = [];
    for (const object of apiObjects(renderFolder(resolve("manifests/overlays", overlay)))) {
      const { status, text } = await applied(object);
      if (status >= 300) refused.push(`${status} ${text}`);
    }
    expect(refused).toEqual([]);
  });

  it("refuses a field that it does not know, so that the test above can fail", async () => {
    const [object] = apiObjects(renderFolder(resolve("manifests/node"))).filter(({ kind }) => kind === "DaemonSet");
    if (object === undefined) throw new Error("there is no DaemonSet");
    const { status, text } = await applied({ ...object, spec: { ...object.spec, updateStrategie: {} } });
    expect(status).toBeGreaterThanOrEqual(400);
    expect(text).toContain("updateStrategie");
  });
});
