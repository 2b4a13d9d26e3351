/** Files with certificates, keys and tokens, and the same as base64 inside a kubeconfig. What is wrong with one is said with its place. */

import { messageOf, TortieError } from "../../errors/errors.ts";
import { readText } from "../../system/files.ts";

export type PemKind = "CERTIFICATE" | "PRIVATE KEY";

/** @param place where the path was given: `key certificate-authority of cluster "c" in FILE` @throws TortieError `kubeconfig-unreadable` */
export function readNamedFile(path: string, place: string): string {
  try {
    return readText(path);
  } catch (cause) {
    throw new TortieError("kubeconfig-unreadable", `unable to read ${place}: ${messageOf(cause)}`, { cause });
  }
}

/** @throws TortieError `kubeconfig-invalid` when `text` has no such block */
export function checkPem(text: string, kind: PemKind, place: string): string {
  // Keys are of several kinds: "RSA PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY".
  const begin = text.indexOf("-----BEGIN ");
  if (begin < 0 || !text.includes(`${kind}-----`, begin)) {
    throw new TortieError("kubeconfig-invalid", `${place} holds no PEM block of kind ${kind}`);
  }
  return text;
}

/** @throws TortieError `kubeconfig-invalid` */
export function decodeBase64(text: string, place: string): string {
  try {
    return atob(text);
  } catch (cause) {
    throw new TortieError("kubeconfig-invalid", `${place} is not base64`, { cause });
  }
}

/**
 * A bearer token as it may stand in a header.
 *
 * @throws TortieError `kubeconfig-invalid` when it is empty or would break the header
 */
export function bearer(text: string, place: string): string {
  const token = text.trim();
  if (token === "") throw new TortieError("kubeconfig-invalid", `${place} is empty`);
  if (!/^[!-~]*$/.test(token)) {
    throw new TortieError("kubeconfig-invalid", `${place} holds white space or characters that no token has`);
  }
  return `Bearer ${token}`;
}
