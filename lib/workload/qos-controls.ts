/**
 * Reads limits of bandwidth, packets and connections that a pod's annotations ask for (C§3.4). Felix enforces them; the plugin only passes
 * them on, so that nothing in them is ever an error.
 */

import type { QosControls, QosLimit } from "./endpoint.ts";

const PREFIX = "qos.projectcalico.org/";
const KUBERNETES_BANDWIDTH = { ingress: "kubernetes.io/ingress-bandwidth", egress: "kubernetes.io/egress-bandwidth" } as const;

const LIMITS = {
  Bandwidth: { min: 1_000, max: 1_000_000_000_000_000 },
  Burst: { min: 1_000, max: 34_359_738_360 },
  Peakrate: { min: 1_010, max: 1_010_000_000_000_000 },
  Minburst: { min: 1_000, max: 100_000_000 },
  PacketRate: { min: 1, max: 10_000 },
  PacketBurst: { min: 1, max: 10_000 },
  MaxConnections: { min: 1, max: 4_294_967_295 },
} as const satisfies Record<QosLimit, unknown>;

type Direction = "ingress" | "egress";

/** Bits: 4Gi. */
const DEFAULT_BURST = 4_294_967_296;
/** Packets. */
const DEFAULT_PACKET_BURST = 5;

interface ReadQosControls {
  /** `undefined` when no limit is left. */
  readonly controls: QosControls | undefined;
  /** One for each value that was changed or dropped. */
  readonly warnings: readonly string[];
}

export function qosControlsOf(annotations: Readonly<Record<string, string>>): ReadQosControls {
  if (!Object.keys(annotations).some(speaksOfQos)) return { controls: undefined, warnings: [] };
  const warnings: string[] = [];
  const controls: QosControls = {
    ...directionControls("ingress", annotations, warnings),
    ...directionControls("egress", annotations, warnings),
    ...dscpControl(annotations, warnings),
  };
  return { controls: Object.keys(controls).length === 0 ? undefined : controls, warnings };
}

function speaksOfQos(key: string): boolean {
  return key.startsWith(PREFIX) || key === KUBERNETES_BANDWIDTH.ingress || key === KUBERNETES_BANDWIDTH.egress;
}

function directionControls(direction: Direction, annotations: Readonly<Record<string, string>>, warnings: string[]): QosControls {
  /** 0 stands for no limit. */
  const read = (stem: QosLimit, key = `${PREFIX}${direction}${stem}`): number => {
    const value = annotations[key];
    return value === undefined ? 0 : limited(key, value, stem, warnings);
  };
  const drop = (stem: QosLimit, reason: string): number => {
    warnings.push(`annotation ${PREFIX}${direction}${stem} is ignored: ${reason}`);
    return 0;
  };
  const hasOwnBandwidth = annotations[`${PREFIX}${direction}Bandwidth`] !== undefined;
  const bandwidth = hasOwnBandwidth ? read("Bandwidth") : read("Bandwidth", KUBERNETES_BANDWIDTH[direction]);

  let burst = read("Burst");
  if (burst !== 0 && bandwidth === 0) burst = drop("Burst", `it needs ${direction}Bandwidth`);
  else if (burst === 0 && bandwidth !== 0) burst = DEFAULT_BURST;

  let peakrate = read("Peakrate");
  if (peakrate !== 0 && bandwidth === 0) peakrate = drop("Peakrate", `it needs ${direction}Bandwidth`);
  else if (peakrate !== 0 && peakrate <= bandwidth) peakrate = drop("Peakrate", `it must be above ${direction}Bandwidth, ${bandwidth}`);

  let minburst = read("Minburst");
  if (minburst !== 0 && peakrate === 0) minburst = drop("Minburst", `it needs ${direction}Peakrate`);

  const packetRate = read("PacketRate");
  let packetBurst = read("PacketBurst");
  if (packetBurst !== 0 && packetRate === 0) packetBurst = drop("PacketBurst", `it needs ${direction}PacketRate`);
  else if (packetBurst === 0 && packetRate !== 0) packetBurst = DEFAULT_PACKET_BURST;

  const values: Record<QosLimit, number> = {
    Bandwidth: bandwidth,
    Burst: burst,
    Peakrate: peakrate,
    Minburst: minburst,
    PacketRate: packetRate,
    PacketBurst: packetBurst,
    MaxConnections: read("MaxConnections"),
  };
  return Object.fromEntries(Object.entries(values).flatMap(([stem, value]) => (value === 0 ? [] : [[`${direction}${stem}`, value]])));
}

function limited(key: string, text: string, stem: QosLimit, warnings: string[]): number {
  const value = parseQuantity(text);
  if (value === undefined) {
    warnings.push(`annotation ${key} is ignored: ${JSON.stringify(text)} is no quantity`);
    return 0;
  }
  const { min, max } = LIMITS[stem];
  const within = value < BigInt(min) ? min : value > BigInt(max) ? max : Number(value);
  if (BigInt(within) !== value) warnings.push(`annotation ${key}: ${text} is not between ${min} and ${max}; ${within} is used`);
  return within;
}

function dscpControl(annotations: Readonly<Record<string, string>>, warnings: string[]): QosControls {
  const key = `${PREFIX}dscp`;
  const value = annotations[key];
  if (value === undefined) return {};
  const dscp = parseDscp(value);
  if (dscp !== undefined) return { dscp };
  warnings.push(`annotation ${key} is ignored: ${JSON.stringify(value)} is neither 0 to 63 nor the name of a code point`);
  return {};
}

/** The names of code points that Calico knows (RFC 2474, RFC 2597, RFC 3246; C§3.4). */
const NAMES = new Set([
  ...["DF", "EF"],
  ...[1, 2, 3, 4].flatMap((kind) => [1, 2, 3].map((drop) => `AF${kind}${drop}`)),
  ...[0, 1, 2, 3, 4, 5, 6].map((kind) => `CS${kind}`),
]);

const LARGEST = 63;

/** @returns a number, or a name in upper case; `undefined` when the text is neither */
function parseDscp(text: string): number | string | undefined {
  if (/^\d+$/.test(text)) return Number(text) <= LARGEST ? Number(text) : undefined;
  const name = text.toUpperCase();
  return NAMES.has(name) ? name : undefined;
}

/** Suffixes of Kubernetes quantities (k8s.io/apimachinery, pkg/api/resource): powers of ten. */
const DECIMAL: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, "": 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
/** Powers of two. */
const BINARY: Readonly<Record<string, number>> = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 };

const QUANTITY = /^([+-]?)(\d*)(?:\.(\d*))?([A-Za-z]*|[eE][+-]?\d+)$/;

/** More digits than any quantity has; what is longer is no quantity but an attempt to keep the processor busy. */
const LONGEST = 64;
/** Beyond these the value is as good as infinite or nothing. */
const LARGEST_EXPONENT = 40;

/**
 * Reads the value, rounded away from zero to a whole number, as Quantity.Value does.
 * @returns `undefined` when the text is no quantity
 */
export function parseQuantity(text: string): bigint | undefined {
  const parts = text.length > LONGEST ? null : QUANTITY.exec(text);
  if (parts === null) return undefined;
  const [, sign, whole = "", fraction = "", suffix = ""] = parts;
  if (whole === "" && fraction === "") return undefined;
  const scale = scaleOf(suffix);
  if (scale === undefined) return undefined;
  const numerator = BigInt(whole + fraction) * scale.numerator;
  const denominator = 10n ** BigInt(fraction.length) * scale.denominator;
  const magnitude = (numerator + denominator - 1n) / denominator;
  return sign === "-" ? -magnitude : magnitude;
}

function scaleOf(suffix: string): { readonly numerator: bigint; readonly denominator: bigint } | undefined {
  const binary = BINARY[suffix];
  if (binary !== undefined) return { numerator: 1n << BigInt(binary), denominator: 1n };
  const exponent = DECIMAL[suffix] ?? (/^[eE][+-]?\d/.test(suffix) ? Number(suffix.slice(1)) : undefined);
  if (exponent === undefined) return undefined;
  const size = 10n ** BigInt(Math.min(Math.abs(exponent), LARGEST_EXPONENT));
  return exponent < 0 ? { numerator: 1n, denominator: size } : { numerator: size, denominator: 1n };
}
