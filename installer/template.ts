/**
 * Renders the conflist from its template, by plain substitution of names between double underscores (C§9.4), and copies the certificates and
 * the key for etcd that it names from a mounted secret into the directory that the plugins read (C§9.3, steps 1 and 4).
 */

import { chmodSync, linkSync, mkdirSync, readdirSync, renameSync, rmdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { parseJson } from "../lib/json/parse.ts";
import { isJsonObject, type JsonObject, type JsonValue, stringifyJson } from "../lib/json/value.ts";
import { systemErrorCode } from "../lib/system/errno.ts";
import { directoryOf, ifReadable, isThere, readText, statusOf } from "../lib/system/files.ts";
import { exchangeNames } from "../lib/system/write-whole.ts";
import { areEqual, copyWhole, PERMISSIONS, removeWhole, syncPath, temporaryOf } from "./files.ts";
import { defaultNodeName, type InstalledNames, type InstallSettings } from "./settings.ts";

/** Names the TLS files that can be installed, by the variable that says where they are. */
export const TLS_FILES = { __ETCD_CA_CERT_FILE__: "etcd-ca", __ETCD_CERT_FILE__: "etcd-cert", __ETCD_KEY_FILE__: "etcd-key" } as const;

const INDENT = 2;

/** Calico's text, byte for byte (recorded by its suite, I2), but for the names of the two plugins. */
function builtIn([main, ipam]: InstalledNames["plugins"]): string {
  return `{
  "name": "k8s-pod-network",
  "cniVersion": "1.0.0",
  "plugins": [
    {
      "type": "${main}",
      "log_level": "__LOG_LEVEL__",
      "log_file_path": "__LOG_FILE_PATH__",
      "datastore_type": "__DATASTORE_TYPE__",
      "nodename": "__KUBERNETES_NODE_NAME__",
      "mtu": __CNI_MTU__,
      "ipam": {"type": "${ipam}"},
      "policy": {"type": "k8s"},
      "kubernetes": {"kubeconfig": "__KUBECONFIG_FILEPATH__"},
      "require_mtu_file": __REQUIRE_MTU_FILE__,
      "calico_api_group": "__CALICO_API_GROUP__"
    },
    {
      "type": "portmap",
      "snat": true,
      "capabilities": {"portMappings": true}
    }
  ]
}`;
}

/** Lists variables that come from the environment variable of the same bare name, with their defaults. A value that is set and empty counts. */
const FROM_ENVIRONMENT: Readonly<Record<string, string>> = {
  LOG_LEVEL: "info",
  LOG_FILE_PATH: "/var/log/calico/cni/cni.log",
  LOG_FILE_MAX_SIZE: "100",
  LOG_FILE_MAX_AGE: "30",
  LOG_FILE_MAX_COUNT: "10",
  DATASTORE_TYPE: "kubernetes",
  CNI_MTU: "1500",
  KUBERNETES_SERVICE_HOST: "",
  KUBERNETES_SERVICE_PORT: "",
  CALICO_API_GROUP: "crd.projectcalico.org/v1",
  ETCD_ENDPOINTS: "",
  ETCD_DISCOVERY_SRV: "",
  REQUIRE_MTU_FILE: "false",
};

/**
 * @param installedTls names of the TLS files that are there
 * @throws TortieError `install-template` when the template cannot be read, or comes to no JSON object; its content is never quoted
 */
export function renderConflist(settings: InstallSettings, installedTls: ReadonlySet<string>): string {
  const { text, source } = templateOf(settings);
  const values = variables(settings, installedTls);
  const rendered = text.replace(/__[A-Z][A-Z_]*[A-Z]__/g, (name) => values.get(name) ?? name);
  let parsed: JsonValue;
  try {
    parsed = parseJson(rendered);
  } catch (error) {
    throw new TortieError("install-template", `${source} does not come to JSON: ${messageOf(error)}`);
  }
  if (!isJsonObject(parsed)) throw new TortieError("install-template", `${source} comes to JSON that is no object`);
  return settings.hasAgent ? requiringAgent(rendered, parsed, settings.names.plugins) : rendered;
}

/** Adds `"agent": "require"` to our entries of a list that do not decide it themselves. */
function requiringAgent(rendered: string, list: JsonObject, [main]: InstalledNames["plugins"]): string {
  const plugins = Array.isArray(list.plugins) ? list.plugins : [];
  const isOpen = (entry: JsonValue): entry is JsonObject => isJsonObject(entry) && entry.type === main && entry.agent === undefined;
  if (!plugins.some(isOpen)) return rendered;
  const decided = plugins.map((entry) => (isOpen(entry) ? { type: main, agent: "require", ...entry } : entry));
  return stringifyJson({ ...list, plugins: decided }, INDENT);
}

function templateOf({ template, names }: InstallSettings): { readonly text: string; readonly source: string } {
  if (template.file !== undefined) {
    try {
      return { text: readText(template.file), source: `the template in ${template.file} (CNI_NETWORK_CONFIG_FILE)` };
    } catch (error) {
      throw new TortieError("install-template", `CNI_NETWORK_CONFIG_FILE cannot be read: ${messageOf(error)}`);
    }
  }
  if (template.text !== undefined) return { text: template.text, source: "the template in CNI_NETWORK_CONFIG" };
  return { text: builtIn(names.plugins), source: "the built-in template" };
}

function variables(settings: InstallSettings, installedTls: ReadonlySet<string>): ReadonlyMap<string, string> {
  const { env, hostNetDir, kubeconfigName, serviceAccount } = settings;
  const values = new Map<string, string>();
  for (const [name, fallback] of Object.entries(FROM_ENVIRONMENT)) values.set(`__${name}__`, env[name] ?? fallback);
  values.set("__KUBERNETES_NODE_NAME__", env.KUBERNETES_NODE_NAME ?? defaultNodeName());
  values.set("__KUBECONFIG_FILEPATH__", env.KUBECONFIG_FILEPATH ?? `${hostNetDir}/${kubeconfigName}`);
  values.set("__SERVICEACCOUNT_TOKEN__", tokenOf(serviceAccount));
  for (const [name, file] of Object.entries(TLS_FILES)) {
    values.set(name, installedTls.has(file) ? `${hostNetDir}/calico-tls/${file}` : "");
  }
  return values;
}

function tokenOf(serviceAccount: string): string {
  return ifReadable(() => readText(`${serviceAccount}/token`)) ?? "";
}

const NAMES: readonly string[] = Object.values(TLS_FILES);

/** Lets only root read the key, which opens the whole datastore, whatever modes the mounted secret or an earlier installation had. */
const KEY_MODE = 0o600;
const DIRECTORY_MODE = 0o700;

type Places = Pick<InstallSettings, "tlsDir" | "netDir">;
type Log = (line: string) => void;

export function tlsDirectory(netDir: string): string {
  return join(netDir, "calico-tls");
}

/**
 * Copies only the three files, never what else the directory holds. They change together: a new certificate and the old key are of
 * no use. A file that is no longer given stays until `removeOtherTlsFiles`, because the conflist names it; Calico's installer has none of
 * them for a moment.
 *
 * @returns the names that are given
 */
export function installTlsFiles({ tlsDir, netDir }: Places, log: Log): ReadonlySet<string> {
  const target = tlsDirectory(netDir);
  const given = NAMES.filter((name) => isFile(join(tlsDir, name)));
  if (given.length > 0) {
    for (const name of NAMES) if (!given.includes(name)) log(`warning: ${join(tlsDir, name)} is not there`);
    closeToOthers(target);
    const changed = given.filter((name) => !areEqual(join(tlsDir, name), join(target, name), modeOf(name)));
    if (changed.length > 0 && !areReplacedTogether(tlsDir, target, given)) {
      for (const name of changed) copyWhole(join(tlsDir, name), join(target, name), { mode: modeOf(name) });
    }
    for (const name of changed) log(`${join(target, name)} installed`);
  }
  return new Set(given);
}

/** Closes the directory to others before a key is put there. */
function closeToOthers(directory: string): void {
  const status = statusOf(directory);
  if (status !== undefined && (status.mode & PERMISSIONS) !== DIRECTORY_MODE) chmodSync(directory, DIRECTORY_MODE);
}

/** @returns `undefined` for certificates, which have the mode of their source */
function modeOf(name: string): number | undefined {
  return name === TLS_FILES.__ETCD_KEY_FILE__ ? KEY_MODE : undefined;
}

/** Removes everything else of the directory; what begins with a dot is what stood there before the installation. */
export function removeOtherTlsFiles(netDir: string, given: ReadonlySet<string>, log: Log): void {
  const directory = tlsDirectory(netDir);
  if (isThere(directory)) {
    for (const name of readdirSync(directory)) {
      const path = join(directory, name);
      if (!name.startsWith(".") && !given.has(name) && removeWhole(path)) log(`${path} removed: it is not given any more`);
    }
  }
  removeEmptyTlsDirectory(netDir);
}

export function removeEmptyTlsDirectory(netDir: string): void {
  const directory = tlsDirectory(netDir);
  if (isThere(directory) && readdirSync(directory).length === 0) rmdirSync(directory);
}

/**
 * Makes the directory as it shall be beside the old one, and lets the two change names.
 *
 * @returns `false` where that cannot be: something is mounted on the directory, or the file system does not do it
 */
function areReplacedTogether(tlsDir: string, target: string, given: readonly string[]): boolean {
  const next = temporaryOf(target);
  const before = statusOf(target);
  try {
    mkdirSync(next, { mode: DIRECTORY_MODE });
    if (before !== undefined) {
      for (const name of readdirSync(target)) if (!given.includes(name)) linkSync(join(target, name), join(next, name));
    }
    for (const name of given) copyWhole(join(tlsDir, name), join(next, name), { mode: modeOf(name) });
    syncPath(next);
    if (before === undefined) renameSync(next, target);
    else if (!exchangeNames(next, target)) return false;
    syncPath(directoryOf(target));
    return true;
  } catch (error) {
    // A link out of what is mounted there.
    if (systemErrorCode(error) === "EXDEV") return false;
    throw error;
  } finally {
    rmSync(next, { recursive: true, force: true });
  }
}

/** Follows symbolic links, which is what a mounted secret consists of. */
function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
