/** How commands that work on a datastore end. */
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { reportError, type Terminal } from "./terminal.ts";

/** @returns the exit status of `work`, or 1 with what it threw on the terminal */
export async function reporting(terminal: Terminal, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    return reportError(terminal, isDatastoreFailure(error, "unauthorized") ? unauthorized(error) : error);
  }
}

/** The caller may choose another account, which a plugin cannot. */
function unauthorized(error: Error): TortieError {
  return new TortieError("datastore-unauthorized", error.message, {
    cause: error,
    next: "give a --kubeconfig whose account has that right; docs/reference/rights.md lists what each command needs",
  });
}
