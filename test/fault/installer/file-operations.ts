/** The calls by which an installer changes files: recorded once with strace, then met one by one by a signal or an error. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Installation } from "../../support/installation.ts";

/** Whatever changes names, contents or permissions, or makes them durable. */
const CALLS = [
  ...["open", "openat", "creat", "write", "pwrite64", "writev", "copy_file_range", "sendfile", "ioctl", "ftruncate", "fallocate"],
  ...["chmod", "fchmod", "fchmodat", "mkdir", "mkdirat", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"],
  ...["unlink", "unlinkat", "rmdir", "fsync", "fdatasync"],
];

export interface FileOperation {
  readonly call: string;
  /** Among the calls of this name on the host's files, those that only read included; counted from 1. */
  readonly when: number;
  /** On what, below the host's root. */
  readonly path: string;
}

/** Strace with its log beside the host's directories. */
function traced(host: Installation, ...more: readonly string[]): readonly string[] {
  return ["/usr/bin/strace", "-f", "-y", "-qq", "-o", logOf(host), ...more];
}

const logOf = (host: Installation) => join(host.root, "trace");

export const recorded = (host: Installation) => traced(host, "-e", `trace=${CALLS.join(",")}`);

/** Every call of `recorded` that changes something of the host. */
export function operationsIn(host: Installation): readonly FileOperation[] {
  const counts = new Map<string, number>();
  return callsIn(host).flatMap(({ call, path, line }) => {
    const when = (counts.get(call) ?? 0) + 1;
    counts.set(call, when);
    const isReading = /^(open|openat)$/.test(call) && !/O_WRONLY|O_RDWR|O_CREAT|O_TRUNC/.test(line);
    return isReading ? [] : [{ call, when, path }];
  });
}

/** Strace's options that do something to one operation; `paths` are those that the host's calls are counted by. */
export function meeting(host: Installation, { call, when }: FileOperation, paths: readonly string[], fault: string): readonly string[] {
  const places = paths.flatMap((path) => ["-P", join(host.root, path)]);
  return traced(host, ...places, "-e", `trace=${call}`, "-e", `inject=${call}:${fault}:when=${when}`);
}

/** Paths below the host's root that the recorded calls name, so that another host's calls can be counted by them. */
export function pathsIn(host: Installation): readonly string[] {
  return [...new Set(callsIn(host).flatMap(({ paths }) => paths))];
}

/** On what the call was that strace has met: it must be the one that was meant. */
export function metIn(host: Installation, { call }: FileOperation, isInjected: (line: string) => boolean): string | undefined {
  return callsIn(host).find((one) => one.call === call && isInjected(one.line))?.path;
}

interface Call {
  readonly call: string;
  readonly path: string;
  readonly paths: readonly string[];
  readonly line: string;
}

/** Calls on files of the host's; the host's root and what has no name are left out. */
function callsIn(host: Installation): readonly Call[] {
  return readFileSync(logOf(host), "utf8")
    .split("\n")
    .flatMap((line) => {
      const call = /^\d+ +(\w+)\(/.exec(line)?.[1];
      const paths = [...line.matchAll(/[<"](\/[^">]*)[>"]/g)].flatMap(([, path = ""]) =>
        path.startsWith(`${host.root}/host/`) ? [path.slice(host.root.length + 1)] : [],
      );
      const [path] = paths;
      return call === undefined || path === undefined ? [] : [{ call, path, paths, line }];
    });
}
