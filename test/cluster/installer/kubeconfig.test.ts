/** The plugins' kubeconfig, with a token that a real API server has given (C§9.5; C§11.4, I23 to I25). */
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { shared } from "../../support/fixtures.ts";
import { Installation } from "../../support/installation.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR } from "../../support/node.ts";

const cluster = shared(startCluster);
beforeAll(() => cluster.reset());

async function inPod(identity: "admin" | "stranger"): Promise<{ host: Installation; env: Record<string, string> }> {
  const host = new Installation();
  host.addServiceAccount(await cluster.tokenFor(identity), readFileSync(cluster.caPath, "utf8"));
  return { host, env: { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: String(cluster.port) } };
}

const kubeconfigOf = (host: Installation) => readFileSync(join(host.netDir, "calico-kubeconfig"), "utf8");

describe("The installer in a pod", () => {
  it("I23: writes a kubeconfig whose token is the plugins' account's and works", async () => {
    const { host, env } = await inPod("admin");
    using _ = host;

    expect(await host.install({ ...env, KUBERNETES_SERVICE_PROTOCOL: "" })).toMatchObject({ exit: 0 });

    const text = kubeconfigOf(host);
    expect(text).toContain(`server: https://127.0.0.1:${cluster.port}\n`);
    expect(text).toContain(`certificate-authority-data: ${readFileSync(cluster.caPath).toString("base64")}\n`);
    expect(text).not.toContain("insecure-skip-tls-verify");
    expect(statSync(join(host.netDir, "calico-kubeconfig")).mode & 0o777).toBe(0o600);
    const token = /token: (\S+)/.exec(text)?.[1] ?? "";
    // What the account may do, and what it may not.
    expect((await cluster.apiAs(token, "GET", "/api/v1/nodes/none")).status).toBe(404);
    expect((await cluster.apiAs(token, "GET", "/api/v1/secrets")).status).toBe(403);
  });

  it("I25: trusts any server when it is told to, and holds no authority then", async () => {
    const { host, env } = await inPod("admin");
    using _ = host;

    expect(await host.install({ ...env, SKIP_TLS_VERIFY: "true" })).toMatchObject({ exit: 0 });

    expect(kubeconfigOf(host)).toContain("    insecure-skip-tls-verify: true\n");
    expect(kubeconfigOf(host)).not.toContain("certificate-authority-data");
  });

  it("fails by name, and writes neither kubeconfig nor conflist, when it may not ask for the token", async () => {
    const { host, env } = await inPod("stranger");
    using _ = host;

    const run = await host.install(env);

    expect(run).toMatchObject({ exit: 1, log: expect.stringContaining("install-token") });
    expect(run.log).toContain("kube-system/calico-cni-plugin");
    expect(host.names(host.netDir).filter((name) => !name.startsWith("."))).toEqual([]);
  });

  it("fails when the API server's address is not known", async () => {
    const { host } = await inPod("admin");
    using _ = host;

    expect(await host.install()).toMatchObject({ exit: 1, log: expect.stringContaining("KUBERNETES_SERVICE_HOST") });
  });

  it("renews the token while it stays, and writes a kubeconfig that somebody removed", async () => {
    const { host, env } = await inPod("admin");
    using _ = host;
    const path = join(host.netDir, "calico-kubeconfig");
    const command = [join(BIN_DIR, "calico"), "component", "cni", "install"];
    const running = host.start(command, { ...env, SLEEP: "true", CNI_TOKEN_REFRESH_INTERVAL: "2s" });
    const seen = new Set<string>();
    const look = () => {
      try {
        seen.add(kubeconfigOf(host));
      } catch {
        // Between removal and renewal.
      }
      return seen.size;
    };

    await until("a second token", () => look() >= 2);
    rmSync(path);
    await until("a kubeconfig in place of the removed one", () => look() >= 3);

    running.stop();
    expect(await running.ended).toMatchObject({ exit: 0 });
  });
});
