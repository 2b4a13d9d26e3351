/**
 * The kubeconfig files that recordings name, in a sandbox. `kubeconfig` speaks for the plugins' own account with exactly the role of
 * manifests/plugins/rbac.yaml; the others differ in what the end of their name says.
 */
import { readFileSync } from "node:fs";
import { printJson } from "../../compare/json.ts";
import type { Recording } from "../../recording/recording.ts";
import type { Sandbox } from "../../sandbox/sandbox.ts";
import type { ReplayCluster } from "./cluster.ts";

/** Where nobody listens, unless a recording's error texts name another place. */
const NOBODY = { address: "198.51.100.1", port: "46444" };

/**
 * That address gets onto the sandbox's loopback, so that a connection is refused at once.
 *
 * @throws Error when the recording names a file that is not written here: what is not played must not be called equal
 */
export async function writeKubeconfigs(sandbox: Sandbox, cluster: ReplayCluster, server: string, recording: Recording): Promise<void> {
  const [, address = NOBODY.address, nobodysPort = NOBODY.port] =
    /dial tcp ([\d.]+):(\d+): connect: connection refused/.exec(recording.text) ?? [];
  const named = namedIn(recording);
  const isAsked = recording.text.includes(address) || named.some((name) => /-down$|\/unreachable$/.test(name));
  if (isAsked && !address.startsWith("127.")) await sandbox.shell("host", `ip address add ${address}/32 dev lo`);
  const nobody = `https://${address}:${nobodysPort}`;
  const path = `${sandbox.dir}/kubeconfig`;
  const caPath = `${path}-ca.crt`;
  const tokenPath = `${path}-token`;
  const ca = readFileSync(cluster.caPath, "utf8");
  sandbox.writeFile(caPath, ca);
  sandbox.writeFile(tokenPath, cluster.tokenOf("cni"));
  sandbox.writeFile(`${path}-client.crt`, readFileSync(cluster.clientCertificate.certificate, "utf8"));
  sandbox.writeFile(`${path}-client.key`, readFileSync(cluster.clientCertificate.key, "utf8"));
  const own = { server, "certificate-authority": caPath };
  const tokenOf = (account: Parameters<ReplayCluster["tokenOf"]>[0]) => ({ token: cluster.tokenOf(account) });
  const configs: Readonly<Record<string, string>> = {
    [path]: kubeconfig(own, { tokenFile: tokenPath }),
    [agentKubeconfig(sandbox)]: kubeconfig(own, tokenOf("agent")),
    [`${path}-inline`]: kubeconfig({ server, "certificate-authority-data": base64(ca) }, tokenOf("cni")),
    [`${path}-down`]: kubeconfig({ ...own, server: nobody }, tokenOf("cni")),
    [`${path}-certs`]: kubeconfig(own, { "client-certificate": `${path}-client.crt`, "client-key": `${path}-client.key` }),
    [`${path}-noca`]: kubeconfig({ server }, tokenOf("cni")),
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
    [`${sandbox.dir}/state/unreachable`]: kubeconfig({ ...own, server: nobody }, tokenOf("plugin")),
  };
  const unknown = named.filter((name) => {
    const file = name.replace("{{kubeconfig}}", path).replace("{{state}}", `${sandbox.dir}/state`);
    return configs[file] === undefined;
  });
  if (unknown.length > 0) throw new Error(`nobody writes ${unknown.join(", ")} (store/kubernetes/access.ts)`);
  for (const [file, text] of Object.entries(configs)) sandbox.writeFile(file, text);
}

/** Of the agent's own account, which no recording knows. */
export function agentKubeconfig(sandbox: Sandbox): string {
  return `${sandbox.dir}/agent-kubeconfig`;
}

/** The kubeconfig files that calls name, but for the one that is not there. */
function namedIn({ steps }: Recording): string[] {
  const texts = steps.flatMap((step) => (step.kind === "call" ? [JSON.stringify([step.env, step.stdin])] : []));
  const names = texts.flatMap((text) => text.match(/\{\{kubeconfig\}\}(?:-\w+)*|\{\{state\}\}\/[\w-]+/g) ?? []);
  return [...new Set(names)].filter((name) => !name.endsWith("absent"));
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
