/** The Grafana dashboard of manifests/monitoring against what a running agent and the controller's figures really have. */
import { readFileSync } from "node:fs";
import { ControllerMetrics } from "../../controller/metrics.ts";
import { Agent } from "../support/agent.ts";
import { localConf } from "../support/conf.ts";
import { Node } from "../support/node.ts";

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr: string }[] }[];
}

const DASHBOARD: Dashboard = JSON.parse(readFileSync("manifests/monitoring/dashboard.json", "utf8"));
const QUERIES = DASHBOARD.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

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
  const grouped = [...query.matchAll(/by \(([^)]*)\)/g)].flatMap(([, names = ""]) => names.split(", "));
  return [...query.matchAll(/\b((?:tortie|ipam)_[a-z_]+)(?:\{([^}]*)\})?/g)].map(([, name = "", selector = ""]) => ({
    name,
    labels: [...new Set([...grouped, ...[...selector.matchAll(/([a-z_]+)[=!]/g)].map(([, label = ""]) => label)])],
  }));
}

it("asks an agent only for figures and labels that it has", async () => {
  await using node = await Node.create();
  await using agent = await Agent.start(node);
  const conf = localConf(node, agent.netconf);
  const pod = await node.addPod();
  expect(await node.cni("ADD", { pod, conf })).toMatchObject({ exit: 0 });
  const series = seriesOf((await agent.request("GET", "/metrics")).text);

  const asked = QUERIES.flatMap(askedBy).filter(({ name }) => name.startsWith("tortie_") && !name.startsWith("tortie_controller_"));

  expect(asked.length).toBeGreaterThan(8);
  // On the local store an agent asks no API server: it has the figure, and no series of it yet.
  const withoutSeries = ["tortie_kubernetes_requests_total"];
  for (const { name, labels } of asked) {
    expect([...series.keys()]).toContain(name);
    const missing = labels.filter((label) => !withoutSeries.includes(name) && series.get(name)?.has(label) !== true);
    expect({ name, missing }).toEqual({ name, missing: [] });
  }
});

it("asks the controller only for figures that it has", async () => {
  const metrics = new ControllerMetrics({
    view: () => undefined,
    candidates: () => 0,
    queueLength: () => 0,
    leads: () => true,
    kubeControllers: () => undefined,
  });
  const known = [...seriesOf(await metrics.text()).keys()];

  const asked = QUERIES.flatMap(askedBy).filter(({ name }) => name.startsWith("ipam_") || name.startsWith("tortie_controller_"));

  expect(asked.length).toBeGreaterThan(4);
  expect(asked.map(({ name }) => name).filter((name) => !known.includes(name))).toEqual([]);
});
