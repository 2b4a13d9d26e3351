/** `tortie-ipam -upgrade` on a node of a real cluster: directories of the real host-local, objects read by plain HTTP (I§7). */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fresh, shared } from "../../support/fixtures.ts";
import { addToHostLocal, directoryOf, type HostLocalNetwork } from "../../support/host-local.ts";
import { writeKubeconfig } from "../../support/kubernetes/credentials.ts";
import { pause } from "../../support/kubernetes/process.ts";
import { type CalicoGroup, type Fields, LEGACY, startCluster, V3 } from "../../support/kubernetes/test-cluster.ts";
import { BIN_DIR } from "../../support/node.ts";

const NODE = "worker-1";
const TUNNEL_ANNOTATION = "projectcalico.org/IPv4IPIPTunnelAddr";
const LIMIT_MS = 30_000;
const GROUPS: readonly CalicoGroup[] = [LEGACY, V3];

const cluster = shared(startCluster);
beforeAll(() => allowNodeAgent());
beforeEach(async () => {
  await cluster.reset();
  await cluster.setReady(true);
  await cluster.createNode(NODE, {}, { podCIDR: "10.65.0.0/24", podCIDRs: ["10.65.0.0/24"] });
  await cluster.createNode("worker-2");
});

/** The files of a node, and the upgrade running on it. */
class Upgrade implements Disposable {
  readonly parent = mkdtempSync(join(tmpdir(), "tortie-upgrade-"));
  readonly plugins = join(this.parent, "bin");
  readonly network: HostLocalNetwork = { dataDir: this.parent, name: "k8s-pod-network", cidrs: ["10.65.0.0/24"] };
  #child: ChildProcess | undefined;
  stdout = "";
  stderr = "";

  constructor() {
    mkdirSync(this.plugins);
    for (const name of ["calico", "host-local", "portmap"]) writeFileSync(join(this.plugins, name), name);
  }

  get directory(): string {
    return directoryOf(this.network);
  }

  /** A running pod of the node, whose address is one of host-local's. */
  async pod(name: string): Promise<string> {
    const [address = ""] = addToHostLocal(this.network, `${name}-container`);
    await cluster.createPod(name, { node: NODE, status: { phase: "Running", podIP: address, podIPs: [{ ip: address }] } });
    return address;
  }

  start(env: Readonly<Record<string, string>>): void {
    const common = { KUBERNETES_NODE_NAME: NODE, TORTIE_HOST_LOCAL_DIR: this.directory, TORTIE_CNI_BIN_DIR: this.plugins };
    const child = spawn(join(BIN_DIR, "tortie-ipam"), ["-upgrade"], { env: { ...common, ...env }, stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.on("data", (chunk) => {
      this.stdout += chunk;
    });
    child.stderr.on("data", (chunk) => {
      this.stderr += chunk;
    });
    this.#child = child;
  }

  /** @returns the exit status */
  async ended(): Promise<number | null> {
    if (this.#child === undefined) throw new Error("not started");
    if (this.#child.exitCode !== null) return this.#child.exitCode;
    const [exit]: readonly (number | null)[] = await once(this.#child, "close", { signal: AbortSignal.timeout(LIMIT_MS) });
    return exit ?? null;
  }

  async run(env: Readonly<Record<string, string>>): Promise<number | null> {
    this.start(env);
    return this.ended();
  }

  async says(text: string): Promise<void> {
    const deadline = Date.now() + LIMIT_MS;
    while (!this.stderr.includes(text)) {
      if (Date.now() > deadline) throw new Error(`never said "${text}", but: ${this.stderr}`);
      await pause(20);
    }
  }

  [Symbol.dispose](): void {
    this.#child?.kill("SIGKILL");
    rmSync(this.parent, { recursive: true, force: true });
  }
}

const node = fresh(() => new Upgrade());

describe.each(GROUPS)("tortie-ipam -upgrade on a node of a cluster with %s", (group) => {
  beforeEach(() => cluster.createPool("pods", { group, cidr: "10.65.0.0/16" }));

  it("gives running pods their addresses in the pools, drops those of pods that are gone, and lets the cluster go on", async () => {
    const [web, db] = [await node.pod("web"), await node.pod("db")];
    const [gone = ""] = addToHostLocal(node.network, "gone-container");
    const mark = await cluster.mark();

    expect(await node.run({ KUBECONFIG: await nodeAgentKubeconfig(), CALICO_API_GROUP: group })).toBe(0);

    expect(node.stdout).toContain("2 addresses moved");
    expect(node.stdout).toContain(`without container, dropped: ${gone}`);
    const holders = await holdersOf(group);
    expect(holders.get(web)).toEqual({
      handle_id: "k8s-pod-network.web-container",
      secondary: { node: NODE, namespace: "default", pod: "web" },
    });
    expect(holders.get(db)).toEqual({
      handle_id: "k8s-pod-network.db-container",
      secondary: { node: NODE, namespace: "default", pod: "db" },
    });
    expect(holders.has(gone)).toBe(false);
    expect((await cluster.list(group, "ipamhandles")).map(({ metadata }) => metadata.name).sort()).toEqual([
      `ipip-tunnel-addr-${NODE}`,
      "k8s-pod-network.db-container",
      "k8s-pod-network.web-container",
    ]);
    expect(existsSync(node.directory)).toBe(false);
    expect(readdirSync(node.plugins)).toEqual(["portmap"]);

    const writes = (await cluster.requests(mark)).filter(({ verb, uri }) => verb === "update" && uri.includes("clusterinformations"));
    expect(writes.map(({ uri, status }) => ({ uri, status }))).toEqual(
      Array.from({ length: 2 }, () => ({ uri: `/apis/${group}/clusterinformations/default`, status: 200 })),
    );
    expect(await readiness(group)).toBe(true);
  });

  it("makes everybody wait while addresses are moved, and keeps what else ClusterInformation says", async () => {
    await node.pod("web");
    node.start({ KUBECONFIG: await nodeAgentKubeconfig(), CALICO_API_GROUP: group });
    const deadline = Date.now() + LIMIT_MS;
    while (await readiness(group)) {
      if (Date.now() > deadline) throw new Error(`always ready: ${node.stderr}`);
      await pause(20);
    }
    expect(readdirSync(node.directory)).toContain("lock");
    expect(await node.ended()).toBe(0);
    expect((await cluster.get(group, "clusterinformations", "default"))?.spec).toEqual({ clusterGUID: "test", datastoreReady: true });
  });

  it("L17: leaves the cluster paused while another node moves its addresses", async () => {
    const information = () => cluster.get(group, "clusterinformations", "default");
    const path = `/apis/${group}/clusterinformations/default`;
    const found = await information();
    const marked = { annotations: { "tortie-upgrading-nodes": "worker-2" } };
    const changed = { ...found, metadata: { ...found?.metadata, ...marked }, spec: { ...found?.spec, datastoreReady: false } };
    expect(await cluster.api("PUT", path, changed)).toMatchObject({ status: 200 });
    await node.pod("web");

    expect(await node.run({ KUBECONFIG: await nodeAgentKubeconfig(), CALICO_API_GROUP: group })).toBe(0);

    expect(await readiness(group)).toBe(false);
    expect((await information())?.metadata).toMatchObject(marked);
  });

  it("keeps the first address of the node's pod CIDR for the IPIP tunnel, once", async () => {
    mkdirSync(node.directory);
    const env = { KUBECONFIG: await nodeAgentKubeconfig(), CALICO_API_GROUP: group };
    expect(await node.run(env)).toBe(0);

    expect(await tunnelAddress()).toBe("10.65.0.1");
    expect((await holdersOf(group)).get("10.65.0.1")).toEqual({
      handle_id: `ipip-tunnel-addr-${NODE}`,
      secondary: { node: NODE, type: "ipipTunnelAddress" },
    });
    expect(existsSync(node.directory)).toBe(false);

    mkdirSync(node.directory);
    await annotate("10.65.0.99");
    expect(await node.run(env)).toBe(0);
    expect(await tunnelAddress()).toBe("10.65.0.99");
  });
});

describe("tortie-ipam -upgrade that cannot go on", () => {
  it("tries again every second, and ends when what it missed is there", async () => {
    const web = await node.pod("web");
    node.start({ KUBECONFIG: await nodeAgentKubeconfig(), CALICO_API_GROUP: LEGACY });
    await node.says("trying again");
    expect(node.stderr).toContain("10.65.0.1: The provided IP address is not in a configured pool");
    expect(await readiness(LEGACY)).toBe(true);
    await cluster.createPool("pods", { cidr: "10.65.0.0/16" });
    expect(await node.ended()).toBe(0);
    expect((await holdersOf(LEGACY)).has(web)).toBe(true);
  });

  it("names the right that its account lacks, before anybody has to wait", async () => {
    await cluster.createPool("pods", { cidr: "10.65.0.0/16" });
    await annotate("10.65.0.1");
    const web = await node.pod("web");
    node.start({ KUBECONFIG: await cluster.kubeconfigFor("cni"), CALICO_API_GROUP: LEGACY });
    await node.says('cannot list resource "pods"');
    expect(await readiness(LEGACY)).toBe(true);
    expect(existsSync(join(node.directory, web))).toBe(true);
    expect(readdirSync(node.plugins)).toContain("host-local");
  });

  it("goes on after an answer about the readiness got lost", async () => {
    await cluster.createPool("pods", { cidr: "10.65.0.0/16" });
    await using proxy = await cluster.proxy();
    proxy.on({ method: "PUT", path: "clusterinformations" }, { kind: "lose-answer" });
    const web = await node.pod("web");
    const kubeconfig = await nodeAgentKubeconfig(proxy.server);
    expect(await node.run({ KUBECONFIG: kubeconfig, CALICO_API_GROUP: LEGACY })).toBe(0);
    expect(await readiness(LEGACY)).toBe(true);
    expect((await holdersOf(LEGACY)).has(web)).toBe(true);
  });

  it("says that the kubeconfig cannot be read, and ends", async () => {
    await node.pod("web");
    expect(await node.run({ KUBECONFIG: "/nowhere/kubeconfig" })).toBe(1);
    expect(node.stderr).toContain("/nowhere/kubeconfig");
  });
});

/** What calico-node may do, as far as the upgrade needs it: its init container runs under that account. */
async function allowNodeAgent(): Promise<void> {
  const name = "test-calico-node";
  const calico = { apiGroups: ["crd.projectcalico.org", "projectcalico.org"] };
  await cluster.apply({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name, namespace: "kube-system" } });
  await cluster.apply({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRole",
    metadata: { name },
    rules: [
      { apiGroups: [""], resources: ["pods"], verbs: ["list"] },
      { apiGroups: [""], resources: ["nodes"], verbs: ["get"] },
      { apiGroups: [""], resources: ["nodes/status"], verbs: ["patch"] },
      { ...calico, resources: ["clusterinformations"], verbs: ["get", "update"] },
      { ...calico, resources: ["ippools", "ipreservations", "ipamconfigs", "ipamconfigurations"], verbs: ["get", "list"] },
      { ...calico, resources: ["ipamblocks", "blockaffinities", "ipamhandles"], verbs: ["get", "list", "create", "update", "delete"] },
    ],
  });
  await cluster.apply({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
    subjects: [{ kind: "ServiceAccount", name, namespace: "kube-system" }],
  });
}

let kubeconfigs = 0;

async function nodeAgentKubeconfig(server = cluster.server): Promise<string> {
  const path = join(cluster.dir, `node-agent-${++kubeconfigs}.kubeconfig`);
  writeKubeconfig(path, server, cluster.caPath, { token: await cluster.tokenOf("test-calico-node") });
  return path;
}

async function readiness(group: CalicoGroup): Promise<unknown> {
  return (await cluster.get(group, "clusterinformations", "default"))?.spec?.datastoreReady;
}

async function tunnelAddress(): Promise<string | undefined> {
  return (await cluster.get("v1", "nodes", NODE))?.metadata.annotations?.[TUNNEL_ANNOTATION];
}

async function annotate(address: string): Promise<void> {
  const patch = { metadata: { annotations: { [TUNNEL_ANNOTATION]: address } } };
  await cluster.api("PATCH", `/api/v1/nodes/${NODE}`, patch);
}

/** Address → the attribute that a block has for it. The blocks here are IPv4 and inside 10.65.0.0/24. */
async function holdersOf(group: CalicoGroup): Promise<ReadonlyMap<string, Fields>> {
  const holders = new Map<string, Fields>();
  for (const { spec } of await cluster.list(group, "ipamblocks")) {
    const block: BlockSpec = Object(spec);
    const first = Number(/\.(\d+)\//.exec(block.cidr)?.[1]);
    block.allocations.forEach((index, ordinal) => {
      if (index !== null) holders.set(`10.65.0.${first + ordinal}`, block.attributes[index] ?? {});
    });
  }
  return holders;
}

interface BlockSpec {
  readonly cidr: string;
  readonly allocations: readonly (number | null)[];
  readonly attributes: readonly Fields[];
}
