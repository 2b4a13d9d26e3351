/**
 * Look-up labels for the block affinities of older Calico versions, once for each boot of a node (I§1.8). Calico runs it before an
 * address asked for by name only; the automatic path relies on calico/node having run it.
 */
import { isDatastoreFailure } from "../lib/datastore/errors.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { closeFile, directoryOf, makeDirectories, O_CREAT, O_WRONLY, openFile, statusOf } from "../lib/system/files.ts";
import type { IpamServices } from "./services.ts";

const FIRST_DELAY_MS = 100;

/** @throws TortieError `datastore-unavailable` when the time is over, or at once when waiting cannot help */
export async function upgradeLabelsOnce(services: IpamServices, signal: AbortSignal): Promise<void> {
  const marker = services.upgradeMarker;
  if (statusOf(marker) !== undefined) return;
  for (let delay = FIRST_DELAY_MS; ; delay *= 2) {
    try {
      await services.allocator.upgradeHost({ type: "host", name: services.node }, signal);
      break;
    } catch (error) {
      if (!isDatastoreFailure(error, "unavailable", "conflict") || signal.aborted) {
        throw new TortieError("datastore-unavailable", `failed to upgrade IPAM database: ${messageOf(error)}`, { cause: error });
      }
      await services.sleep(delay);
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
