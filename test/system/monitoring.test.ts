/** The Grafana dashboard and the alerts of manifests/monitoring against what a running agent and the controller's figures really have. */
import { readFileSync } from "node:fs";
import { annotationsCheck, kubeControllersCheck } from "../../controller/health.ts";
import { ControllerMetrics } from "../../controller/metrics.ts";
import { readDocuments } from "../../scripts/manifests/kustomization.ts";
import { Agent } from "../support/agent.ts";
import { localConf } from "../support/conf.ts";
import { memberAt } from "../support/kubernetes/json.ts";
import { Node } from "../support/node.ts";

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr: string }[] }[];
}

const DASHBOARD: Dashboard = JSON.parse(readFileSync("manifests/monitoring/dashboard.json", "utf8"));
const RULES = readDocuments("manifests/monitoring/rules.yaml").flatMap((rule) => listAt(rule, "spec", "groups"));
const ALERTS = RULES.flatMap((group) => listAt(group, "rules")).map((rule) => String(memberAt(rule, "expr")));
const QUERIES = [...DASHBOARD.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)), ...ALERTS];

function listAt(object: unknown, ...path: readonly string[]): readonly unknown[] {
  const found = memberAt(object, ...path);
  return Array.isArray(found) ? found : [];
}

/** Values of a label that the alerts name of one figure. */
function valuesAsked(name: string, label: string): readonly string[] {
  return ALERTS.flatMap((alert) => [...alert.matchAll(new RegExp(`\\b${name}\\{${label}=~?"([^"]*)"`, "g"))]).flatMap(([, values = ""]) =>
    values.split("|"),
  );
}

/** Names of series with the labels that any of them has. */
function seriesOf(text: string): ReadonlyMap<string, ReadonlySet<string>> {
  const series = new Map<string, Set<string>>();
  for (const line of text.split("\n")) {
    const [, name = "", labels = ""] = /^(?:# TYPE )?([a-z][a-z0-9_]*)(?:\{(.*)\})?/.exec(line) ?? [];
    if (name === "") continue;
    const known = series.get(name) ?? new Set();
    for (const [, label = ""] of labels.matchAll(/([a-z_]+)="/g)) known.add(label);
    series.set(name, known);
  }
  return series;
}

/** Metrics of a query, each with the labels that it asks for. */
function askedBy(query: string): readonly { readonly name: string; readonly labels: readonly string[] }[] {
  const grouped = [...query.matchAll(/(?:by|without) \(([^)]*)\)/g)].flatMap(([, names = ""]) => names.split(", "));
  return [...query.matchAll(/\b((?:tortie|ipam)_[a-z_]+)(?:\{([^}]*)\})?/g)].map(([, name = "", selector = ""]) => ({
    name,
    labels: [...new Set([...grouped, ...[...selector.matchAll(/([a-z_]+)[=!]/g)].map(([, label = ""]) => label)])],
  }));
}

it("asks an agent only for figures and labels that it has", async () => {
  await using node = await Node.create();
  await using agent = await Agent.start(node, { args: ["--manage-cni"] });
  const conf = localConf(node, agent.netconf);
  const pod = await node.addPod();
  expect(await node.cni("ADD", { pod, conf })).toMatchObject({ exit: 0 });
  const { text } = await agent.request("GET", "/metrics");
  const series = seriesOf(text);

  const asked = QUERIES.flatMap(askedBy).filter(({ name }) => name.startsWith("tortie_") && !name.startsWith("tortie_controller_"));

  expect(asked.length).toBeGreaterThan(8);
  // On the local store an agent asks no API server: it has the figure, and no series of it yet.
  const withoutSeries = ["tortie_kubernetes_requests_total"];
  for (const { name, labels } of asked) {
    expect([...series.keys()]).toContain(name);
    const missing = labels.filter((label) => !withoutSeries.includes(name) && series.get(name)?.has(label) !== true);
    expect({ name, missing }).toEqual({ name, missing: [] });
  }
  for (const kind of valuesAsked("tortie_sweep_findings_total", "kind"))
    expect(text).toContain(`tortie_sweep_findings_total{kind="${kind}"} 0\n`);
  // Routes to other nodes need a cluster: the suite against an API server has that check.
  const checks = valuesAsked("tortie_check_state", "check").filter((check) => check !== "node-routes");
  expect(checks).not.toEqual([]);
  for (const check of checks) expect(text).toMatch(new RegExp(`^tortie_check_state\\{check="${check}"\\} [012]$`, "m"));
  expect(text).toContain("tortie_ready 1\n");
});

it("asks the controller only for figures that it has", async () => {
  const checks = [annotationsCheck(() => ["web/one"]), kubeControllersCheck("auto", () => undefined)];
  const metrics = new ControllerMetrics({
    view: () => undefined,
    candidates: () => 0,
    queueLength: () => 0,
    leads: () => true,
    kubeControllers: () => undefined,
    checks: () => checks.map(({ name, look }) => ({ name, state: look().state })),
    identities: () => undefined,
  });
  const text = await metrics.text();
  const known = [...seriesOf(text).keys()];

  const asked = QUERIES.flatMap(askedBy).filter(({ name }) => name.startsWith("ipam_") || name.startsWith("tortie_controller_"));

  expect(asked.length).toBeGreaterThan(4);
  expect(asked.map(({ name }) => name).filter((name) => !known.includes(name))).toEqual([]);
  expect(valuesAsked("tortie_controller_check_state", "check")).toEqual(["annotations"]);
  expect(text).toContain('tortie_controller_check_state{check="annotations"} 1\n');
  expect(text).toContain('tortie_controller_check_state{check="calico-kube-controllers"} 0\n');
});
