/** The answer to VERSION, apart from what versions mean to a call (version.ts): whoever asks for it loads nothing else. */
import { CNI_VERSIONS, type CniVersion } from "./protocol.ts";

/** The newest version that is spoken. */
const NEWEST_VERSION: CniVersion = "1.1.0";

/**
 * One compact line (recording version). Standard input is never read for it, as Calico's plugins do: a caller who
 * asks for versions may pass anything or nothing. So the caller's `cniVersion` is not echoed, as the specification would have it.
 */
export function renderVersions(): string {
  return `${JSON.stringify({ cniVersion: NEWEST_VERSION, supportedVersions: CNI_VERSIONS })}\n`;
}
