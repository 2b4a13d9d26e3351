/**
 * The kubeconfig files that recordings name, in a sandbox. `kubeconfig` speaks for the plugins' own account with exactly the role of
 * manifests/rbac.yaml; the others differ in what the end of their name says.
 */
import { readFileSync } from "node:fs";
import { printJson } from "../../compare/json.ts";
import type { Sandbox } from "../../sandbox/sandbox.ts";
import type { ReplayCluster } from "./cluster.ts";

/** Where nobody listens (documentation address, RFC 5737), on the sandbox's loopback, so that a connection is refused at once. */
export const NOBODY = { address: "198.51.100.1", url: "https://198.51.100.1:46444" };

export function writeKubeconfigs(sandbox: Sandbox, cluster: ReplayCluster, server: string): void {
  const path = `${sandbox.dir}/kubeconfig`;
  const caPath = `${path}-ca.crt`;
  const tokenPath = `${path}-token`;
  const ca = readFileSync(cluster.caPath, "utf8");
  sandbox.writeFile(caPath, ca);
  sandbox.writeFile(tokenPath, cluster.tokenOf("cni"));
  const own = { server, "certificate-authority": caPath };
  const tokenOf = (account: Parameters<ReplayCluster["tokenOf"]>[0]) => ({ token: cluster.tokenOf(account) });
  const configs: Readonly<Record<string, string>> = {
    [path]: kubeconfig(own, { tokenFile: tokenPath }),
    [`${path}-inline`]: kubeconfig({ server, "certificate-authority-data": base64(ca) }, tokenOf("cni")),
    [`${path}-down`]: kubeconfig({ ...own, server: NOBODY.url }, tokenOf("cni")),
    [`${path}-noroles`]: kubeconfig(own, tokenOf("noroles")),
    [`${path}-nopatch`]: kubeconfig(own, tokenOf("nopatch")),
    [`${path}-badtoken`]: kubeconfig(own, { token: "no-such-token" }),
    [`${path}-anonymous`]: kubeconfig(own, {}),
    [`${path}-wrongca`]: kubeconfig(
      { server, "certificate-authority-data": base64(readFileSync(cluster.foreignCaPath, "utf8")) },
      tokenOf("cni"),
    ),
    // A flow mapping that never ends; "-absent" is the one that is not there.
    [`${path}-garbage`]: "{ this is no kubeconfig",
    [`${sandbox.dir}/state/forbidden`]: kubeconfig(own, tokenOf("plugin")),
  };
  for (const [file, text] of Object.entries(configs)) sandbox.writeFile(file, text);
}

function kubeconfig(cluster: Readonly<Record<string, string>>, user: Readonly<Record<string, string>>): string {
  return printJson({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "local", cluster }],
    users: [{ name: "calico", user }],
    contexts: [{ name: "calico-context", context: { cluster: "local", user: "calico" } }],
    "current-context": "calico-context",
  });
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}
