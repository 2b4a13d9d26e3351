/** The real API server that the scenarios of a suite are played against, one after the other, and the accounts that recordings name. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Answer, HARNESS_AGENT } from "../../../support/kubernetes/admin-client.ts";
import { auditSize } from "../../../support/kubernetes/audit.ts";
import { makeUserCertificate } from "../../../support/kubernetes/credentials.ts";
import { heardOf } from "../../../support/kubernetes/memory.ts";
import { LEGACY } from "../../../support/kubernetes/resources.ts";
import { startCluster, type TestCluster } from "../../../support/kubernetes/test-cluster.ts";
import { printJson, recordOf, textOf } from "../../compare/json.ts";
import { Contents } from "./contents.ts";

const REQUEST_LIMIT_MS = 30_000;
const ACCOUNT_NAMESPACE = "kube-system";
/** The account of manifests/plugins/rbac.yaml. */
const PLUGINS_USER = `system:serviceaccount:${ACCOUNT_NAMESPACE}:calico-cni-plugin`;

/** Accounts that may do less than the plugins' own, by the names that recorded error texts have. */
const LESSER_ACCOUNTS = { noroles: [], plugin: [], nopatch: ["pods/status"] } as const;
type LesserAccount = keyof typeof LESSER_ACCOUNTS;
/** Those of manifests/ too. */
type Account = LesserAccount | "cni" | "agent";

export class ReplayCluster implements AsyncDisposable {
  readonly contents: Contents;
  readonly #cluster: TestCluster;
  readonly #tokens: ReadonlyMap<Account, string>;
  #auditEnd = 0;

  private constructor(cluster: TestCluster, contents: Contents, tokens: ReadonlyMap<Account, string>) {
    this.#cluster = cluster;
    this.contents = contents;
    this.#tokens = tokens;
  }

  /** A cluster of its own: recordings were made without the group projectcalico.org/v3. */
  static async start(): Promise<ReplayCluster> {
    const cluster = await startCluster({ groups: [LEGACY] });
    try {
      makeForeignAuthority(cluster.dir);
      makeUserCertificate(cluster.dir, "plugins", PLUGINS_USER);
      const tokens = new Map<Account, string>();
      for (const account of ["cni", "agent"] as const) tokens.set(account, await cluster.tokenFor(account, 7200));
      for (const account of ["noroles", "plugin", "nopatch"] as const) tokens.set(account, await makeAccount(cluster, account));
      return new ReplayCluster(cluster, new Contents(askWithOneClient(cluster)), tokens);
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  get port(): number {
    return this.#cluster.port;
  }

  get caPath(): string {
    return this.#cluster.caPath;
  }

  /** A certificate of an authority that has the right name and the wrong key. */
  get foreignCaPath(): string {
    return join(this.#cluster.dir, "foreign-ca.crt");
  }

  /** The plugins' own account by a certificate instead of a token. */
  get clientCertificate(): { readonly certificate: string; readonly key: string } {
    return { certificate: join(this.#cluster.dir, "plugins.crt"), key: join(this.#cluster.dir, "plugins.key") };
  }

  tokenOf(account: Account): string {
    return this.#tokens.get(account) ?? "";
  }

  /** How the server calls an account → how recorded texts do. */
  get accountNames(): ReadonlyMap<string, string> {
    return new Map(Object.keys(LESSER_ACCOUNTS).map((name) => [`system:serviceaccount:${ACCOUNT_NAMESPACE}:${name}`, name]));
  }

  /** Forgets what was asked until now. */
  async startCounting(): Promise<void> {
    this.#auditEnd = await this.#cluster.mark();
  }

  /** "GET /api/v1/namespaces/rec 200": what plugins asked since the last look, in order. */
  async requests(): Promise<readonly string[]> {
    const requests = await this.#cluster.requests(this.#auditEnd);
    this.#auditEnd = auditSize(join(this.#cluster.dir, "audit.log"));
    return requests.map(({ verb, uri, status }) => `${verb.toUpperCase()} ${uri} ${status}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#cluster[Symbol.asyncDispose]();
  }
}

/** Requests as the administrator over connections that are kept: thousands of them go out. */
function askWithOneClient(cluster: TestCluster): (method: string, path: string, body?: string, contentType?: string) => Promise<Answer> {
  const file = (name: string) => readFileSync(join(cluster.dir, name), "utf8");
  const tls = { ca: file("ca.crt"), cert: file("admin.crt"), key: file("admin.key") };
  const send = async (method: string, path: string, body?: string, contentType = "application/json"): Promise<Answer> => {
    const answer = await fetch(cluster.server + path, {
      method,
      headers: {
        "User-Agent": HARNESS_AGENT,
        Accept: "application/json",
        ...(body === undefined ? {} : { "Content-Type": contentType }),
      },
      tls,
      signal: AbortSignal.timeout(REQUEST_LIMIT_MS),
      ...(body === undefined ? {} : { body }),
    });
    return { status: answer.status, text: await answer.text(), body: undefined, headers: answer.headers };
  };
  return async (method, path, body, contentType) => {
    const answer = await send(method, path, body, contentType);
    await heardOf(method, path, answer, (other) => send("GET", other));
    return answer;
  };
}

/** An account with the plugins' role less some of their resources, or with no role at all. @returns its token */
async function makeAccount(cluster: TestCluster, name: LesserAccount): Promise<string> {
  const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name, namespace: ACCOUNT_NAMESPACE } };
  await cluster.apply(account);
  const without: readonly string[] = LESSER_ACCOUNTS[name];
  if (without.length > 0) {
    const role = await cluster.get("rbac.authorization.k8s.io/v1", "clusterroles", "calico-cni-plugin");
    const rules = Array.isArray(role?.rules)
      ? role.rules.filter((rule) => !without.some((resource) => rule.resources.includes(resource)))
      : [];
    await cluster.apply({ apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", metadata: { name }, rules });
    await cluster.apply({
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
      subjects: [{ kind: "ServiceAccount", name, namespace: ACCOUNT_NAMESPACE }],
    });
  }
  const body = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: { expirationSeconds: 7200 } };
  const answer = await cluster.api("POST", `/api/v1/namespaces/${ACCOUNT_NAMESPACE}/serviceaccounts/${name}/token`, printJson(body));
  return textOf(recordOf(recordOf(JSON.parse(answer.text)).status).token);
}

function makeForeignAuthority(dir: string): void {
  const key = join(dir, "foreign-ca.key");
  const openssl = (...args: string[]) => execFileSync("openssl", args, { stdio: ["ignore", "ignore", "pipe"] });
  openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key);
  openssl("req", "-x509", "-new", "-key", key, "-subj", "/CN=test-ca", "-days", "30", "-out", join(dir, "foreign-ca.crt"));
}
