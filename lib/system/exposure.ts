/** Whether a user other than root could have changed or read a file that a program with root's power trusts. */
import { type FileStatus, statusOf } from "./files.ts";

const GROUP_OR_OTHERS_WRITE = 0o022;
const OTHERS_READ = 0o004;

interface Trusted {
  readonly path: string;
  /** It holds credentials or addresses of others. */
  readonly isSecret: boolean;
}

/** @returns what is wrong with the file, as a sentence; `undefined` when nothing is, or nothing is there */
export function exposureOf({ path, isSecret }: Trusted, ourselves = process.geteuid?.() ?? 0): string | undefined {
  const status = look(path);
  if (status === undefined) return undefined;
  if (status.owner !== 0 && status.owner !== ourselves) return `${path} belongs to user ${status.owner}`;
  if ((status.mode & GROUP_OR_OTHERS_WRITE) !== 0) return `${path} may be written by others than its owner`;
  if (isSecret && (status.mode & OTHERS_READ) !== 0) return `${path} may be read by everybody`;
  return undefined;
}

/** A file that cannot be examined is reported by the code that needs it. */
function look(path: string): FileStatus | undefined {
  try {
    return statusOf(path);
  } catch {
    return undefined;
  }
}
