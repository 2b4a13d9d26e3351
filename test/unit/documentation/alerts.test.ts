/** docs/how-to/monitor.md says of each alert what the rules of manifests/monitoring say. */
import { readFileSync } from "node:fs";
import { readDocuments } from "../../../scripts/manifests/kustomization.ts";
import { memberAt } from "../../support/kubernetes/json.ts";

interface Alert {
  readonly name: string;
  readonly because: string;
  readonly firstLook: string;
}

const RULES = readDocuments("manifests/monitoring/rules.yaml").flatMap((rule) => membersOf(rule, "spec", "groups"));

function membersOf(object: unknown, ...path: readonly string[]): readonly unknown[] {
  const found = memberAt(object, ...path);
  return Array.isArray(found) ? found : [];
}

/** Plain text: without the marks of code and links. */
function plain(text: string): string {
  return text
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replaceAll("`", "")
    .trim();
}

function ofRules(): readonly Alert[] {
  return RULES.flatMap((group) => membersOf(group, "rules")).map((rule) => ({
    name: String(memberAt(rule, "alert")),
    because: String(memberAt(rule, "annotations", "summary")),
    firstLook: String(memberAt(rule, "annotations", "description")),
  }));
}

/** `- NAME fires when …`, `Because: …`, `First look: …`, wrapped anywhere. */
function ofPage(): readonly Alert[] {
  const page = readFileSync("docs/how-to/monitor.md", "utf8").replaceAll(/\n {2}/g, " ");
  const items = page.matchAll(/^- `(Tortie[A-Za-z]+)` fires when .*\. Because: (.*)\. First look: (.*)\.$/gm);
  return [...items].map(([, name = "", because = "", firstLook = ""]) => ({ name, because: plain(because), firstLook: plain(firstLook) }));
}

it("docs/how-to/monitor.md has the alerts of the rules, each with their words", () => {
  expect(ofPage().toSorted(byName)).toEqual(ofRules().toSorted(byName));
});

function byName(one: Alert, other: Alert): number {
  return one.name.localeCompare(other.name);
}
