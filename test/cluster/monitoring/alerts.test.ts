/** The alerts of manifests/monitoring as the real promtool reads them: without a fault, and each firing when it should and only then. */
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { readDocuments } from "../../../scripts/manifests/kustomization.ts";
import { memberAt } from "../../support/kubernetes/json.ts";

const BUILD_LIMIT_MS = 1_200_000;
jest.setTimeout(BUILD_LIMIT_MS);
/** One file an alert: series, and what it comes to (https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules). */
const TESTS = resolve("test/cluster/monitoring/alerts");

const groups = readDocuments("manifests/monitoring/rules.yaml").flatMap((rule) => listOf(memberAt(rule, "spec", "groups")));
const alerts = groups.flatMap((group) => listOf(memberAt(group, "rules")));

let programs: string;
let folder: string;
beforeAll(() => {
  programs = execFileSync("bash", [resolve("scripts/cluster-servers"), "promtool"], { encoding: "utf8" }).trim();
  folder = mkdtempSync("/run/alerts-");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function run(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(join(programs, "promtool"), args, { encoding: "utf8", cwd: folder });
  return { status, said: stdout + stderr };
}

it("and the monitors have the fields of the Prometheus operator's own types, and no others", () => {
  const objects = ["rules.yaml", "pod-monitors.yaml"].flatMap((name) => readDocuments(join("manifests/monitoring", name)));
  const read = (input: readonly unknown[]) =>
    spawnSync(join(programs, "monitoring-objects"), { encoding: "utf8", input: JSON.stringify(input) });
  expect(read(objects)).toMatchObject({ status: 0, stdout: "4 objects\n" });
  const [rule] = objects;
  expect(read([{ ...rule, spec: { group: [] } }])).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('unknown field "group"'),
  });
});

it("are rules that Prometheus takes, without a remark", () => {
  writeFileSync(join(folder, "checked.yaml"), Bun.YAML.stringify({ groups }));
  expect(run("check", "rules", "--lint=all", "--lint-fatal", "checked.yaml")).toEqual({
    status: 0,
    said: expect.stringContaining(`SUCCESS: ${alerts.length} rules found`),
  });
});

it("have a test each", () => {
  expect(
    readdirSync(TESTS)
      .map((name) => basename(name, ".yaml"))
      .toSorted(),
  ).toEqual(alerts.map((rule) => memberAt(rule, "alert")).toSorted());
});

it.each(readdirSync(TESTS))("%s: the alert fires when it should, and only then", (name) => {
  // promtool wants each annotation repeated in the tests; a unit test compares them with the page.
  const bare = groups.map((group) => ({
    ...Object(group),
    rules: listOf(memberAt(group, "rules")).map((rule) => ({ ...Object(rule), annotations: {} })),
  }));
  writeFileSync(join(folder, "rules.yaml"), Bun.YAML.stringify({ groups: bare }));
  copyFileSync(join(TESTS, name), join(folder, name));
  const { tests } = Object(readDocuments(join(TESTS, name))[0]);
  const outcomes = listOf(tests).flatMap((test) => listOf(memberAt(test, "alert_rule_test")));
  expect(new Set(outcomes.map((outcome) => memberAt(outcome, "alertname")))).toEqual(new Set([basename(name, ".yaml")]));
  const fires = outcomes.map((outcome) => listOf(memberAt(outcome, "exp_alerts")).length > 0);
  expect(new Set(fires)).toEqual(new Set([true, false]));
  expect(run("test", "rules", name)).toEqual({ status: 0, said: expect.stringContaining("SUCCESS") });
});
