/** The work of one build (A§5.5): the links as desired, then the seams, whose files take their place when all of it has succeeded. */
import type { EndpointDirectories } from "../record/directories.ts";
import type { Buildable, BuildWork } from "./builds.ts";
import type { KernelWork } from "./kernel-work.ts";
import type { Level } from "./levels.ts";
import { type MendingParts, mendLink } from "./mend-link.ts";
import type { DatapathSeam } from "./seams.ts";
import { adoptNext, keepFailed, prepareNext } from "./swap.ts";

export interface BuildEndpointParts extends MendingParts {
  readonly directories: EndpointDirectories;
  readonly datapath: DatapathSeam;
  readonly kernelWork: KernelWork;
}

export async function buildEndpoint(
  { dataplane, grants, hold, directories, datapath, kernelWork }: BuildEndpointParts,
  endpoint: Buildable,
  { level, isKernelFresh }: BuildWork,
  signal: AbortSignal,
): Promise<void> {
  if (!isKernelFresh) {
    // A comparison is synchronous, and a restore asks for one of each endpoint: calls that wait come before the next one.
    await new Promise((resolve) => setImmediate(resolve));
    signal.throwIfAborted();
    await kernelWork.during(endpoint.record.id, () => mendLink(endpoint, { dataplane, grants, hold }, signal));
  }
  signal.throwIfAborted();
  if (level < 2) return;
  if (!writesFiles(datapath, level)) return datapath.build(endpoint.record, level, undefined, signal);
  const { id } = endpoint.record;
  const next = prepareNext(directories, id);
  try {
    await datapath.build(endpoint.record, level, next, signal);
    signal.throwIfAborted();
    adoptNext(directories, id);
  } catch (error) {
    keepFailed(directories, id);
    throw error;
  }
}

function writesFiles({ writesFilesFrom }: DatapathSeam, level: Level): boolean {
  return writesFilesFrom !== undefined && level >= writesFilesFrom;
}
