/**
 * Makes the set of labels that an identity stands for: which labels a pod has, which of them count, and the one text of the set (P§1.1-1.4).
 * The packet filter does not use it: it judges by peer classes, for which every label counts.
 */

/** A label of an identity. Two labels of different sources with the same key are two labels. */
export interface Label {
  /** `k8s`, `k8s-namespace` or `reserved`. */
  readonly source: string;
  readonly key: string;
  readonly value: string;
}

/** What a pod's identity follows from. */
export interface LabelledPod {
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Empty when it is not known. */
  readonly serviceAccountName: string;
}

/** A set of labels as identities are compared and stored. */
export interface LabelSet {
  /** Storage form: equal sets have equal keys. */
  readonly key: string;
  /** `source:key=value` of each label, in the order of the key. */
  readonly labels: readonly string[];
}

/** An API server stores objects of up to 1.5 MiB; no person writes labels of this length. */
export const MOST_KEY_BYTES = 16_384;

const POD = "k8s";
const NAMESPACE = "k8s-namespace";
const NAMESPACE_KEY = "namespace";
const ACCOUNT_KEY = "serviceaccount";
/** A pod's own label of these keys does not count: the agent's own would be overwritten, or a pod would pretend to be in another namespace. */
const OWN_KEYS: ReadonlySet<string> = new Set([NAMESPACE_KEY, ACCOUNT_KEY, "io.kubernetes.pod.namespace"]);

/** Lists the labels of a pod that count, its namespace's among them (P§1.4). */
export function labelsOfPod(pod: LabelledPod, namespaceLabels: Readonly<Record<string, string>>): readonly Label[] {
  const own = Object.entries(pod.labels).filter(([key]) => !OWN_KEYS.has(key));
  const all = [
    ...own.map(([key, value]) => ({ source: POD, key, value })),
    ...Object.entries(namespaceLabels).map(([key, value]) => ({ source: NAMESPACE, key: `namespace/${key}`, value })),
    { source: POD, key: NAMESPACE_KEY, value: pod.namespace },
    ...(pod.serviceAccountName === "" ? [] : [{ source: POD, key: ACCOUNT_KEY, value: pod.serviceAccountName }]),
  ];
  return all.filter(({ key }) => isRelevant(key));
}

/** Lists the same labels without the account, which a watch of metadata does not show. */
export function withoutAccount(labels: readonly string[]): readonly string[] {
  return labels.filter((label) => !label.startsWith(`${POD}:${ACCOUNT_KEY}=`));
}

/** Wins over a shorter match of IGNORED. Keys of namespaces begin with "namespace/", so nothing of IGNORED matches them. */
const INCLUDED = [/^app\.kubernetes\.io/];

/**
 * Keys that differ from pod to pod or from one rollout to the next (Cilium 1.19, pkg/labelsfilter/filter.go). Each matches the key's
 * beginning, and dots are dots.
 */
const IGNORED = [
  /^io\.kubernetes/,
  /^kubernetes\.io/,
  /^statefulset\.kubernetes\.io\/pod-name/,
  /^apps\.kubernetes\.io\/pod-index/,
  /^batch\.kubernetes\.io\/job-completion-index/,
  /^batch\.kubernetes\.io\/controller-uid/,
  /^.*beta\.kubernetes\.io/,
  /^k8s\.io/,
  /^pod-template-generation/,
  /^pod-template-hash/,
  /^controller-revision-hash/,
  /^annotation.*/,
  /^controller-uid/,
  /^etcd_node/,
];

/** Answers for almost every key at once: a controller asks for each label of ten thousand pods. */
const ANY_IGNORED = new RegExp(IGNORED.map(({ source }) => source).join("|"));

/** Says whether labels of this key are part of an identity: the longest included match must be longer than the shortest ignored one. */
export function isRelevant(key: string): boolean {
  if (!ANY_IGNORED.test(key)) return true;
  const lengths = (patterns: readonly RegExp[]) => patterns.flatMap((pattern) => pattern.exec(key)?.[0].length ?? []);
  return Math.max(0, ...lengths(INCLUDED)) > Math.min(...lengths(IGNORED));
}

/** Makes the set's one form: each (source, key) once, sorted by the code units of source and key, which no locale changes. */
export function labelSetOf(labels: readonly Label[]): LabelSet {
  const byName = new Map(labels.map((label) => [`${label.source}:${label.key}`, label]));
  const sorted = [...byName.values()].sort((a, b) => compare(a.source, b.source) || compare(a.key, b.key));
  const texts = sorted.map(({ source, key, value }) => `${source}:${key}=${value}`);
  return { key: keyOf(texts), labels: texts };
}

/** Joins labels that are sorted already. No legal label holds a semicolon. */
export function keyOf(labels: readonly string[]): string {
  return labels.map((label) => `${label};`).join("");
}

export function isTooLong({ key }: LabelSet): boolean {
  return Buffer.byteLength(key) > MOST_KEY_BYTES;
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
