/** Reads and makes the annotations of the Node object that say which ranges its agent uses (A§1.7). Pure. */
import { type FamilyRecord, familyOf, type NodeRecord, type RangeSource, SOURCES } from "../../../ipam-plugin/host-scope/node-record.ts";
import { type Family, formatAddress, formatPrefix, type Prefix, parsePrefix } from "../../../lib/addresses/address.ts";

const PREFIX = "network.tortie.dev";
const SOURCE = `${PREFIX}/pod-cidr-source`;
/** Automatic ranges that the node asks the others for; no addresses are given of them. */
const CLAIM = `${PREFIX}/pod-cidr-claim`;

export function rangeAnnotation(family: Family): string {
  return `${PREFIX}/ipv${family}-pod-cidr`;
}

/** Names Cilium's annotation, which is only read, and only when the administrator says so. */
export function ciliumRangeAnnotation(family: Family): string {
  return `io.cilium.network.ipv${family}-pod-cidr`;
}

export function routerAnnotation(family: Family): string {
  return `${PREFIX}/ipv${family}-router-ip`;
}

export function healthAnnotation(family: Family): string {
  return `${PREFIX}/ipv${family}-health-ip`;
}

type Annotations = Readonly<Record<string, string>>;
type AnnotationPatch = Readonly<Record<string, string | null>>;

/** Reads which source a family's range has, by the agent that wrote the annotations. */
export function annotatedSource(annotations: Annotations, family: Family): RangeSource | undefined {
  for (const entry of (annotations[SOURCE] ?? "").split(",")) {
    const [name, word] = entry.split("=");
    if (name === `ipv${family}`) return SOURCES.find((source) => source === word);
  }
  return undefined;
}

/** Ranges that the agent of the node wants and does not have yet. */
export function claimedRanges(annotations: Annotations): readonly Prefix[] {
  return (annotations[CLAIM] ?? "").split(",").flatMap((text) => parsePrefix(text) ?? []);
}

/** Asks for ranges. */
export function claimPatch(ranges: readonly Prefix[]): AnnotationPatch {
  return { [CLAIM]: ranges.map(formatPrefix).join(",") };
}

/** Says that the node has its ranges from now on, and nothing about a family without one. */
export function holdPatch(ranges: Readonly<Partial<Record<Family, FamilyRecord>>>): AnnotationPatch {
  const families = ([4, 6] as const).filter((family) => ranges[family] !== undefined);
  return wantedAnnotations({ ipv4: ranges[4], ipv6: ranges[6] }, families);
}

/** Gives up the claim, and the automatic ranges of these families. @returns `undefined` where nothing says that the node has any */
export function withdrawalPatch(annotations: Annotations, families: readonly Family[]): AnnotationPatch | undefined {
  const automatic = families.filter((family) => annotatedSource(annotations, family) === "automatic");
  if (automatic.length === 0) return annotations[CLAIM] === undefined ? undefined : { [CLAIM]: null };
  const names = automatic.flatMap((family) => [rangeAnnotation(family), routerAnnotation(family), healthAnnotation(family)]);
  const isGone = (entry: string) => automatic.some((family) => entry.startsWith(`ipv${family}=`));
  const sources = (annotations[SOURCE] ?? "").split(",").filter((entry) => !isGone(entry));
  return {
    [CLAIM]: null,
    ...Object.fromEntries(names.map((name) => [name, null])),
    [SOURCE]: sources.length === 0 ? null : sources.join(","),
  };
}

/** Returns what to merge into the annotations so that they say what `record` says; `undefined` when they say it already. */
export function annotationPatch(annotations: Annotations, record: NodeRecord, enabled: readonly Family[]): AnnotationPatch | undefined {
  const different = Object.entries(wantedAnnotations(record, enabled)).filter(([name, value]) => (annotations[name] ?? null) !== value);
  return different.length === 0 ? undefined : Object.fromEntries(different);
}

/** Removes those of a family that is switched off, and leaves alone those of one that has no range. */
function wantedAnnotations(record: Pick<NodeRecord, "ipv4" | "ipv6">, enabled: readonly Family[]): AnnotationPatch {
  const wanted: Record<string, string | null> = { [CLAIM]: null };
  const sources: string[] = [];
  for (const family of [4, 6] as const) {
    const known = familyOf(record, family);
    const names = [rangeAnnotation(family), routerAnnotation(family), healthAnnotation(family)];
    if (!enabled.includes(family)) for (const name of names) wanted[name] = null;
    if (known === undefined || !enabled.includes(family)) continue;
    sources.push(`ipv${family}=${known.source}`);
    wanted[rangeAnnotation(family)] = formatPrefix(known.cidr);
    if (known.router !== undefined) wanted[routerAnnotation(family)] = formatAddress(known.router);
    if (known.health !== undefined) wanted[healthAnnotation(family)] = formatAddress(known.health);
  }
  wanted[SOURCE] = sources.length === 0 ? null : sources.join(",");
  return wanted;
}
