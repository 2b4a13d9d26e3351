/** The list for a cluster is written out in two pages: it is the one in manifests/, which the cluster suite runs. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(__dirname, "../../..");
const LIST: unknown = JSON.parse(readFileSync(join(ROOT, "manifests/conflist/10-tortie.conflist"), "utf8"));

describe("the list for a cluster", () => {
  it.each(["README.md", "docs/kubernetes.md"])("is in %s as in manifests/", (page) => {
    const text = readFileSync(join(ROOT, page), "utf8");
    const lists = [...text.matchAll(/```json\n(.*?)```/gs)].map(([, json = ""]): unknown => JSON.parse(json));
    expect(lists).toContainEqual(LIST);
  });
});
