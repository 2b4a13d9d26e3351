/**
 * Look-up labels for the block affinities of older Calico versions, once for each boot of a node (I§1.8). Calico runs it before an
 * address asked for by name only; the automatic path relies on calico/node having run it.
 */
import { isDatastoreFailure } from "../lib/datastore/errors.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { closeFile, directoryOf, makeDirectories, O_CREAT, O_WRONLY, openFile, statusOf } from "../lib/system/files.ts";
import type { IpamServices } from "./services.ts";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2000;

/**
 * Tries again, with growing pauses, while others write the same affinities. A store that is away is not waited for here: its client has
 * waited already, and the node's lock is held meanwhile.
 *
 * @throws TortieError `datastore-unavailable` when the time is over, or at once when waiting cannot help
 */
export async function upgradeLabelsOnce(services: IpamServices, signal: AbortSignal): Promise<void> {
  const marker = services.upgradeMarker;
  if (statusOf(marker) !== undefined) return;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    try {
      await services.allocator.upgradeHost({ type: "host", name: services.node }, { signal });
      break;
    } catch (error) {
      if (isDatastoreFailure(error, "conflict") && !signal.aborted) await services.sleep(pause, signal);
      else {
        throw new TortieError("datastore-unavailable", `failed to upgrade IPAM database: ${messageOf(error)}`, { cause: error });
      }
    }
  }
  try {
    makeDirectories(directoryOf(marker), 0o755);
    closeFile(openFile(marker, O_WRONLY | O_CREAT, 0o644));
  } catch (error) {
    // The next ADD does it again, which is harmless.
    services.log.error(`cannot write ${marker}: ${messageOf(error)}`);
  }
}
