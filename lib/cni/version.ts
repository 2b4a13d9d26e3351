/** Versions of the CNI specification: which are spoken, which operation needs which, and what an absent `cniVersion` means. */
import { TortieError } from "../errors/errors.ts";
import { CNI_VERSIONS, type CniCommand, type CniVersion } from "./protocol.ts";

/** The specification gives this meaning to a missing `cniVersion`; the IPAM plugin prints its result in it too (I§1.6). */
export const ABSENT_VERSION: CniVersion = "0.1.0";

/** What Calico's main plugin prints for a missing `cniVersion` (C§5.2). */
export const ABSENT_VERSION_OF_MAIN_RESULT: CniVersion = "0.2.0";

/** First version of the operations that were not there from the beginning. */
const FIRST_VERSION: Partial<Record<CniCommand, CniVersion>> = { CHECK: "0.4.0", STATUS: "1.1.0", GC: "1.1.0" };

export function isCniVersion(text: string): text is CniVersion {
  return CNI_VERSIONS.some((version) => version === text);
}

/** Whether `version` is `minimum` or newer. */
export function isAtLeast(version: CniVersion, minimum: CniVersion): boolean {
  return CNI_VERSIONS.indexOf(version) >= CNI_VERSIONS.indexOf(minimum);
}

/**
 * Checks the `cniVersion` of a network configuration; an empty one counts as absent (I§1.2).
 * @throws TortieError `version-unsupported`
 */
export function checkVersion(cniVersion: string | undefined): CniVersion | undefined {
  if (cniVersion === undefined || cniVersion === "") return undefined;
  if (isCniVersion(cniVersion)) return cniVersion;
  const supported = CNI_VERSIONS.map((version) => `"${version}"`).join(" ");
  throw new TortieError("version-unsupported", "incompatible CNI versions", {
    details: `config is ${JSON.stringify(cniVersion)}, plugin supports [${supported}]`,
  });
}

/**
 * Checks that a configuration's version has the operation (recordings verbs-0.3.1, check, status-gc).
 * @throws TortieError `operation-unsupported`
 */
export function checkOperation(command: CniCommand, cniVersion: CniVersion | undefined): void {
  const first = FIRST_VERSION[command];
  const version = cniVersion ?? ABSENT_VERSION;
  if (first === undefined || isAtLeast(version, first)) return;
  throw new TortieError("operation-unsupported", `config version does not allow ${command}`, {
    details: `cniVersion is "${version}", ${command} needs "${first}" or newer`,
  });
}
