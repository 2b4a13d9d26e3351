/**
 * Finds the secrets of this host that a bug report could repeat: those of its network configurations, kubeconfigs and environment, of
 * kubelet, of the control plane and of the pods' service accounts.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Environment } from "../../lib/cni/protocol.ts";
import { isObject } from "../../lib/json/decode.ts";
import { Secrets } from "../../lib/log/secrets.ts";
import { ifReadable } from "../../lib/system/files.ts";
import { isSecretName } from "./redact.ts";

const MOST_BYTES = 256 * 1024;
const MOST_FILES = 300;
/** A file that a member of this name leads to holds a secret. */
const LEADS_TO_SECRET = /^(?:tokenFile|client-key|.*_key_file|.*_key_path|.*_token_file|.*password_file)$/i;
const OWN_TOKENS = ["/var/run/secrets/kubernetes.io/serviceaccount/token", "/var/run/secrets/tokens"];

/** Directories of kubeconfigs and keys, each file one or the other; those of the agent's and etcd's settings have `NAME=value`. */
const NODE_DIRECTORIES = [
  "/etc/kubernetes",
  "/etc/kubernetes/pki",
  "/etc/kubernetes/pki/etcd",
  "/var/lib/kubelet",
  "/var/lib/kubelet/pki",
  "/etc/etcd",
  "/etc/calico",
  "/etc/tortie",
];
/** Of pods; each has a token that is not of the form that is hidden anyhow only once it is encoded again. */
const POD_DIRECTORY = "/var/lib/kubelet/pods";
const PROJECTED = "volumes/kubernetes.io~projected";

/** @param files kubeconfigs besides those of the directory */
export async function secretsOf(netDir: string, files: readonly string[], env: Environment): Promise<Secrets> {
  const secrets = new Secrets();
  addEnvironment(secrets, Object.entries(env));
  for (const file of [...OWN_TOKENS, ...tokensOfPods()]) secrets.add(textOf(file));
  for (const file of [...[netDir, ...NODE_DIRECTORIES].flatMap(filesIn), ...files]) {
    const text = textOf(file);
    if (text !== undefined) await addFrom(secrets, text, dirname(file));
  }
  return secrets;
}

function addEnvironment(secrets: Secrets, pairs: readonly (readonly [string, string | undefined])[]): void {
  for (const [name, value] of pairs) {
    if (isSecretName(name)) secrets.add(value);
    secrets.addPasswordOf(value);
  }
}

function tokensOfPods(): readonly string[] {
  const volumes = filesIn(POD_DIRECTORY).flatMap((pod) => filesIn(join(pod, PROJECTED)));
  return volumes.map((volume) => join(volume, "token"));
}

function filesIn(directory: string): readonly string[] {
  const names = ifReadable(() => readdirSync(directory)) ?? [];
  const first = names.sort().slice(0, MOST_FILES);
  return first.map((name) => join(directory, name));
}

/** @returns `undefined` for what is no readable file of moderate size; a link is followed, as kubelet's certificates are ones */
function textOf(file: string): string | undefined {
  return ifReadable(() => {
    const status = statSync(file);
    return status.isFile() && status.size <= MOST_BYTES ? readFileSync(file, "utf8") : undefined;
  });
}

/** JSON is YAML. What is neither has no members, and nothing of it is put into a bundle. */
async function addFrom(secrets: Secrets, text: string, folder: string): Promise<void> {
  for (const [key] of text.matchAll(/-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*/g)) secrets.addKey(`${key}-----`);
  if (text.trimStart().startsWith("-----BEGIN")) return;
  const pairs = text.matchAll(/^(?:export )?([A-Za-z][\w.-]*)[ \t]*=[ \t]*["']?(.*?)["']?$/gm);
  addEnvironment(
    secrets,
    [...pairs].map(([, name = "", value]) => [name, value] as const),
  );
  const { parseAllDocuments } = await import("yaml");
  try {
    for (const document of parseAllDocuments(text)) {
      const value: unknown = document.toJS({ maxAliasCount: 100 });
      // A file of one word: a token.
      if (typeof value === "string" && !/\s/.test(value)) secrets.add(value);
      addMembers(secrets, value, "", folder);
    }
  } catch {
    secrets.add(text.length < MOST_BYTES / 8 ? text : undefined);
  }
}

function addMembers(secrets: Secrets, value: unknown, name: string, folder: string): void {
  if (typeof value === "string") {
    if (isSecretName(name)) addValue(secrets, value);
    else if (LEADS_TO_SECRET.test(name)) addValue(secrets, textOf(resolve(folder, value)) ?? "");
    secrets.addPasswordOf(value);
    return;
  }
  if (Array.isArray(value)) for (const one of value) addMembers(secrets, one, name, folder);
  else if (isObject(value)) for (const [member, one] of Object.entries(value)) addMembers(secrets, one, member, folder);
}

/** A key is known by its letters, whether it stands there as it is or in base64; a certificate is no secret. */
function addValue(secrets: Secrets, value: string): void {
  const decoded = /^[A-Za-z0-9+/\s]+=*\s*$/.test(value) ? Buffer.from(value, "base64").toString("utf8") : "";
  if (/-----BEGIN CERTIFICATE/.test(value + decoded)) return;
  if (value.includes("-----BEGIN")) secrets.addKey(value);
  else secrets.add(value);
  if (decoded.includes("-----BEGIN")) secrets.addKey(decoded);
}
