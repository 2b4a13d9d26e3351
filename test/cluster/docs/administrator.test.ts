/** Commands of docs/reference/controller.md and of pages of docs/how-to that an administrator gives, with a real API server. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { shared } from "../../support/fixtures.ts";
import { connectNode } from "../../support/kubernetes/connect-node.ts";
import { endProcess, startProcess } from "../../support/kubernetes/process.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { commandsOf } from "../../support/page.ts";
import { PageHost, type PageHostOptions } from "../../support/page-host.ts";

const LIMIT_MS = 120_000;
const POOL = "administrators-pool";

let programs: string;
let dir: string;
afterAll(async () => {
  rmSync(dir, { recursive: true, force: true });
});
const cluster = shared(startCluster);
beforeAll(async () => {
  await cluster.reset();
  await cluster.setReady(true);
  await cluster.createPool(POOL, { cidr: "10.90.0.0/24" });
  programs = execFileSync("bash", [resolve("scripts/cluster-servers"), "control-plane"], { encoding: "utf8" }).trim();
  dir = join(cluster.dir, "administrator");
  mkdirSync(dir);
});

/** Where kubectl and our programs reach the API server. */
async function administrator(options: PageHostOptions = {}): Promise<PageHost> {
  const host = await PageHost.create({ kubeconfig: cluster.adminKubeconfig, programs: [programs], ...options });
  await connectNode(host.node, cluster);
  return host;
}

it("docs/reference/controller.md: the Deployment is taken by the API server, and the program by itself leads with a kubeconfig", async () => {
  await using host = await administrator();
  const [apply = "", start = "", ...others] = commandsOf("reference/controller.md", "## Run it").join("").trim().split("\n");
  expect(others).toEqual([]);

  expect(await host.run(apply)).toContain("deployment.apps/tortie-controller created");

  const kubeconfig = await cluster.kubeconfigFor("controller");
  await host.run(`mkdir -p /etc/tortie && cp ${kubeconfig} /etc/tortie/kubeconfig`);
  const controller = startProcess(host.commandLine(`exec ${start}`), join(dir, "controller.log"));
  try {
    const holder = async () => (await cluster.get("coordination.k8s.io/v1", "leases", "tortie-controller", "kube-system"))?.spec;
    await until("a leader", async () => Boolean((await holder())?.holderIdentity), LIMIT_MS);
    await until("readiness", async () => (await host.run("curl -s http://127.0.0.1:9880/readyz || true")) === "ok\n", LIMIT_MS);
  } finally {
    await endProcess(controller);
  }
  await host.run("kubectl delete -f manifests/controller/deployment.yaml");
  await cluster.remove("coordination.k8s.io/v1", "leases", "tortie-controller", "kube-system");
});

it("docs/reference/controller.md: the program prints the schema of its configuration", async () => {
  await using host = await administrator();

  expect(JSON.parse(await host.run("tortie-controller --print-schema"))).toMatchObject({
    properties: { "node-grace": expect.any(Object) },
  });
});

it("docs/how-to/migrate-from-calico.md: what is stored is looked at by `ipam check` before the migration", async () => {
  await using host = await administrator();
  const [check = ""] = commandsOf("how-to/migrate-from-calico.md", "## Before");

  expect(await host.run(check)).toMatch(/^ok .* agree\n$/);
});

describe("docs/how-to", () => {
  it("drains a node and deletes it", async () => {
    await using host = await administrator();
    await cluster.createNode("leaving");
    const [drain = ""] = commandsOf("how-to/drain.md", "## The commands");

    expect(await host.run(drain.replaceAll("NODE", "leaving"))).toContain("node/leaving drained");

    expect(await cluster.get("v1", "nodes", "leaving")).toBeUndefined();
  });

  it("removes what is Tortie's beside Calico, and leaves Calico's definitions and pools", async () => {
    await using own = await startCluster({ own: true });
    await own.setReady(true);
    await own.createPool(POOL, { cidr: "10.90.0.0/24" });
    await using host = await PageHost.create({ kubeconfig: own.adminKubeconfig, programs: [programs] });
    await connectNode(host.node, own);
    await host.run("bash scripts/render-manifests beside-calico | kubectl apply --server-side --force-conflicts -f -");
    expect(await host.run("kubectl -n kube-system get daemonset -o name")).toContain("daemonset.apps/tortie-node");

    await host.run("bash scripts/render-manifests beside-calico | kubectl delete -f -");

    expect(await host.run("kubectl -n kube-system get daemonset,deployment -o name")).toBe("");
    expect(await host.run("kubectl get ippools.crd.projectcalico.org -o name")).toBe(`ippool.crd.projectcalico.org/${POOL}\n`);
  });

  it("backs up pools, reservations and configuration as a file that the API server takes back", async () => {
    await using host = await administrator({ cwd: dir });
    const [backup = ""] = commandsOf("how-to/backup.md", "## In a cluster");

    await host.run(backup);

    expect(readFileSync(join(dir, "pools.yaml"), "utf8")).toContain(`name: ${POOL}`);
    await cluster.remove("crd.projectcalico.org/v1", "ippools", POOL);
    expect(await host.run("kubectl create -f pools.yaml")).toContain(`ippool.crd.projectcalico.org/${POOL} created`);
  });
});
