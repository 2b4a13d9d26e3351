/** Reads what the installer is to do: Calico's environment variables (C§9.2), and where the host's directories are seen from here. */
import type { Environment } from "../lib/cni/protocol.ts";
import { AGENT_MODES, type AgentMode } from "../lib/config/limits.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { SERVICE_ACCOUNT_FOLDER } from "../lib/kubernetes/config/resolve.ts";
import { hostName } from "../lib/system/files.ts";

/** Says where things are; the defaults are those of Calico's container image (C§9.1). */
export interface InstallPaths {
  /** The executable that is installed under the names; its folder has the forwarder, which is installed in front of it. */
  readonly source: string;
  /** Its folder may hold further plugins, which are installed too. */
  readonly pluginSource: string;
  /** The host's directories, as this process sees them. */
  readonly binDirs: readonly string[];
  readonly netDir: string;
  readonly serviceAccount: string;
}

export interface InstallSettings extends InstallPaths {
  readonly names: InstalledNames;
  /** `netDir` as the plugins see it: what generated files name. */
  readonly hostNetDir: string;
  readonly confName: string;
  /** Removed when it has another name. */
  readonly oldConfName: string;
  /** File of the plugins' kubeconfig beside the conflist. */
  readonly kubeconfigName: string;
  /** An agent belongs to the installation: the list requires it, unless the template says otherwise. */
  readonly hasAgent: boolean;
  /** Text or file of the template; neither means the built-in one. */
  readonly template: { readonly text?: string; readonly file?: string };
  readonly tlsDir: string;
  readonly skipped: ReadonlySet<string>;
  /** false: executables that are there stay as they are. */
  readonly updates: boolean;
  /** Stay, and keep what was installed right (C§9.5). */
  readonly stays: boolean;
  readonly confMode: number;
  /** A list of somebody else's for another network or store stays (`plannedList`). */
  readonly keepsLists: boolean;
  readonly token: {
    readonly account: string;
    readonly kubeconfig: string | undefined;
    readonly server: string;
    readonly skipVerify: boolean;
    /** Milliseconds between two refreshes; absent: by the token's own life. */
    readonly refreshMs: number | undefined;
  };
  readonly env: Environment;
}

/** Says what the executable is installed as. */
export interface InstalledNames {
  /** The main plugin and the IPAM plugin: a runtime needs both. */
  readonly plugins: readonly [main: string, ipam: string];
  /** What administrators call on the node; a host without them has all that its pods need. */
  readonly tools: readonly string[];
}

/** Each set works beside the other. */
export const CALICO_NAMES: InstalledNames = { plugins: ["calico", "calico-ipam"], tools: [] };
export const TORTIE_NAMES: InstalledNames = { plugins: ["tortie", "tortie-ipam"], tools: ["tortiectl"] };

export const CONTAINER_PATHS: InstallPaths = {
  source: process.execPath,
  pluginSource: "/opt/cni/bin",
  binDirs: ["/host/opt/cni/bin", "/host/secondary-bin-dir"],
  netDir: "/host/etc/cni/net.d",
  serviceAccount: SERVICE_ACCOUNT_FOLDER,
};

/** @throws TortieError `install-settings` naming the variable */
export function readInstallSettings(env: Environment, paths: InstallPaths, names: InstalledNames, confName: string): InstallSettings {
  const hostNetDir = textOf(env, "CNI_NET_DIR", "/etc/cni/net.d");
  return {
    ...paths,
    names,
    hostNetDir,
    confName: fileNameOf(env, "CNI_CONF_NAME", confName),
    oldConfName: fileNameOf(env, "CNI_OLD_CONF_NAME", "10-calico.conflist"),
    kubeconfigName: kubeconfigNameOf(env),
    hasAgent: agentModeOf(env) === "require",
    template: {
      ...(env.CNI_NETWORK_CONFIG ? { text: env.CNI_NETWORK_CONFIG } : {}),
      ...(env.CNI_NETWORK_CONFIG_FILE ? { file: env.CNI_NETWORK_CONFIG_FILE } : {}),
    },
    tlsDir: textOf(env, "TLS_ASSETS_DIR", "/calico-secrets"),
    skipped: new Set((env.SKIP_CNI_BINARIES ?? "").split(",").flatMap((name) => name.trim() || [])),
    updates: booleanOf(env, "UPDATE_CNI_BINARIES", true),
    stays: booleanOf(env, "SLEEP", true),
    // Calico's installer replaces whatever is there; a template that was given is somebody's word.
    keepsLists: names === TORTIE_NAMES && !env.CNI_NETWORK_CONFIG && !env.CNI_NETWORK_CONFIG_FILE,
    confMode: modeOf(env, "TEST_FILE_PERMISSION", 0o600),
    token: {
      account: textOf(env, "CALICO_CNI_SERVICE_ACCOUNT", "calico-cni-plugin"),
      kubeconfig: env.KUBECONFIG || undefined,
      server: serverOf(env),
      skipVerify: env.SKIP_TLS_VERIFY === "true",
      refreshMs: durationOf(env, "CNI_TOKEN_REFRESH_INTERVAL"),
    },
    env,
  };
}

/** Returns the API server's URL for the kubeconfig: an IPv6 host in brackets (C§9.2). */
function serverOf(env: Environment): string {
  const host = env.KUBERNETES_SERVICE_HOST ?? "";
  const authority = host.includes(":") ? `[${host}]` : host;
  return `${env.KUBERNETES_SERVICE_PROTOCOL || "https"}://${authority}:${env.KUBERNETES_SERVICE_PORT ?? ""}`;
}

/** Returns the node's name where no variable gives it (C§9.4). */
export function defaultNodeName(): string {
  return hostName().toLowerCase();
}

/** Takes a variable that is set and empty for the default; only for template variables it wins over that. */
function textOf(env: Environment, name: string, fallback: string): string {
  return env[name] || fallback;
}

function fileNameOf(env: Environment, name: string, fallback: string): string {
  const value = textOf(env, name, fallback);
  if (value.includes("/") || value === "." || value === "..") throw refused(name, value, "the name of a file, without a directory");
  return value;
}

/** Requires the ending that tells an installation's kubeconfig from its other files when they are taken away. */
function kubeconfigNameOf(env: Environment): string {
  const value = fileNameOf(env, "TORTIE_KUBECONFIG_NAME", "calico-kubeconfig");
  if (!isKubeconfigName(value)) throw refused("TORTIE_KUBECONFIG_NAME", value, 'a name that ends in "-kubeconfig"');
  return value;
}

export function isKubeconfigName(name: string): boolean {
  return name.endsWith("-kubeconfig");
}

function agentModeOf(env: Environment): AgentMode {
  const value = textOf(env, "TORTIE_AGENT", "off");
  const mode = AGENT_MODES.find((one) => one === value);
  if (mode === undefined) throw refused("TORTIE_AGENT", value, AGENT_MODES.join(" or "));
  return mode;
}

/** Takes the spellings of Go's strconv.ParseBool. */
function booleanOf(env: Environment, name: string, fallback: boolean): boolean {
  const value = env[name];
  if (value === undefined || value === "") return fallback;
  if (["1", "t", "T", "true", "TRUE", "True"].includes(value)) return true;
  if (["0", "f", "F", "false", "FALSE", "False"].includes(value)) return false;
  throw refused(name, value, "true or false");
}

function modeOf(env: Environment, name: string, fallback: number): number {
  const value = env[name];
  if (value === undefined || value === "") return fallback;
  if (!/^(0o?)?[0-7]{3,4}$/.test(value)) throw refused(name, value, "an octal mode, for instance 0600");
  return Number.parseInt(value.replace("o", ""), 8);
}

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** Reads a duration as Go writes it: "90s", "1h30m". */
function durationOf(env: Environment, name: string): number | undefined {
  const value = env[name];
  if (value === undefined || value === "") return undefined;
  const parts = [...value.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  const total = parts.reduce((sum, [, count = "", unit = ""]) => sum + Number(count) * (UNITS_MS[unit] ?? 0), 0);
  const isWhole = parts.map(([part]) => part).join("") === value;
  if (!isWhole || total <= 0) throw refused(name, value, 'a duration, for instance "90s" or "1h30m"');
  return total;
}

function refused(name: string, value: string, wanted: string): TortieError {
  return new TortieError("install-settings", `environment variable ${name} is ${JSON.stringify(value)}, which is not ${wanted}`);
}
