/** Quantities as Kubernetes writes them (k8s.io/apimachinery, pkg/api/resource): "10M", "1.5Gi", "1e3", "250m". */

/** Powers of ten. */
const DECIMAL: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, "": 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
/** Powers of two. */
const BINARY: Readonly<Record<string, number>> = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 };

const QUANTITY = /^([+-]?)(\d*)(?:\.(\d*))?([A-Za-z]*|[eE][+-]?\d+)$/;

/** More digits than any quantity has; what is longer is no quantity but an attempt to keep the processor busy. */
const LONGEST = 64;
/** Beyond these the value is as good as infinite or nothing. */
const LARGEST_EXPONENT = 40;

/**
 * The value rounded away from zero to a whole number, as Quantity.Value does.
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
