/** The conflist from its template: plain substitution of names between double underscores (C§9.4). */
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { parseJson } from "../lib/json/parse.ts";
import { isJsonObject, type JsonValue } from "../lib/json/value.ts";
import { readText } from "../lib/system/files.ts";
import { defaultNodeName, type InstalledNames, type InstallSettings } from "./settings.ts";

/** Names of the TLS files that can be installed, by the variable that says where they are. */
export const TLS_FILES = { __ETCD_CA_CERT_FILE__: "etcd-ca", __ETCD_CERT_FILE__: "etcd-cert", __ETCD_KEY_FILE__: "etcd-key" } as const;

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

/** Variables that come from the environment variable of the same bare name, with their defaults. A value that is set and empty counts. */
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
  return rendered;
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
  try {
    return readText(`${serviceAccount}/token`);
  } catch {
    return "";
  }
}
