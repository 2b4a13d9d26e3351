/** Standard input, read whole before anything else is done. */
import { readSync } from "node:fs";
import { isSystemError } from "./system-error.ts";

const STDIN = 0;
const CHUNK = 64 * 1024;

/** How long to pause, in milliseconds, when the other side set O_NONBLOCK on our end and has written nothing yet. */
const PAUSE = 2;

/**
 * All bytes of standard input, to its end; none when it is closed.
 * @throws Error of the system call, for instance EISDIR
 */
export function readStandardInput(): Uint8Array {
  const chunks: Uint8Array[] = [];
  for (;;) {
    const chunk = new Uint8Array(CHUNK);
    const length = readSome(chunk);
    if (length === 0) return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
    chunks.push(chunk.subarray(0, length));
  }
}

function readSome(chunk: Uint8Array): number {
  for (;;) {
    try {
      return readSync(STDIN, chunk);
    } catch (error) {
      if (!isSystemError(error, "EAGAIN")) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE);
    }
  }
}
