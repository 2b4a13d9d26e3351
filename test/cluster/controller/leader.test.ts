/** Two controllers, whole processes, and one lease on a real API server. */
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { ClusterAddresses } from "../../support/cluster-addresses.ts";
import { shared } from "../../support/fixtures.ts";
import { readManifest } from "../../support/kubernetes/manifests.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR } from "../../support/node.ts";

const running: ChildProcess[] = [];
afterEach(() => {
  for (const child of running.splice(0)) child.kill("SIGKILL");
});
const cluster = shared(startCluster);
const addresses = shared(() => ClusterAddresses.open(cluster));

interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<number | null>;
  log(): string;
}

async function start(identity: string): Promise<Started> {
  const kubeconfig = await cluster.kubeconfigFor("controller");
  const flags = { identity, kubeconfig, "lease-duration": "3", "scan-interval": "1", "node-grace": "1", "health-port": "0" };
  const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
  const child = spawn(join(BIN_DIR, "tortie-controller"), args, { env: {}, stdio: ["ignore", "ignore", "pipe"] });
  running.push(child);
  let log = "";
  child.stderr?.on("data", (chunk) => {
    log += String(chunk);
  });
  const ended = new Promise<number | null>((done) => child.once("exit", done));
  return { child, ended, log: () => log };
}

const lease = async () => (await cluster.get("coordination.k8s.io/v1", "leases", "tortie-controller", "kube-system"))?.spec;
const holder = async () => (await lease())?.holderIdentity;

describe("manifests/controller/deployment.yaml", () => {
  it("is a Deployment that the API server takes, of the account that has the rights", async () => {
    const [deployment, ...others] = readManifest("manifests/controller/deployment.yaml");
    expect(others).toEqual([]);
    if (deployment === undefined) throw new Error("the file is empty");
    const stored = await cluster.apply(deployment);
    expect(stored.spec).toMatchObject({ replicas: 2, template: { spec: { serviceAccountName: "tortie-controller" } } });
    await cluster.remove("apps/v1", "deployments", "tortie-controller", "kube-system");
  });

  it("tolerates the taint that the controller itself brings on a node, or nobody could take it off again", () => {
    const [deployment] = readManifest("manifests/controller/deployment.yaml");
    expect(deployment?.spec).toMatchObject({
      template: {
        spec: {
          tolerations: expect.arrayContaining([
            { key: "node.kubernetes.io/network-unavailable", operator: "Exists", effect: "NoSchedule" },
          ]),
        },
      },
    });
  });
});

describe("two controllers", () => {
  it("have one leader; when it is killed the other takes over and goes on; a leader that ends gives the lease back", async () => {
    await addresses.clear(["node1", "node2", "node3"]);
    await cluster.createPool("pool", { cidr: "10.60.0.0/24", blockSize: 29 });
    for (const node of ["node1", "node2"]) await addresses.take(node, `pod-of-${node}`);

    const first = await start("first");
    await until("the first to lead", async () => (await holder()) === "first");
    const second = await start("second");
    await cluster.remove("v1", "nodes", "node1");
    await until("the first to clean up", async () => (await addresses.of("node1")).affinities.length === 0);
    expect(second.log()).not.toContain("this controller leads");

    first.child.kill("SIGKILL");
    await first.ended;
    await cluster.remove("v1", "nodes", "node2");
    await until("the second to lead", async () => (await holder()) === "second");
    expect(await lease()).toMatchObject({ leaseTransitions: 1, leaseDurationSeconds: 3 });
    await until("the second to clean up", async () => (await addresses.of("node2")).affinities.length === 0);
    expect(await addresses.damage()).toEqual([]);

    second.child.kill("SIGTERM");
    expect(await second.ended).toBe(0);
    expect(await holder()).toBe("");
  });
});
