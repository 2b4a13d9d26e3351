/**
 * Makes the Helm chart's templates from the overlays. Each object stands there once for all overlays in which it is the same, behind a
 * condition, with expressions where values decide. The default values give the overlay itself.
 */
import { type Fields, isObject } from "../../lib/json/decode.ts";

export interface Overlay {
  readonly name: string;
  readonly objects: readonly Fields[];
}

/** Pairs the image's name in the manifests with the expression that replaces it. */
export interface ChartSource {
  readonly image: string;
  readonly overlays: readonly Overlay[];
  /** Holds what the Prometheus operator reads, from no overlay. */
  readonly monitoring: readonly Fields[];
}

/** Maps file names below templates/ to texts. @throws Error if an object holds what Helm would take for a template */
export function chartTemplates({ image, overlays, monitoring }: ChartSource): ReadonlyMap<string, string> {
  const files = new Map<string, string[]>();
  const add = (object: Fields, text: string) => {
    const file = `${object.kind}-${nameOf(object)}.yaml`.toLowerCase();
    files.getOrInsert(file, []).push(text);
  };
  for (const { object, names } of variantsOf(overlays)) {
    const list = names.map((name) => JSON.stringify(name)).join(" ");
    const condition = `has (include "tortie.overlay" .) (list ${list})`;
    add(
      object,
      templateOf(object, condition, (place) => withPlaces(object, image, place)),
    );
  }
  for (const object of monitoring) {
    const isOfCalico = nameOf(object) === WITHOUT_CALICO;
    const condition = isOfCalico ? 'and .Values.monitoring.enabled (ne .Values.mode "beside-calico")' : ".Values.monitoring.enabled";
    add(
      object,
      templateOf(object, condition, (place) => withMonitoring(object, place)),
    );
  }
  return new Map([...files].map(([file, texts]) => [file, `${GENERATED}${texts.join("---\n")}`]));
}

const GENERATED = "{{- /* Made by scripts/chart from manifests/overlays; change those, not this. */ -}}\n";

/** Names the rules for clusters without Calico's kube-controllers. */
const WITHOUT_CALICO = "tortie-without-calico";

interface Variant {
  readonly object: Fields;
  /** Lists overlays that hold exactly this object. */
  readonly names: readonly string[];
}

function variantsOf(overlays: readonly Overlay[]): readonly Variant[] {
  const variants = new Map<string, { object: Fields; names: string[] }>();
  for (const { name, objects } of overlays) {
    for (const object of objects) {
      variants.getOrInsertComputed(JSON.stringify(object), () => ({ object, names: [] })).names.push(name);
    }
  }
  return [...variants.values()];
}

/** @param condition Helm's, for the object to exist @param placed the object with expressions where values decide */
function templateOf(object: Fields, condition: string, placed: (place: Place) => Fields): string {
  if (JSON.stringify(object).includes("{{")) throw new Error(`${object.kind} ${nameOf(object)} holds "{{", which Helm would evaluate`);
  const expressions: string[] = [];
  const place: Place = (expression) => `${MARK}${expressions.push(expression) - 1}`;
  const stringified = Bun.YAML.stringify(inNamespace(placed(place), place), undefined, 2);
  const text = stringified.replaceAll(new RegExp(`"${MARK}(\\d+)"|${MARK}(\\d+)`, "g"), (_, quoted, bare) => {
    return `{{ ${expressions[Number(quoted ?? bare)]} }}`;
  });
  return `{{- if ${condition} }}\n${text.trimEnd()}\n{{- end }}\n`;
}

/** Stands in for an expression while the object is written as YAML. */
const MARK = "tortie-chart-value-";

type Place = (expression: string) => string;

/** Names the overlays' namespace; the chart's objects are in the release's. */
const NAMESPACE = "kube-system";
/** Reads, by its account, what kubeadm left in kube-system. */
const OF_KUBEADM = "tortie-pools";

function inNamespace(object: Fields, place: Place): Fields {
  const released = place(".Release.Namespace");
  const change = (value: unknown) => (typeof value === "string" ? value.replaceAll(NAMESPACE, released) : value);
  const stays = (key: string) => key === "metadata" && nameOf(object) === OF_KUBEADM;
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, stays(key) ? value : replaced(value, change)]));
}

/** Adds the administrator's labels, by which Prometheus finds its objects. */
function withMonitoring(object: Fields, place: Place): Fields {
  const metadata = mapAt(object, "metadata");
  const labels = Object.entries(mapAt(metadata, "labels"))
    .flat()
    .map((word) => JSON.stringify(word));
  const spec = mapAt(object, "spec");
  const endpoints = Array.isArray(spec.podMetricsEndpoints) ? spec.podMetricsEndpoints.filter(isObject) : [];
  return {
    ...object,
    metadata: { ...metadata, labels: place(`toJson (merge (dict ${labels.join(" ")}) .Values.monitoring.labels)`) },
    spec: {
      ...spec,
      ...(endpoints.length === 0
        ? {}
        : { podMetricsEndpoints: endpoints.map((one) => ({ ...one, interval: place(".Values.monitoring.interval | quote") })) }),
    },
  };
}

interface Program {
  readonly values: "agent" | "controller";
  readonly port: number;
}

const PROGRAMS: Readonly<Record<string, Program>> = {
  "DaemonSet tortie-node": { values: "agent", port: 9879 },
  "Deployment tortie-controller": { values: "controller", port: 9880 },
};

function withPlaces(object: Fields, image: string, place: Place): Fields {
  if (object.kind === "CustomResourceDefinition") return kept(object);
  const program = PROGRAMS[`${object.kind} ${nameOf(object)}`];
  if (program === undefined) return object;
  const spec = mapAt(object, "spec");
  const template = mapAt(spec, "template");
  const pod = mapAt(template, "spec");
  const containers = (key: string) => (Array.isArray(pod[key]) ? pod[key].filter(isObject) : []);
  const [main, ...others] = containers("containers").map((one) => withImage(one, image, place));
  if (main === undefined || others.length > 0) throw new Error(`${object.kind} ${nameOf(object)} has not one container`);
  const initial = containers("initContainers").map((one) => withImage(one, image, place));
  return {
    ...object,
    spec: {
      ...spec,
      ...("replicas" in spec ? { replicas: place(".Values.controller.replicas") } : {}),
      template: {
        ...template,
        spec: {
          ...pod,
          imagePullSecrets: place("toJson .Values.image.pullSecrets"),
          ...(initial.length === 0 ? {} : { initContainers: initial }),
          containers: [withSettings(main, program, place)],
        },
      },
    },
  };
}

/** Makes `helm uninstall` leave definitions: their deletion would delete every pool and address. */
function kept(object: Fields): Fields {
  const metadata = mapAt(object, "metadata");
  const annotations = { ...mapAt(metadata, "annotations"), "helm.sh/resource-policy": "keep" };
  return { ...object, metadata: { ...metadata, annotations } };
}

function withImage(container: Fields, image: string, place: Place): Fields {
  if (container.image !== image) throw new Error(`a container has the image ${String(container.image)}, not ${image}`);
  return { ...container, image: place('include "tortie.image" . | quote') };
}

/** Lists options with a value of their own. */
const OPTIONS: Readonly<Record<string, string>> = {
  "--node-routes": ".Values.routes",
  "--ipv4-pool": ".Values.pools.ipv4",
  "--ipv6-pool": ".Values.pools.ipv6",
};

function withSettings(container: Fields, { values, port }: Program, place: Place): Fields {
  const own = `.Values.metrics.${values}Port`;
  const args = (Array.isArray(container.args) ? container.args.map(String) : []).map((arg) => {
    const value = OPTIONS[arg.slice(0, arg.indexOf("="))];
    return value === undefined ? JSON.stringify(arg) : `(printf ${JSON.stringify(arg.replace(/=.*/, "=%s"))} ${value})`;
  });
  const portArg = `(ternary (list) (list (printf "--health-port=%d" (int ${own}))) (eq (int ${own}) ${port}))`;
  const address = `(include "tortie.metricsAddress" (dict "root" . "program" "${values}"))`;
  const addressArg = `(ternary (list) (list (printf "--metrics-address=%s" ${address})) (empty ${address}))`;
  const leaseArg = `(ternary (list) (list (printf "--lease-namespace=%s" .Release.Namespace)) (eq .Release.Namespace "${NAMESPACE}"))`;
  const ownArgs = [portArg, addressArg, ...(values === "controller" ? [leaseArg] : [])];
  return {
    ...withPort(container, port, place(`int ${own}`)),
    ports: place(`toJson (concat (list ${portsOf(container, port, own)}) ${metricsPort(address)})`),
    args: place(`toJson (default (list) (concat (list ${args.join(" ")}) ${ownArgs.join(" ")} .Values.${values}.extraArgs))`),
    resources: place(`toJson .Values.${values}.resources`),
  };
}

/** Writes the container's ports as expressions of Helm. */
function portsOf(container: Fields, port: number, own: string): string {
  const ports = Array.isArray(container.ports) ? container.ports.filter(isObject) : [];
  const wordOf = (value: unknown) => (value === port ? `(int ${own})` : JSON.stringify(value));
  const dictOf = (one: Fields) => Object.entries(one).flatMap(([key, value]) => [JSON.stringify(key), wordOf(value)]);
  return ports.map((one) => `(dict ${dictOf(one).join(" ")})`).join(" ");
}

/** Writes the port that PodMonitors name, which serves figures to others. */
function metricsPort(address: string): string {
  const port = `(regexFind "[0-9]+$" ${address} | int)`;
  return `(ternary (list) (list (dict "name" "metrics" "containerPort" ${port} "hostPort" ${port})) (empty ${address}))`;
}

/** Replaces each number of the port: container's, host's, probes'. */
function withPort(container: Fields, port: number, expression: string): Fields {
  const change = (value: unknown) => (value === port ? expression : value);
  return Object.fromEntries(Object.entries(container).map(([key, value]) => [key, replaced(value, change)]));
}

/** Changes every value of a list or an object, however deep it stands. @param change gives what needs no change as it is */
function replaced(value: unknown, change: (value: unknown) => unknown): unknown {
  if (Array.isArray(value)) return value.map((one) => replaced(one, change));
  if (!isObject(value)) return change(value);
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, replaced(member, change)]));
}

function mapAt(map: Fields, key: string): Fields {
  const value = map[key];
  return isObject(value) ? value : {};
}

function nameOf(object: Fields): string {
  return String(mapAt(object, "metadata").name);
}
