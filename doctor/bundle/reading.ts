/** Reads what a bug report holds, each bounded in time and in bytes: what others have written may be of any length, and a file no file. */
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { messageOf } from "../../lib/errors/errors.ts";

export interface Bounds {
  readonly bytes: number;
  readonly timeoutMs: number;
}

export interface Read {
  readonly text: string;
  /** There was more. */
  readonly isCut: boolean;
}

/** Reads the end of a regular file, which is where a log says what has just happened. @throws the system's error */
export function endOf(file: string, { bytes }: Pick<Bounds, "bytes">): Read {
  // Does not wait for the other end of a pipe that has this name.
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const status = fstatSync(descriptor);
    if (!status.isFile()) throw new Error(`${file} is no regular file`);
    const start = Math.max(0, status.size - bytes);
    const buffer = Buffer.alloc(Math.min(bytes, status.size));
    const length = readSync(descriptor, buffer, 0, buffer.length, start);
    const text = buffer.toString("utf8", 0, length);
    // A secret whose beginning is cut off could not be told from other words: begins with a whole line.
    return start === 0 ? { text, isCut: false } : { text: text.slice(text.indexOf("\n") + 1), isCut: true };
  } finally {
    closeSync(descriptor);
  }
}

/** Runs a program and reads what it prints, up to the bound; then it is stopped. @returns its text, or why there is none */
export async function outputOf(command: readonly string[], { bytes, timeoutMs }: Bounds): Promise<Read> {
  const [program = "", ...rest] = command;
  const file = Bun.which(program, { PATH: `${process.env.PATH ?? ""}:/usr/sbin:/usr/bin:/sbin:/bin` });
  if (file === null) return { text: `(there is no program ${program} here)\n`, isCut: false };
  try {
    const child = Bun.spawn([file, ...rest], {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      env: { PATH: process.env.PATH, LC_ALL: "C" },
    });
    const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
    const [out, err] = await Promise.all([
      upTo(child.stdout, bytes, () => child.kill("SIGKILL")),
      upTo(child.stderr, 4_096, () => undefined),
    ]);
    clearTimeout(timer);
    const said = err.text === "" ? "" : `(it says: ${err.text.trim()})\n`;
    return { text: out.text + said, isCut: out.isCut };
  } catch (error) {
    return { text: `(${program} cannot be run: ${messageOf(error)})\n`, isCut: false };
  }
}

async function upTo(stream: ReadableStream<Uint8Array>, most: number, onMore: () => void): Promise<Read> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of stream) {
    if (length < most) chunks.push(chunk.subarray(0, most - length));
    if (length <= most && length + chunk.length > most) onMore();
    length += chunk.length;
  }
  const text = Buffer.concat(chunks).toString("utf8");
  // As above: ends with a whole line.
  return length > most ? { text: text.slice(0, text.lastIndexOf("\n") + 1), isCut: true } : { text, isCut: false };
}
