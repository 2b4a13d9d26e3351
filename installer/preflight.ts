/** What this host lacks, looked at before anything is changed: each finding says what will not work, and what to do. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isExecutable, isThere } from "../lib/system/files.ts";
import type { InstallSettings } from "./settings.ts";

export interface Finding {
  /** `missing`: pods would get no network. `warning`: something will be different from what might be expected. */
  readonly severity: "ok" | "warning" | "missing";
  readonly subject: string;
  readonly message: string;
}

type Subject = Pick<InstallSettings, "binDirs" | "netDir" | "confName" | "oldConfName" | "pluginSource">;

/** Where the host's own files are; another folder in tests. */
export function preflight(settings: Subject, root = "/"): readonly Finding[] {
  return [libc(root), kernel(root), memory(root), ...plugins(settings), ...earlierLists(settings)];
}

/** Bun's executables need glibc; its loader is where the ABI of the machine says (System V ABI, gABI). */
function libc(root: string): Finding {
  const loaders = ["lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1"];
  if (loaders.some((path) => existsSync(join(root, path)))) return { severity: "ok", subject: "libc", message: "glibc is there" };
  const musl = list(join(root, "lib")).some((name) => name.startsWith("ld-musl-"));
  const found = musl ? "this host has musl" : "no loader of glibc was found";
  return { severity: "missing", subject: "libc", message: `${found}: the executables need glibc 2.17 or newer on the host` };
}

/** Links of pods are veth pairs; without netlink there is nothing at all. */
function kernel(root: string): Finding {
  if (!existsSync(join(root, "proc/sys/net/ipv4/conf"))) {
    return { severity: "missing", subject: "kernel", message: "/proc/sys/net/ipv4 is not there: is /proc mounted?" };
  }
  if (!existsSync(join(root, "proc/sys/net/ipv6/conf"))) {
    return { severity: "warning", subject: "kernel", message: "IPv6 is switched off: pods get IPv4 addresses only" };
  }
  return { severity: "ok", subject: "kernel", message: "IPv4 and IPv6 are there" };
}

/** The runtime writes machine code while it runs; a process that may not do so ends at once (docs/reference/requirements.md). */
function memory(root: string): Finding {
  const status = text(join(root, "sys/fs/selinux/booleans/deny_execmem"));
  if (status.startsWith("1")) {
    return {
      severity: "missing",
      subject: "memory",
      message: "SELinux denies memory that is written and executed (deny_execmem): allow it for the runtime's domain",
    };
  }
  return { severity: "ok", subject: "memory", message: "nothing known denies memory that is written and executed" };
}

/** What the conflist chains after the main plugin. */
function plugins({ binDirs, pluginSource }: Subject): readonly Finding[] {
  return ["portmap", "loopback"].map((name) => {
    const found = [...binDirs, ...(pluginSource === "" ? [] : [pluginSource])].map((directory) => join(directory, name)).find(isExecutable);
    if (found !== undefined) return { severity: "ok", subject: name, message: `${found} is there` };
    const message = `not in ${binDirs.join(" or ")}: install the CNI reference plugins there, or no pod that needs it starts`;
    return { severity: "warning", subject: name, message };
  });
}

/** Runtimes take the first file by name (libcni; containerd's and CRI-O's default). */
function earlierLists({ netDir, confName, oldConfName }: Subject): readonly Finding[] {
  const earlier = list(netDir)
    .filter((name) => /\.(conf|conflist|json)$/.test(name) && name < confName && name !== oldConfName)
    .sort();
  return earlier.map((name) => ({
    severity: "warning",
    subject: join(netDir, name),
    message: `comes before ${confName} in order: runtimes take it instead; move it away`,
  }));
}

function list(directory: string): readonly string[] {
  return isThere(directory) ? readdirSync(directory) : [];
}

function text(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
