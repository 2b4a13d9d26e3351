/** Waiting for what a server does in its own time. */
import { pause } from "./process.ts";

const LIMIT_MS = 30_000;

/** Asks again and again until the answer is yes. @throws Error that names what was waited for */
export async function until(what: string, isSo: () => boolean | Promise<boolean>, limitMs = LIMIT_MS): Promise<void> {
  const deadline = Date.now() + limitMs;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`waited ${limitMs} ms for ${what}`);
    await pause(10);
  }
}
