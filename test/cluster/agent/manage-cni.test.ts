/** An agent that keeps what the installer has placed right, with its own account's rights and nothing more (C§9.5). */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { shared } from "../../support/fixtures.ts";
import { connectNode } from "../../support/kubernetes/connect-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { Node } from "../../support/node.ts";

const cluster = shared(startCluster);
beforeAll(async () => {
  await cluster.reset();
  await cluster.setReady(true);
});

const read = (path: string): string => {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
};
const tokenOf = (path: string) => /token: (\S+)/.exec(read(path))?.[1] ?? "";

describe("tortie-node --manage-cni", () => {
  it("writes kubeconfig and conflist in a pod, renews the token, puts back what is removed, and follows a template that changes", async () => {
    await using node = await Node.create();
    await connectNode(node, cluster);
    await cluster.createNode(node.name);
    const account = join(node.dir, "account");
    const netDir = join(node.dir, "net.d");
    const template = join(node.dir, "template.conflist");
    for (const directory of [account, netDir]) mkdirSync(directory, { recursive: true });
    writeFileSync(join(account, "token"), await cluster.tokenFor("agent"));
    writeFileSync(join(account, "namespace"), "kube-system");
    writeFileSync(join(account, "ca.crt"), readFileSync(cluster.caPath));
    const listOf = (mtu: number) =>
      JSON.stringify({ name: "n", cniVersion: "1.0.0", plugins: [{ type: "tortie", mtu, nodename: "__KUBERNETES_NODE_NAME__" }] });
    writeFileSync(template, listOf(1400));
    const since = await cluster.mark();

    await using agent = await Agent.start(node, {
      args: ["--datastore-type", "kubernetes", "--manage-cni"],
      env: {
        KUBERNETES_SERVICE_HOST: "127.0.0.1",
        KUBERNETES_SERVICE_PORT: String(cluster.port),
        KUBERNETES_NODE_NAME: node.name,
        CNI_NET_DIR: netDir,
        CNI_NETWORK_CONFIG_FILE: template,
        CNI_TOKEN_REFRESH_INTERVAL: "2s",
      },
      binds: { "/var/run/secrets/kubernetes.io/serviceaccount": account },
    });

    const kubeconfig = join(netDir, "calico-kubeconfig");
    const conflist = join(netDir, "10-tortie.conflist");
    await until("kubeconfig and conflist", () => tokenOf(kubeconfig) !== "" && read(conflist) !== "");
    const first = tokenOf(kubeconfig);
    expect((await cluster.apiAs(first, "GET", "/api/v1/nodes/none")).status).toBe(404);
    expect(JSON.parse(read(conflist))).toMatchObject({ plugins: [{ mtu: 1400, nodename: node.name }] });

    await until("another token", () => tokenOf(kubeconfig) !== "" && tokenOf(kubeconfig) !== first);
    rmSync(conflist);
    await until("the conflist again", () => read(conflist) !== "");
    writeFileSync(template, listOf(1300));
    // A file in the directory of lists wakes the agent, which otherwise looks every half minute.
    writeFileSync(join(netDir, "other"), "");
    await until("the changed template", () => read(conflist).includes("1300"));

    const document = await agent.request("GET", "/healthz");
    expect(document.text).toContain(`kubeconfig and conflist in ${netDir} are kept`);
    const refused = (await cluster.requests(since)).filter(({ user, status }) => user.endsWith(":tortie-node") && status === 403);
    expect(refused).toEqual([]);
  });
});
