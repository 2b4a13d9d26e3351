/** Standard input, read whole before anything else is done. */
import { readToEnd } from "../system/files.ts";

const STDIN = 0;

/**
 * All bytes of standard input, to its end; none when it is closed.
 * @throws SystemError, for instance EISDIR
 */
export function readStandardInput(): Uint8Array {
  return readToEnd(STDIN, "standard input");
}
