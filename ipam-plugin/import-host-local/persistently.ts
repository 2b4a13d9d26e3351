/** Writes of objects that others write as well (I§7): tried again on conflict, a few times. */
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { UpgradePorts } from "./ports.ts";

const MOST_TRIES = 5;
const PAUSE_MS = 1000;

/** Safe to repeat because a write that conflicted has changed nothing. @throws what the last try threw */
export async function persistently({ sleep }: Pick<UpgradePorts, "sleep">, write: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await write();
    } catch (error) {
      if (!isDatastoreFailure(error, "conflict") || tries === MOST_TRIES) throw error;
      await sleep(PAUSE_MS);
    }
  }
}
