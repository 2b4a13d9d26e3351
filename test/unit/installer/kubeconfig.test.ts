/** The token that the installer asks a server for, what it does where the server has none, and the file that it writes. */
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { install, installKubeconfig } from "../../../installer/install.ts";
import { requestToken } from "../../../installer/kubeconfig.ts";
import { fresh } from "../../support/fixtures.ts";
import { InstallDirectories } from "../../support/install-directories.ts";
import { type Reply, TlsServer } from "../../support/tls-server.ts";
import { TestAuthority } from "../../support/tls-server-certificates.ts";

const END = "2030-01-02T03:04:05Z";
const PATH = "/api/v1/namespaces/kube-system/serviceaccounts/tortie-cni/token";
const granted = (token: string): Reply => ({
  status: 201,
  body: JSON.stringify({ kind: "TokenRequest", status: { token, expirationTimestamp: END } }),
});
const refused = (status: number): Reply => ({ status, body: JSON.stringify({ kind: "Status", status: "Failure", code: status }) });
const jwt = (claims: object) => `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.x`;

const authority = new TestAuthority();
const keyPair = authority.issue("/CN=server", "IP:127.0.0.1");

const host = fresh(() => new InstallDirectories());
/** By the body's bound Node, and "" for none; answers of GET /api/v1 under "list". */
let replies: Record<string, Reply>;
const server = fresh(
  () =>
    new TlsServer(
      ({ method, body }) => {
        const name = method === "GET" ? "list" : (JSON.parse(body).spec.boundObjectRef?.name ?? "");
        return replies[name] ?? refused(500);
      },
      { keyPair },
    ),
);
beforeEach(() => {
  host.addServiceAccount({ token: jwt({ exp: 1_900_000_000 }), "ca.crt": authority.certificate, namespace: "kube-system\n" });
  replies = {};
});

function settings(env: Readonly<Record<string, string>> = {}) {
  return host.settings({
    KUBERNETES_SERVICE_HOST: "127.0.0.1",
    KUBERNETES_SERVICE_PORT: String(server.port),
    KUBERNETES_NODE_NAME: "node-1",
    CALICO_CNI_SERVICE_ACCOUNT: "tortie-cni",
    ...env,
  });
}

describe("The token of the plugins", () => {
  it("is asked for by the pod's own token, for a day, bound to the node", async () => {
    replies = { "node-1": granted("bound") };
    expect(await requestToken(settings(), host.log)).toEqual({ token: "bound", expiresMs: Date.parse(END) });
    expect(server.asked).toEqual([`POST ${PATH}`]);
    const [asked] = server.requests;
    expect(asked?.headers.authorization).toBe(`Bearer ${readFileSync(join(host.serviceAccount, "token"), "utf8")}`);
    expect(JSON.parse(asked?.body ?? "")).toEqual({
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: 86_400, boundObjectRef: { kind: "Node", apiVersion: "v1", name: "node-1" } },
    });
    expect(host.said).toEqual([]);
  });

  it("is bound to nothing where the node's name is not given", async () => {
    replies = { "": granted("free") };
    expect(await requestToken(settings({ KUBERNETES_NODE_NAME: "" }), host.log)).toMatchObject({ token: "free" });
    expect(server.requests.map(({ body }) => JSON.parse(body).spec)).toEqual([{ expirationSeconds: 86_400 }]);
  });

  it.each([400, 404, 422])(
    "is asked for again without the node by a server that refuses the binding with %i, which is said",
    async (status) => {
      replies = { "node-1": refused(status), "": granted("free") };
      expect(await requestToken(settings(), host.log)).toMatchObject({ token: "free" });
      expect(host.said).toEqual([expect.stringContaining("warning: the plugins' token is not bound to node node-1")]);
    },
  );

  it("is refused with the account's name where the pod may not ask, and never asked for unbound", async () => {
    replies = { "node-1": refused(403), "": granted("free") };
    await expect(requestToken(settings(), host.log)).rejects.toMatchObject({
      word: "install-token",
      message: expect.stringContaining("kube-system/tortie-cni"),
    });
    expect(server.requests.length).toBe(1);
  });

  it("is the pod's own where the server has no TokenRequest at all, and ends when that one says", async () => {
    replies = { "node-1": refused(404), "": refused(404), list: { status: 200, body: '{"resources":[{"name":"serviceaccounts"}]}' } };
    expect(await requestToken(settings(), host.log)).toEqual({ token: jwt({ exp: 1_900_000_000 }), expiresMs: 1_900_000_000_000 });
  });

  it("is refused where the server has TokenRequest and not the account", async () => {
    replies = { "node-1": refused(404), "": refused(404), list: { status: 200, body: '{"resources":[{"name":"serviceaccounts/token"}]}' } };
    await expect(requestToken(settings(), host.log)).rejects.toMatchObject({ word: "install-token" });
  });

  it("is refused where the pod's own has no end", async () => {
    host.addServiceAccount({ token: jwt({ sub: "x" }) });
    replies = { "node-1": refused(404), "": refused(404), list: { status: 200, body: "{}" } };
    await expect(requestToken(settings(), host.log)).rejects.toMatchObject({ message: expect.stringContaining('no numeric "exp"') });
  });

  it("needs the variables of the API server, and a service account that can be read", async () => {
    await expect(requestToken(settings({ KUBERNETES_SERVICE_PORT: "" }), host.log)).rejects.toMatchObject({
      message: expect.stringContaining("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"),
    });
    rmSync(join(host.serviceAccount, "namespace"));
    await expect(requestToken(settings(), host.log)).rejects.toMatchObject({
      word: "install-token",
      message: expect.stringContaining("the service account cannot be read"),
    });
  });
});

describe("The kubeconfig", () => {
  const path = () => join(host.netDir, "calico-kubeconfig");

  it("is root's alone and holds the new token, the server and its authority", async () => {
    replies = { "node-1": granted("bound") };
    await installKubeconfig(settings(), host.log);
    const text = readFileSync(path(), "utf8");
    expect(statSync(path()).mode & 0o7777).toBe(0o600);
    expect(text).toContain(`    server: https://127.0.0.1:${server.port}\n`);
    expect(text).toContain(`    certificate-authority-data: ${Buffer.from(authority.certificate).toString("base64")}\n`);
    expect(text).toContain("    token: bound\n");
    expect(host.said).toEqual([`${path()} written; its token ends at 2030-01-02T03:04:05.000Z`]);
  });

  it("is written by an installation in a pod, before the list that names it, and the token is what it answers with", async () => {
    replies = { "node-1": granted("bound") };
    const installed = await install(settings({ SKIP_TLS_VERIFY: "true" }), host.log);
    expect(installed.token).toEqual({ token: "bound", expiresMs: Date.parse(END) });
    expect(readFileSync(path(), "utf8")).toContain("    insecure-skip-tls-verify: true\n");
    const written = host.said
      .map((line) => line.split(" ")[0]?.split("/").at(-1))
      .filter((name) => name?.includes("cali") || name?.includes("conflist"));
    expect(written).toEqual(["calico-kubeconfig", "10-tortie.conflist"]);
  });

  it("and nothing else is touched where there is a service account and no API server to ask", async () => {
    await expect(install(settings({ KUBERNETES_SERVICE_HOST: "" }), host.log)).rejects.toMatchObject({ word: "install-token" });
    expect([...host.visible(host.binDir), ...host.visible(host.netDir)]).toEqual([]);
  });

  it("no list is written where no token is had", async () => {
    replies = { "node-1": refused(403) };
    await expect(install(settings(), host.log)).rejects.toMatchObject({ word: "install-token" });
    expect(host.visible(host.netDir)).toEqual([]);
  });

  it("in a directory that cannot be written, nothing is tried", async () => {
    rmSync(host.netDir, { recursive: true });
    await expect(install(settings(), host.log)).rejects.toMatchObject({
      word: "install-failed",
      message: `${host.netDir} cannot be written: ENOENT`,
    });
    expect(host.visible(host.binDir)).toEqual([]);
  });
});
