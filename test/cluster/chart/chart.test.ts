/** The chart as the real Helm reads it: with each mode the objects are those of the overlay, and values that make no sense are refused. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { makeChart } from "../../../scripts/chart.ts";
import { readDocuments, renderFolder } from "../../../scripts/manifests/kustomization.ts";
import { memberAt } from "../../support/kubernetes/json.ts";
import { LEGACY, startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";

const BUILD_LIMIT_MS = 900_000;
jest.setTimeout(BUILD_LIMIT_MS);

let helm: string;
let folder: string;
let chart: string;
beforeAll(() => {
  const programs = execFileSync("bash", [resolve("scripts/cluster-servers"), "helm"], { encoding: "utf8" }).trim();
  helm = join(programs, "helm");
  folder = mkdtempSync("/run/chart-");
  chart = join(folder, "tortie");
  makeChart(chart);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function run(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(helm, args, { encoding: "utf8", env: { HOME: folder, PATH: "/usr/bin:/bin" } });
  return { status, stdout, said: stdout + stderr };
}

/** What `helm install` would send, in a cluster of the release that the chart is for. */
function templated(...settings: readonly string[]): readonly unknown[] {
  return templatedIn("kube-system", ...settings);
}

function templatedIn(namespace: string, ...settings: readonly string[]): readonly unknown[] {
  const place = ["--kube-version", "1.34.4", "--namespace", namespace];
  const { status, stdout, said } = run("template", "tortie", chart, ...place, ...settings.flatMap((one) => ["--set", one]));
  if (status !== 0) throw new Error(said);
  const parsed: unknown = Bun.YAML.parse(stdout);
  return (Array.isArray(parsed) ? parsed : [parsed]).filter(
    (one) => one !== null && memberAt(one, "metadata", "annotations", HOOK) === undefined,
  );
}

const HOOK = "helm.sh/hook";
const KEEP = "helm.sh/resource-policy";
const MONITORING = "monitoring.coreos.com/v1";

/** Without what means nothing to the API server: empty lists, and the word by which Helm keeps definitions. */
function meaning(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(meaning);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).filter(([key, member]) => key !== KEEP && !(Array.isArray(member) && member.length === 0));
  const kept = members.map(([key, member]) => [key, meaning(member)] as const);
  return Object.fromEntries(kept.filter(([key, member]) => key !== "annotations" || Object.keys(Object(member)).length > 0));
}

function byIdentity(objects: readonly unknown[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    objects.map((object) => [`${memberAt(object, "kind")} ${memberAt(object, "metadata", "name")}`, meaning(object)]),
  );
}

function programOf(objects: readonly unknown[], kind: string): unknown {
  return memberAt(
    objects.find((object) => memberAt(object, "kind") === kind),
    "spec",
    "template",
    "spec",
    "containers",
    "0",
  );
}

describe("the chart", () => {
  it.each([
    ["alone", []],
    ["dual-stack", ["pools.ipv6=auto"]],
    ["host-scope", ["mode=host-scope"]],
    ["beside-calico", ["mode=beside-calico"]],
  ] as const)("comes to the objects of the overlay %s, no more and no less", (overlay, settings) => {
    expect(byIdentity(templated(...settings))).toEqual(byIdentity(renderFolder(resolve("manifests/overlays", overlay))));
  });

  it("puts values where they belong", () => {
    const settings = ["routes=direct", "pools.ipv4=10.9.0.0/16", "image.repository=registry.example/tortie", "image.tag=9.9"];
    const more = [
      "metrics.agentPort=9000",
      "agent.extraArgs[0]=--log-level=debug",
      "controller.replicas=1",
      "controller.resources.limits.memory=1Gi",
    ];
    const objects = templated(...settings, ...more);
    const agent = programOf(objects, "DaemonSet");
    expect(memberAt(agent, "image")).toBe("registry.example/tortie:9.9");
    expect(memberAt(agent, "args")).toEqual(expect.arrayContaining(["--node-routes=direct", "--health-port=9000", "--log-level=debug"]));
    expect(memberAt(agent, "ports")).toEqual([expect.objectContaining({ containerPort: 9000, hostPort: 9000 })]);
    const controller = programOf(objects, "Deployment");
    expect(memberAt(controller, "args")).toContain("--ipv4-pool=10.9.0.0/16");
    expect(memberAt(controller, "resources", "limits")).toEqual({ memory: "1Gi" });
    expect(
      memberAt(
        objects.find((object) => memberAt(object, "kind") === "Deployment"),
        "spec",
        "replicas",
      ),
    ).toBe(1);
  });

  it("serves figures to others where it is told to, on a port of that name", () => {
    const objects = templated("metrics.agentAddress=10.0.0.1:9900", "metrics.controllerAddress=[::]:9901");
    const [agent, controller] = [programOf(objects, "DaemonSet"), programOf(objects, "Deployment")];
    expect(memberAt(agent, "args")).toContain("--metrics-address=10.0.0.1:9900");
    expect(memberAt(agent, "ports")).toContainEqual({ name: "metrics", containerPort: 9900, hostPort: 9900 });
    expect(memberAt(controller, "args")).toContain("--metrics-address=[::]:9901");
    expect(memberAt(controller, "ports")).toContainEqual({ name: "metrics", containerPort: 9901, hostPort: 9901 });
  });

  it("has the monitors and rules of manifests/monitoring where that is asked for, with the ports and labels that they need", () => {
    const wanted = ["pod-monitors.yaml", "rules.yaml"].flatMap((name) => readDocuments(resolve("manifests/monitoring", name)));
    const settings = ["monitoring.enabled=true", "monitoring.labels.release=prometheus"];
    const objects = templated(...settings);
    const found = objects.filter((object) => memberAt(object, "apiVersion") === MONITORING);
    const labelled = wanted.map((object) => {
      const metadata = Object(object.metadata);
      return { ...object, metadata: { ...metadata, labels: { ...metadata.labels, release: "prometheus" } } };
    });
    expect(byIdentity(found)).toEqual(byIdentity(labelled));
    expect(memberAt(programOf(objects, "DaemonSet"), "args")).toContain("--metrics-address=0.0.0.0:9881");
    expect(memberAt(programOf(objects, "Deployment"), "args")).toContain("--metrics-address=0.0.0.0:9882");

    const besideCalico = templated(...settings, "mode=beside-calico").filter((object) => memberAt(object, "kind") === "PrometheusRule");
    expect(besideCalico.map((object) => memberAt(object, "metadata", "name"))).toEqual(["tortie"]);
  });

  it.each(["blocks", "host-scope", "beside-calico"])("has its accounts in the release's namespace, mode %s", (mode) => {
    const objects = templatedIn("tortie-system", `mode=${mode}`, "monitoring.enabled=true");
    const left = objects.filter((object) => JSON.stringify(object).includes("kube-system"));
    // The role by which kubeadm's configuration is read.
    const kubeadm = mode === "blocks" ? ["Role kube-system", "RoleBinding kube-system"] : [];
    expect(left.map((object) => `${memberAt(object, "kind")} ${memberAt(object, "metadata", "namespace")}`)).toEqual(kubeadm);
    const accounts = objects.filter((object) => memberAt(object, "kind") === "ServiceAccount");
    expect(new Set(accounts.map((object) => memberAt(object, "metadata", "namespace")))).toEqual(new Set(["tortie-system"]));
    expect(memberAt(programOf(objects, "Deployment"), "args")).toContain("--lease-namespace=tortie-system");
  });

  it("keeps definitions, and with them every address, when it is uninstalled", () => {
    const definitions = templated().filter((object) => memberAt(object, "kind") === "CustomResourceDefinition");
    expect(definitions.length).toBeGreaterThan(1);
    expect(definitions.filter((object) => memberAt(object, "metadata", "annotations", KEEP) !== "keep")).toEqual([]);
  });

  it.each([
    "mode=overlay",
    "routes=bgp",
    "pools.ipv4=10.0.0.0",
    "pools.ipv6=10.0.0.0/16",
    "mode=host-scope,pools.ipv4=10.0.0.0/16",
    "mode=beside-calico,pools.ipv6=auto",
    "metrics.agentPort=70000",
    "metrics.agentAddress=9881",
    "metrics.controllerAddress=localhost:9882",
    "monitoring.enabled=yes please",
    "monitoring.interval=often",
    "monitoring.labels.release=two words",
    "controller.replicas=0",
    "agent.extraArgs[0]=debug",
    "image.digest=latest",
    "imag.tag=1",
  ])("refuses %s", (setting) => {
    const { status, said } = run("template", "tortie", chart, "--set", setting);
    expect(status).not.toBe(0);
    expect(said).toContain("values don't meet the specifications of the schema");
  });

  it("passes helm lint without a warning", () => {
    const { status, said } = run("lint", "--strict", chart);
    expect(said).toContain("0 chart(s) failed");
    expect(said).not.toMatch(/WARNING|ERROR/);
    expect(status).toBe(0);
  });
});

it("is taken by a real API server in a namespace of its own, names the next two commands, and leaves definitions and pools when it is uninstalled", async () => {
  await using cluster = await startCluster({ isBare: true });
  const inCluster = ["--kubeconfig", cluster.adminKubeconfig, "--namespace", "tortie-system"];
  const installed = run("install", "tortie", chart, "--create-namespace", ...inCluster);
  expect(installed.said).toContain("STATUS: deployed");
  expect(installed.stdout).toContain("kubectl -n tortie-system rollout status daemonset/tortie-node");
  expect(installed.stdout).toContain("helm test tortie --namespace tortie-system --logs");
  expect(await cluster.get("apps/v1", "deployments", "tortie-controller", "tortie-system")).toBeDefined();
  await until("the kind of pools", async () => (await cluster.api("GET", `/apis/${LEGACY}/ippools`)).status === 200);
  await cluster.createPool("mine", { cidr: "10.60.0.0/24" });

  expect(run("uninstall", "tortie", ...inCluster).status).toBe(0);

  expect(await cluster.get("apps/v1", "deployments", "tortie-controller", "tortie-system")).toBeUndefined();
  expect(await cluster.get(LEGACY, "ippools", "mine")).toBeDefined();
});
