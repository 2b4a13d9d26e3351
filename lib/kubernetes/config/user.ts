/** Finds who we are, as the user entry of a kubeconfig says. */
import { TortieError } from "../../errors/errors.ts";
import type { ClientCertificate, CredentialPlugin, Identity } from "./api-config.ts";
import type { Fields } from "./kubeconfig.ts";
import { type Entry, resolvePath } from "./kubeconfig.ts";
import { bearer, checkPem, decodeBase64, type PemKind, readNamedFile } from "./settings.ts";

/**
 * Of two ways to give the same thing, the one inside the file beats a path, except that `tokenFile` beats `token`, as in kubectl.
 *
 * @param cluster what a credential plugin learns about the server when it asks
 * @throws TortieError `kubeconfig-invalid`, `kubeconfig-unreadable`
 */
export function identityOf(user: Entry, cluster: () => Readonly<Record<string, unknown>>): Identity {
  const { fields } = user;
  if (fields.raw("auth-provider") !== undefined) {
    throw new TortieError("kubeconfig-invalid", `${fields.nameOf("auth-provider")}: Kubernetes 1.26 dropped these, use exec`);
  }
  return {
    description: fields.place,
    certificate: certificateOf(user),
    authorization: authorizationOf(user),
    headers: impersonation(fields),
    plugin: pluginOf(user, cluster),
  };
}

/** Reads PEM text from `<key>-data` or the file that `<key>` names. */
export function pemOf(entry: Entry, key: string, kind: PemKind): string | undefined {
  const { fields, folder } = entry;
  const data = fields.text(`${key}-data`);
  if (data !== undefined) {
    const place = fields.nameOf(`${key}-data`);
    return checkPem(decodeBase64(data, place), kind, place);
  }
  const path = fields.text(key);
  if (path === undefined) return undefined;
  const place = fields.nameOf(key);
  return checkPem(readNamedFile(resolvePath(path, folder), place), kind, place);
}

function certificateOf(user: Entry): ClientCertificate | undefined {
  const certificate = pemOf(user, "client-certificate", "CERTIFICATE");
  const key = pemOf(user, "client-key", "PRIVATE KEY");
  if (certificate !== undefined && key !== undefined) return { certificate, key };
  if (certificate === undefined && key === undefined) return undefined;
  const { fields } = user;
  const [given, missing] = certificate === undefined ? ["client-key", "client-certificate"] : ["client-certificate", "client-key"];
  throw new TortieError("kubeconfig-invalid", `${fields.place} has ${given} but not ${missing}`);
}

function authorizationOf({ fields, folder }: Entry): string | undefined {
  const file = fields.text("tokenFile");
  if (file !== undefined) {
    const place = fields.nameOf("tokenFile");
    return bearer(readNamedFile(resolvePath(file, folder), place), place);
  }
  const token = fields.text("token");
  if (token !== undefined) return bearer(token, fields.nameOf("token"));
  const name = fields.text("username");
  const password = fields.text("password");
  if (name === undefined) return undefined;
  return `Basic ${new TextEncoder().encode(`${name}:${password ?? ""}`).toBase64()}`;
}

const IMPERSONATION = ["as", "as-uid", "as-groups", "as-user-extra"];

/** Impersonation must never be dropped: without it we would have more rights than the kubeconfig means. */
function impersonation(fields: Fields): readonly (readonly [string, string])[] {
  if (!IMPERSONATION.some((key) => fields.raw(key) !== undefined)) return [];
  const headers: [string, string][] = [];
  const name = fields.text("as");
  const uid = fields.text("as-uid");
  if (name !== undefined) headers.push(["Impersonate-User", name]);
  if (uid !== undefined) headers.push(["Impersonate-Uid", uid]);
  for (const group of fields.texts("as-groups")) headers.push(["Impersonate-Group", group]);
  const extra = fields.child("as-user-extra");
  for (const key of extra?.keys() ?? []) {
    for (const value of extra?.texts(key) ?? []) headers.push([`Impersonate-Extra-${encodeURIComponent(key)}`, value]);
  }
  const names = headers.map(([header]) => header);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) {
    // `fetch` joins them to one value, which would be the name of another group.
    throw new TortieError(
      "kubeconfig-invalid",
      `${fields.place} has several values for ${twice}, which Tortie cannot send: use a user of its own`,
    );
  }
  for (const [header, value] of headers) {
    if (/[^\x20-\x7e]/.test(value)) {
      throw new TortieError("kubeconfig-invalid", `${fields.place}: ${header} would be ${JSON.stringify(value)}, which no header can hold`);
    }
  }
  return headers;
}

function pluginOf({ fields, folder }: Entry, cluster: () => Readonly<Record<string, unknown>>): CredentialPlugin | undefined {
  const exec = fields.child("exec");
  if (exec === undefined) return undefined;
  const command = exec.requiredText("command");
  const env: Record<string, string> = {};
  for (const variable of exec.children("env")) env[variable.requiredText("name")] = variable.text("value") ?? "";
  return {
    apiVersion: exec.requiredText("apiVersion"),
    // A name without a slash is looked up in PATH; every other path is relative to the file.
    command: command.includes("/") ? resolvePath(command, folder) : command,
    args: exec.texts("args"),
    env,
    needsTerminal: exec.text("interactiveMode") === "Always",
    installHint: exec.text("installHint") ?? "",
    cluster: exec.flag("provideClusterInfo") ? cluster() : undefined,
  };
}
