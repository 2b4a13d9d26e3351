/** W11: what ADD and doctor say of a node without nodename file in each of the situations in which something else is wrong first. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Report } from "../../../doctor/report.ts";
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode, type ApiServerNodeOptions } from "../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { BIN_DIR } from "../../support/node.ts";
import { TestAuthority } from "../../support/tls-server-certificates.ts";

const cluster = shared(startCluster);

interface Fault {
  readonly options?: ApiServerNodeOptions;
  /** Makes the `kubernetes` section. */
  readonly kubernetes?: (node: ApiServerNode) => Readonly<Record<string, string>>;
}

/** @param change of the text of the node's kubeconfig */
function kubeconfig(node: ApiServerNode, change: (text: string) => string): { readonly kubeconfig: string } {
  const path = join(node.node.dir, "kubeconfig");
  writeFileSync(path, change(readFileSync(node.kubeconfig, "utf8")));
  return { kubeconfig: path };
}

const POOL = { pools: ["10.60.0.0/26"] };

function otherAuthority(node: ApiServerNode): { readonly kubeconfig: string } {
  const other = Buffer.from(new TestAuthority("other").certificate).toString("base64");
  return kubeconfig(node, (text) => text.replace(/("certificate-authority-data": ")[^"]+/, `$1${other}`));
}

const FAULTS: readonly (readonly [situation: string, word: string, fault: Fault])[] = [
  ["the path of the kubeconfig is wrong", "kubeconfig-unreadable", { kubernetes: () => ({ kubeconfig: "/absent/kubeconfig" }) }],
  ["the kubeconfig makes no sense", "kubeconfig-invalid", { kubernetes: (node) => kubeconfig(node, () => "{") }],
  ["the CA is another server's", "datastore-untrusted", { kubernetes: otherAuthority }],
  [
    "the server is away",
    "datastore-unavailable",
    { kubernetes: (node) => kubeconfig(node, (text) => text.replaceAll(cluster.server, "https://127.0.0.1:1")) },
  ],
  [
    "the token has ended",
    "datastore-unauthorized",
    { kubernetes: (node) => kubeconfig(node, (text) => text.replace(/(token"?: "?)[\w.-]+/, "$1ended")) },
  ],
  ["the account has no rights", "datastore-forbidden", { options: { identity: "stranger" } }],
  ["there is no pool", "pool-none", { options: { pools: [] } }],
  ["nothing else is wrong", "nodename-file-missing", {}],
];

describe.each(FAULTS)("where %s", (_situation, word, { options, kubernetes }) => {
  it(`ADD says ${word}, and doctor gives the same next step`, async () => {
    await using node = await ApiServerNode.create(cluster, { ...POOL, ...options, pods: ["pod"] });
    const conf = {
      nodename: undefined,
      nodename_file_optional: false,
      nodename_file: "/absent/nodename",
      kubernetes: kubernetes?.(node) ?? { kubeconfig: node.kubeconfig },
    };
    const run = await node.call("ADD", { conf });
    expect(run.json).toMatchObject({ code: 999, details: expect.stringMatching(new RegExp(`^${word}: `)) });
    expect(JSON.stringify(run.json)).not.toContain("calico/node");

    const netDir = join(node.node.dir, "net.d");
    const { cniVersion: _, name, ...plugin } = node.conf(conf);
    const plugins = [{ ...plugin, type: "tortie" }];
    await Bun.write(join(netDir, "10-tortie.conflist"), JSON.stringify({ cniVersion: "1.1.0", name, plugins }));
    const doctor = [join(BIN_DIR, "tortiectl"), "doctor", "--json", "--net-dir", netDir, "--cni-bin-dir", BIN_DIR];
    const { results } = JSON.parse((await node.node.run(doctor)).stdout) as Report;
    const failed = results.filter(({ status }) => status !== "ok");
    const next = (run.json as { readonly details: string }).details.slice(`${word}: `.length);
    if (word === "pool-none") expect(failed).toContainEqual(expect.objectContaining({ check: "pools", word: "pool-missing" }));
    else if (word === "nodename-file-missing") {
      expect(failed).toContainEqual(expect.objectContaining({ check: "status", message: expect.stringContaining("/absent/nodename") }));
    } else expect(failed).toContainEqual(expect.objectContaining({ group: "addresses", word, next }));
  });
});
