/** Starts `store-client` processes (programs/store-client.ts). */
import { join } from "node:path";

const PROGRAM = join(__dirname, "programs", "store-client.ts");

/** @returns everything it printed until its end */
export function runStoreClient(path: string, mode: "create" | "count", times: number): Promise<string> {
  return new Response(spawn(path, mode, times).stdout).text();
}

/**
 * Lets a process store numbers (at most `limit`, when given), and kills it by SIGKILL after it has printed the one before `until`.
 * @returns the numbers it had printed, each of which it had stored
 */
export async function killedWriter(path: string, until: number, limit = 0): Promise<readonly number[]> {
  const child = spawn(path, "number", limit);
  let output = "";
  for await (const chunk of child.stdout) {
    output += Buffer.from(chunk).toString();
    if (output.split("\n").length > until) child.kill("SIGKILL");
  }
  await child.exited;
  // The last line may have been cut.
  return output.split("\n").slice(0, -1).map(Number);
}

function spawn(path: string, mode: string, times: number): Bun.Subprocess<"ignore", "pipe", "inherit"> {
  return Bun.spawn([process.execPath, PROGRAM, path, mode, String(times)], { stdout: "pipe", stderr: "inherit", stdin: "ignore" });
}
