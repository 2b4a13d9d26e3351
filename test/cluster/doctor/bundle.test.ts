/** `tortiectl bundle` of a node of a real cluster: none of the secrets that the cluster has is in it, in any form. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { ending, fresh, shared } from "../../support/fixtures.ts";
import { connectNode } from "../../support/kubernetes/connect-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { BIN_DIR, Node } from "../../support/node.ts";
import { type NamedSecrets, secretsIn } from "../../support/secret-search.ts";

const NODE = "node1";
const cluster = shared(startCluster);
const node = fresh(Node.create);
const word = () => randomBytes(18).toString("base64url");
const WRITTEN = { "environment value": word(), "Secret's value": word(), "argument's password": word(), "annotation's token": word() };

/** What the cluster has made for itself: keys of its certificates and of service accounts, and the tokens of kubeconfigs. */
function secretsOfCluster(): NamedSecrets {
  const files = readdirSync(cluster.dir).filter((name) => statSync(join(cluster.dir, name)).isFile());
  const found = files.flatMap((name): [string, string][] => {
    const text = readFileSync(join(cluster.dir, name), "utf8");
    if (text.includes("PRIVATE KEY-----")) return [[name, text]];
    return [...text.matchAll(/"token": ?"([^"]+)"/g)].map(([, token = ""], index) => [`${name} ${index}`, token]);
  });
  return Object.fromEntries(found);
}

/** Objects as people write them: with what should not stand there. */
async function writeObjects(): Promise<void> {
  const container = {
    name: "c",
    image: "test.local/none",
    args: [`--password=${WRITTEN["argument's password"]}`],
    env: [{ name: "GREETING", value: WRITTEN["environment value"] }],
  };
  const annotations = { "example.org/token": WRITTEN["annotation's token"] };
  const pod = { spec: { nodeName: NODE, containers: [container] }, metadata: { name: "web", namespace: "default", annotations } };
  await cluster.apply({ apiVersion: "v1", kind: "Pod", ...pod });
  const labels = { app: "tortie-node" };
  const template = { metadata: { labels, annotations }, spec: { containers: [container] } };
  await cluster.apply({
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name: "tortie-node", namespace: "kube-system" },
    spec: { selector: { matchLabels: labels }, template },
  });
  const secret = { metadata: { name: "secret", namespace: "kube-system" }, stringData: { key: WRITTEN["Secret's value"] } };
  await cluster.apply({ apiVersion: "v1", kind: "Secret", ...secret });
}

it("has the node's objects, the agent's endpoints and the plugins' log, and no secret of the cluster", async () => {
  await cluster.reset();
  await cluster.setReady(true);
  await cluster.createPool("pool4", { cidr: "10.60.0.0/26" });
  await cluster.createNode(NODE);
  await writeObjects();
  await connectNode(node, cluster);
  const kubeconfig = await cluster.kubeconfigFor("agent");
  const args = ["--datastore-type", "kubernetes", "--kubeconfig", kubeconfig, "--node-name", NODE];
  const agent = ending(await Agent.start(node, { args }));
  const netDir = join(node.dir, "net.d");
  mkdirSync(netDir);
  copyFileSync(await cluster.kubeconfigFor("cni"), join(netDir, "calico-kubeconfig"));
  const main = {
    type: "tortie",
    datastore_type: "kubernetes",
    kubernetes: { kubeconfig: join(netDir, "calico-kubeconfig") },
    ipam: { type: "tortie-ipam" },
  };
  writeFileSync(join(netDir, "10-tortie.conflist"), JSON.stringify({ name: "k8s-pod-network", cniVersion: "1.0.0", plugins: [main] }));
  const output = join(node.dir, "bundle.tar.gz");
  const line = [
    "--kubeconfig",
    cluster.adminKubeconfig,
    "--node",
    NODE,
    "--net-dir",
    netDir,
    "--socket",
    agent.socket,
    "--output",
    output,
    "--json",
  ];
  const { exit, stdout, stderr } = await node.run([join(BIN_DIR, "tortiectl"), "bundle", ...line]);
  expect(`${exit} ${stderr}`).toBe("0 ");

  const folder = join(node.dir, "unpacked");
  mkdirSync(folder);
  execFileSync("tar", ["-xzf", output, "-C", folder, "--strip-components=1"]);
  const secrets = { ...secretsOfCluster(), ...WRITTEN };
  // At least the keys of three certificates and of service accounts, an agent's token and a plugin's.
  expect(Object.keys(secrets).length).toBeGreaterThan(Object.keys(WRITTEN).length + 5);
  expect(secretsIn(netDir, secrets).length).toBeGreaterThan(0);
  expect(secretsIn(folder, secrets)).toEqual([]);

  const read = (path: string) => JSON.parse(readFileSync(join(folder, path), "utf8"));
  expect(read("cluster/nodes.json").metadata.name).toBe(NODE);
  expect(read("cluster/pods.json").items[0].spec.containers[0].env).toEqual([{ name: "GREETING", value: "[hidden]" }]);
  expect(read("cluster/pools.json").items[0].spec.cidr).toBe("10.60.0.0/26");
  expect(read("agent/health.json").phase).toBeDefined();
  const { parts }: { parts: { path: string; missing?: string }[] } = JSON.parse(stdout);
  expect(parts.filter(({ path }) => path.includes("ecret"))).toEqual([]);
}, 180_000);
