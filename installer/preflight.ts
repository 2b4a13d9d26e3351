/** Looks beforehand for what this host lacks by itself and for the conflist: each finding says what will not work, and what to do. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { whyRefused } from "../lib/cni/runtime/conflist.ts";
import { isJsonObject, type JsonObject } from "../lib/json/value.ts";
import { ifReadable, isExecutable, isThere } from "../lib/system/files.ts";
import { isInPod } from "./kubeconfig.ts";
import { conflistsIn } from "./lists.ts";
import { listOf } from "./merge.ts";
import type { InstallSettings } from "./settings.ts";

export interface Finding {
  /** `missing`: pods would get no network. `warning`: something will be different from what might be expected. */
  readonly severity: "ok" | "warning" | "missing";
  readonly subject: string;
  readonly message: string;
}

type Subject = Pick<InstallSettings, "binDirs" | "netDir" | "confName" | "oldConfName" | "pluginSource">;

/** Looks at the host's own files below `root`, which is another folder in tests. */
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

/** Looks for the kernel's settings of IPv4 and IPv6 below /proc/sys. */
function kernel(root: string): Finding {
  if (!existsSync(join(root, "proc/sys/net/ipv4/conf"))) {
    return { severity: "missing", subject: "kernel", message: "/proc/sys/net/ipv4 is not there: is /proc mounted?" };
  }
  if (!existsSync(join(root, "proc/sys/net/ipv6/conf"))) {
    return { severity: "warning", subject: "kernel", message: "IPv6 is switched off: pods get IPv4 addresses only" };
  }
  return { severity: "ok", subject: "kernel", message: "IPv4 and IPv6 are there" };
}

/** Looks whether a process may write machine code while it runs; else the runtime ends at once (docs/reference/requirements.md). */
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

/** Looks for what the conflist chains after the main plugin. */
function plugins({ binDirs, pluginSource }: Subject): readonly Finding[] {
  return ["portmap", "loopback"].map((name) => {
    const found = [...binDirs, ...(pluginSource === "" ? [] : [pluginSource])].map((directory) => join(directory, name)).find(isExecutable);
    if (found !== undefined) return { severity: "ok", subject: name, message: `${found} is there` };
    const message = `not in ${binDirs.join(" or ")}: install the CNI reference plugins there, or no pod that needs it starts`;
    return { severity: "warning", subject: name, message };
  });
}

function earlierLists({ netDir, confName, oldConfName }: Subject): readonly Finding[] {
  const earlier = conflistsIn(netDir).filter((path) => basename(path) < confName && basename(path) !== oldConfName);
  return earlier.map((subject) => {
    const refused = whyRefused(subject);
    const instead =
      refused === undefined ? "runtimes take it instead" : `containerd stops at it, CRI-O passes it over (${refused.message})`;
    return { severity: "warning", subject, message: `comes before ${confName} in order: ${instead}; move it away` };
  });
}

function list(directory: string): readonly string[] {
  return isThere(directory) ? readdirSync(directory) : [];
}

function text(path: string): string {
  return ifReadable(() => readFileSync(path, "utf8")) ?? "";
}

type Places = Pick<InstallSettings, "netDir" | "hostNetDir" | "serviceAccount" | "confName">;

/** Names a list without any server, for hosts that lack one. */
const LOCAL = "manifests/conflist/10-tortie-local.conflist";

/** @param text of the conflist @returns nothing for a list without our main plugin, which is not ours to judge */
export function needsOfList(text: string, places: Places): readonly Finding[] {
  const main = listOf(text)?.main;
  if (main === undefined) return [];
  const refused = whyRefused(places.confName, text);
  if (refused !== undefined) return [{ severity: "missing", subject: "list", message: `${refused.message}: ${refused.next}` }];
  switch (main.datastore_type) {
    case "local":
      return [];
    case "etcdv3":
      return [etcd(main)];
    default:
      return [kubeconfig(main, places)];
  }
}

function etcd({ etcd_endpoints: endpoints, etcd_discovery_srv: discovery }: JsonObject): Finding {
  if (endpoints || discovery) return { severity: "ok", subject: "datastore", message: "etcd's addresses are in the list" };
  return { severity: "missing", subject: "datastore", message: "the list's datastore is etcd, and ETCD_ENDPOINTS names none" };
}

/** Looks for the kubeconfig. In a pod the installer writes it, and paths of the host cannot be looked at but for the directory of lists. */
function kubeconfig({ kubernetes, k8s_api_root: root }: JsonObject, places: Places): Finding {
  const subject = "datastore";
  const path = isJsonObject(kubernetes) ? kubernetes.kubeconfig : undefined;
  if (isInPod(places)) return { severity: "ok", subject, message: "the API server, with a token that is asked for" };
  if (root || typeof path !== "string" || path === "") return { severity: "ok", subject, message: "the API server, as the list says" };
  const { hostNetDir, netDir } = places;
  const seen = path.startsWith(`${hostNetDir}/`) ? join(netDir, path.slice(hostNetDir.length)) : path;
  if (isThere(seen)) return { severity: "ok", subject, message: `the API server, by ${path}` };
  return {
    severity: "missing",
    subject,
    message: `the list needs a Kubernetes API server, and ${path} is not there: put a kubeconfig of the plugins there, or, without a cluster, install with CNI_NETWORK_CONFIG_FILE=${LOCAL}`,
  };
}
