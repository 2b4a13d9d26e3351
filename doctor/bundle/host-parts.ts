/** Lists what a bug report holds of a host: configuration, logs and the kernel's state. Whatever is a secret by its nature is not read. */
import { existsSync, lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { isConflist } from "../../installer/lists.ts";
import { isObject } from "../../lib/json/decode.ts";
import { parseJson } from "../../lib/json/parse.ts";
import { hostName, ifReadable } from "../../lib/system/files.ts";
import type { Part } from "./bundle.ts";
import { type Bounds, endOf, outputOf } from "./reading.ts";

export interface HostPlaces {
  readonly netDir: string;
  /** Folders of plugins. */
  readonly pluginFolders: readonly string[];
  /** Logs besides those that the lists name. */
  readonly logs: readonly string[];
  readonly version: string;
}

const MOST_LISTS = 20;
/** A list may name any file as its log; what is read for others is only what looks like one. */
const LOOKS_LIKE_LOG = /^\/var\/log\/|\.log(?:\.\d+)?$/;
const PLUGIN_LOG = "/var/log/calico/cni/cni.log";
const UNITS = ["tortie-node", "containerd", "crio", "kubelet"];
const SETTINGS = "^net\\.(ipv4|ipv6)\\.(ip_forward|conf\\.|neigh\\.default\\.gc_thresh|ip_no_pmtu_disc)|^net\\.(core|netfilter|bridge)\\.";

/** Commands whose output describes the kernel, by the file it goes to. */
const KERNEL: Readonly<Record<string, readonly string[]>> = {
  "links.txt": ["ip", "-d", "-s", "link"],
  "addresses.txt": ["ip", "address"],
  "routes4.txt": ["ip", "-4", "route", "show", "table", "all"],
  "routes6.txt": ["ip", "-6", "route", "show", "table", "all"],
  "rules4.txt": ["ip", "-4", "rule"],
  "rules6.txt": ["ip", "-6", "rule"],
  "neighbours.txt": ["ip", "neighbour"],
  "namespaces.txt": ["ip", "netns"],
  "vxlan.txt": ["bridge", "fdb"],
  "qdiscs.txt": ["tc", "qdisc"],
  "nftables.txt": ["nft", "list", "ruleset"],
  "iptables4.txt": ["iptables-save"],
  "iptables6.txt": ["ip6tables-save"],
  "sysctls.txt": ["sysctl", "--all", "--pattern", SETTINGS],
  "modules.txt": ["lsmod"],
};

export function hostParts(places: HostPlaces, bounds: Bounds): readonly Part[] {
  return [
    { path: "versions.txt", read: () => versions(places, bounds) },
    { path: "files.txt", read: () => ({ text: [places.netDir, ...places.pluginFolders].map(listing).join("\n"), isCut: false }) },
    ...listParts(places, bounds),
    ...logParts(places, bounds),
    ...UNITS.map((unit) => ({
      path: `logs/${unit}.journal`,
      read: () => outputOf(["journalctl", "--no-pager", "--quiet", "--unit", unit, "--lines", "3000", "--output", "short-iso"], bounds),
    })),
    ...Object.entries(KERNEL).map(([name, command]) => ({ path: `kernel/${name}`, read: () => outputOf(command, bounds) })),
  ];
}

async function versions({ version }: HostPlaces, bounds: Bounds) {
  const programs = [
    ["uname", "-srvm"],
    ["cat", "/etc/os-release"],
    ["containerd", "--version"],
    ["crio", "--version"],
    ["runc", "--version"],
    ["kubelet", "--version"],
    ["nft", "--version"],
    ["ip", "-V"],
  ];
  const outputs = await Promise.all(programs.map(async (command) => `# ${command.join(" ")}\n${(await outputOf(command, bounds)).text}`));
  return { text: [`# tortiectl\n${version} on ${hostName()}, Bun ${Bun.version}\n`, ...outputs].join("\n"), isCut: false };
}

/** Names, modes and sizes: no content. */
function listing(folder: string): string {
  const names = namesIn(folder).slice(0, 500);
  const rows = names.map((name) => {
    const status = lstatSync(join(folder, name), { throwIfNoEntry: false });
    return `  ${status?.mode.toString(8) ?? "?"} ${status?.uid ?? "?"} ${String(status?.size ?? "?").padStart(10)} ${status?.mtime.toISOString() ?? ""} ${name}`;
  });
  return [folder, ...rows].join("\n");
}

function namesIn(folder: string): readonly string[] {
  return ifReadable(() => readdirSync(folder).sort()) ?? [];
}

function listsIn(netDir: string): readonly string[] {
  return namesIn(netDir).filter(isConflist).slice(0, MOST_LISTS);
}

/** Only JSON is taken: kubeconfigs and tokens lie in the same directory. */
function listParts({ netDir }: HostPlaces, bounds: Bounds): readonly Part[] {
  return listsIn(netDir).map((name) => ({
    path: `network/${name}`,
    read: () => ({ json: parseJson(endOf(join(netDir, name), bounds).text) }),
  }));
}

function logParts({ netDir, logs }: HostPlaces, bounds: Bounds): readonly Part[] {
  const named = listsIn(netDir).flatMap((name) => logsNamedIn(join(netDir, name), bounds));
  const files = [...new Set([...logs, ...[...named, PLUGIN_LOG].filter((file) => LOOKS_LIKE_LOG.test(file) && existsSync(file))])];
  return files.slice(0, MOST_LISTS).map((file) => ({ path: `logs${file}`.replaceAll("..", "_"), read: () => endOf(file, bounds) }));
}

function logsNamedIn(file: string, bounds: Bounds): readonly string[] {
  try {
    const list = parseJson(endOf(file, bounds).text);
    if (!isObject(list)) return [];
    const plugins = Array.isArray(list.plugins) ? list.plugins : [list];
    return plugins.flatMap((one) => (isObject(one) && typeof one.log_file_path === "string" ? [one.log_file_path] : []));
  } catch {
    return [];
  }
}
