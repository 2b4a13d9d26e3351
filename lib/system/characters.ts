/**
 * Tests of short texts without regular expressions: the first one of a process costs it 0.08 ms and every further one 0.02 to 0.04,
 * of which the way of an ADD would have twenty (docs/benchmarks.md).
 */

/** Whether every character, as a UTF-16 code unit, is allowed; an empty text consists of anything. */
export function consistsOf(text: string, isAllowed: (code: number) => boolean): boolean {
  for (let at = 0; at < text.length; at++) {
    if (!isAllowed(text.charCodeAt(at))) return false;
  }
  return true;
}

/** 0 to 9. */
export function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

/** a to z. */
export function isLowerCaseLetter(code: number): boolean {
  return code >= 0x61 && code <= 0x7a;
}

/** A to Z, a to z, 0 to 9. */
export function isLetterOrDigit(code: number): boolean {
  return isDigit(code) || isLowerCaseLetter(code) || (code >= 0x41 && code <= 0x5a);
}

/** A letter, a digit, "_", "." or "-". */
export function isNameCharacter(code: number): boolean {
  return isLetterOrDigit(code) || code === 0x5f || code === 0x2e || code === 0x2d;
}

/** ASCII that shows: no space, no control character. */
export function isVisible(code: number): boolean {
  return code > 0x20 && code < 0x7f;
}

/**
 * RFC 1123 subdomain, as Kubernetes names its objects: labels of lower-case letters, digits and "-" joined by ".", none of which begins
 * or ends with "-"; at most 253 characters.
 */
export function isSubdomain(text: string): boolean {
  if (text.length > 253) return false;
  for (const label of text.split(".")) {
    if (label === "" || label.startsWith("-") || label.endsWith("-") || !consistsOf(label, isLabelCharacter)) return false;
  }
  return true;
}

function isLabelCharacter(code: number): boolean {
  return isDigit(code) || isLowerCaseLetter(code) || code === 0x2d;
}
