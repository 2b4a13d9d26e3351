/**
 * One real node in the sandbox: containerd, kubelet, the agent, and the plugins as the installer of a DaemonSet puts them there. Its
 * processes die with the test process, its files are the sandbox's, and its control groups are removed with it.
 */
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Installation } from "../installation.ts";
import { LEGACY, type StoredObject, type TestCluster } from "../kubernetes/cluster.ts";
import { endProcess, isRunning, startProcess } from "../kubernetes/process.ts";
import { BIN_DIR } from "../node.ts";
import { Cgroups } from "./cgroups.ts";
import { containerdConfiguration, kubeletConfiguration } from "./configurations.ts";
import { makeImage, TEST_IMAGE } from "./image.ts";

/** Only ends what hangs. */
const LIMIT_MS = 240_000;
const LOOK_MS = 100;
/** Socket paths are limited, and lie below it. */
const DIR = "/run/k";
const PLUGINS = ["loopback", "portmap", "bandwidth"];
export const NAMESPACE = "pods";
export const NODE = "node1";
export const NODE_ADDRESS = "192.168.77.1";

type Program = "containerd" | "kubelet" | "tortie-node";

export interface PodWishes {
  readonly annotations?: Readonly<Record<string, string>>;
  readonly hostNetwork?: boolean;
  readonly hostPort?: number;
}

export class KubeletNode implements AsyncDisposable {
  readonly #cluster: TestCluster;
  readonly #host: Installation;
  readonly #cgroups: Cgroups;
  readonly #kubelet: string;
  readonly #agentKubeconfig: string;
  readonly #pids = new Map<Program, number>();

  private constructor(cluster: TestCluster, host: Installation, cgroups: Cgroups, kubelet: string, agentKubeconfig: string) {
    this.#cluster = cluster;
    this.#host = host;
    this.#cgroups = cgroups;
    this.#kubelet = kubelet;
    this.#agentKubeconfig = agentKubeconfig;
  }

  /** On an empty cluster with pools. @returns when the node is Ready */
  static async start(cluster: TestCluster): Promise<KubeletNode> {
    mkdirSync(DIR);
    connect(cluster.port);
    await cluster.createNamespace(NAMESPACE);
    const kubelet = join(execFileSync("bash", [resolve("scripts/cluster-servers"), "kubelet"], { encoding: "utf8" }).trim(), "kubelet");
    const node = new KubeletNode(cluster, new Installation(), Cgroups.mount(), kubelet, await cluster.kubeconfigFor("agent"));
    try {
      await node.#install();
      node.start("tortie-node");
      await node.startRuntime();
      const image = join(DIR, "image");
      mkdirSync(image);
      node.#ctr("images", "import", makeImage(image));
      node.start("kubelet");
      await node.untilNodeReady();
      return node;
    } catch (error) {
      const logs = node.logs();
      await node[Symbol.asyncDispose]();
      throw new Error(`no node: ${error instanceof Error ? error.message : String(error)}\n${logs}`);
    }
  }

  /** Where the runtime looks for plugins. */
  get binDir(): string {
    return this.#host.binDir;
  }

  get netDir(): string {
    return this.#host.netDir;
  }

  start(program: Program): void {
    this.#pids.set(program, startProcess(this.#commandOf(program), join(DIR, `${program}.log`)));
  }

  async stop(program: Program): Promise<void> {
    await endProcess(this.#pids.get(program));
  }

  async restart(program: Program): Promise<void> {
    await this.stop(program);
    if (program === "containerd") await this.startRuntime();
    else this.start(program);
  }

  async startRuntime(): Promise<void> {
    this.start("containerd");
    await this.until("containerd", () => {
      try {
        this.#ctr("version");
        return true;
      } catch {
        return false;
      }
    });
  }

  /** What an upgrade of the DaemonSet does: the installer once more, over executables in use. */
  async install(): Promise<void> {
    await this.#install();
  }

  async uninstall(): Promise<string> {
    const { exit, log } = await this.#host.run([join(BIN_DIR, "tortiectl"), "uninstall", "--net-dir", this.netDir]);
    if (exit !== 0) throw new Error(`uninstall: ${log}`);
    return log;
  }

  async createPods(names: readonly string[], wishes: PodWishes = {}): Promise<void> {
    await Promise.all(names.map((name) => this.#createPod(name, wishes)));
  }

  /** As kubectl does it: kubelet takes the object away when the sandbox is gone. */
  async deletePods(names: readonly string[]): Promise<void> {
    const path = (name: string) => `/api/v1/namespaces/${NAMESPACE}/pods/${name}?gracePeriodSeconds=1`;
    await Promise.all(names.map((name) => this.#cluster.api("DELETE", path(name))));
  }

  pods(): Promise<readonly StoredObject[]> {
    return this.#cluster.list("v1", "pods", NAMESPACE);
  }

  async untilReady(names: readonly string[]): Promise<void> {
    await this.until(`pods ${names[0]} … to be Ready`, async () => {
      const ready = new Set((await this.pods()).filter(isReady).map(({ metadata }) => metadata.name));
      return names.every((name) => ready.has(name));
    });
  }

  async untilGone(names: readonly string[]): Promise<void> {
    await this.until(`pods ${names[0]} … to be gone`, async () => {
      const there = new Set((await this.pods()).map(({ metadata }) => metadata.name));
      return !names.some((name) => there.has(name));
    });
  }

  async untilNodeReady(): Promise<void> {
    await this.until("the node to be Ready", async () => {
      const node = await this.#cluster.get("v1", "nodes", NODE);
      return node !== undefined && isReady(node);
    });
  }

  async addressesOf(name: string): Promise<readonly string[]> {
    const pod = await this.#cluster.get("v1", "pods", name, NAMESPACE);
    const { podIPs = [] } = (pod?.status ?? {}) as { podIPs?: readonly { ip: string }[] };
    return podIPs.map(({ ip }) => ip);
  }

  /** Runs a program in the network namespace of the pod with this address. @returns what it printed */
  inPod(address: string, ...command: readonly string[]): string {
    return execFileSync("ip", ["netns", "exec", this.#sandboxOf(address), ...command], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
  }

  #sandboxOf(address: string): string {
    const sandbox = readdirSync("/run/netns").find(
      (name) =>
        name.startsWith("cni-") && execFileSync("ip", ["-n", name, "-br", "address"], { encoding: "utf8" }).includes(` ${address}/`),
    );
    if (sandbox === undefined) throw new Error(`no sandbox has ${address}`);
    return sandbox;
  }

  /** Names of the network namespaces of sandboxes. */
  sandboxes(): readonly string[] {
    return existsSync("/run/netns") ? readdirSync("/run/netns").filter((name) => name.startsWith("cni-")) : [];
  }

  /** Host ends of pods. */
  podLinks(): readonly string[] {
    const links = JSON.parse(execFileSync("ip", ["-j", "link", "show", "type", "veth"], { encoding: "utf8" })) as { ifname: string }[];
    return links.map(({ ifname }) => ifname).filter((name) => name.startsWith("cali"));
  }

  /** Ordinals of addresses that somebody has, of all blocks. */
  async takenOrdinals(): Promise<readonly number[]> {
    const blocks = await this.#cluster.list(LEGACY, "ipamblocks");
    return blocks.flatMap(({ spec }) =>
      (spec as { allocations: readonly (number | null)[] }).allocations.flatMap((index, ordinal) => (index === null ? [] : [ordinal])),
    );
  }

  /** Process 1 of the sandbox with this address. */
  pauseProcessOf(address: string): number {
    const sandbox = this.#sandboxOf(address);
    const pids = execFileSync("ip", ["netns", "pids", sandbox], { encoding: "utf8" }).trim().split("\n");
    const pause = pids.find((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("/bin/sleep"));
    if (pause === undefined) throw new Error(`no pause process in ${sandbox}: ${pids}`);
    return Number(pause);
  }

  /** What the installer has put into the runtime's directories, hidden files among them. */
  installed(): readonly string[] {
    return [...readdirSync(this.binDir), ...readdirSync(this.netDir)];
  }

  /** Kubelet's words for each ADD that failed; what its own restart costs, a sandbox name that is still reserved, is not the plugins'. */
  async failedAdds(): Promise<readonly string[]> {
    const { text } = await this.#cluster.api("GET", `/api/v1/namespaces/${NAMESPACE}/events`);
    const { items } = JSON.parse(text) as { items: readonly { reason: string; message: string }[] };
    return items.map(({ reason, message }) => `${reason}: ${message}`).filter((text) => /^FailedCreatePodSandBox: .*network/s.test(text));
  }

  /** Waits for a condition, as long as the node's programs run. */
  async until(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
    for (const end = performance.now() + LIMIT_MS; !(await isTrue()); await Bun.sleep(LOOK_MS)) {
      if (performance.now() > end) throw new Error(`waited too long for ${what}:\n${this.logs()}`);
    }
  }

  isRunning(program: Program): boolean {
    return isRunning(this.#pids.get(program) ?? 0);
  }

  /** The ends of what the programs have written. */
  logs(): string {
    return ["tortie-node", "containerd", "kubelet"].map((name) => `--- ${name}\n${endOf(join(DIR, `${name}.log`))}`).join("\n");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const program of ["kubelet", "tortie-node", "containerd"] as const) await this.stop(program);
    await this.#cgroups[Symbol.asyncDispose]();
    this.#host[Symbol.dispose]();
  }

  async #install(): Promise<void> {
    for (const plugin of PLUGINS) cpSync(join("/usr/lib/cni", plugin), join(this.#host.pluginSource, plugin));
    this.#host.addServiceAccount(await this.#cluster.tokenFor("admin"), readFileSync(this.#cluster.caPath, "utf8"));
    const { exit, log } = await this.#host.install({
      CNI_NET_DIR: this.netDir,
      CNI_NETWORK_CONFIG: NETWORK,
      CNI_MTU: "1450",
      DATASTORE_TYPE: "kubernetes",
      LOG_LEVEL: "info",
      KUBERNETES_NODE_NAME: NODE,
      KUBERNETES_SERVICE_HOST: "127.0.0.1",
      KUBERNETES_SERVICE_PORT: String(this.#cluster.port),
    });
    if (exit !== 0) throw new Error(`install: ${log}`);
  }

  #commandOf(program: Program): readonly string[] {
    const places = { dir: DIR, binDir: this.binDir, netDir: this.netDir };
    switch (program) {
      case "tortie-node":
        return [join(BIN_DIR, "tortie-node"), "--datastore-type", "kubernetes", "--kubeconfig", this.#agentKubeconfig, "--node-name", NODE];
      case "containerd":
        writeFileSync(join(DIR, "containerd.toml"), containerdConfiguration(places));
        return ["/usr/bin/containerd", "--config", join(DIR, "containerd.toml")];
      case "kubelet":
        writeFileSync(join(DIR, "kubelet.json"), kubeletConfiguration(places, this.#cgroups.root, NODE_ADDRESS));
        return [
          this.#kubelet,
          ...["--config", join(DIR, "kubelet.json"), "--kubeconfig", this.#cluster.adminKubeconfig],
          ...["--root-dir", join(DIR, "kubelet"), "--cert-dir", join(DIR, "pki")],
          ...["--hostname-override", NODE, "--node-ip", NODE_ADDRESS],
        ];
    }
  }

  async #createPod(name: string, { annotations = {}, hostNetwork = false, hostPort }: PodWishes): Promise<void> {
    const ports = hostPort === undefined ? {} : { ports: [{ containerPort: 8080, hostPort }] };
    const answer = await this.#cluster.api("POST", `/api/v1/namespaces/${NAMESPACE}/pods`, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: NAMESPACE, annotations },
      spec: {
        nodeName: NODE,
        hostNetwork,
        restartPolicy: "Never",
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        terminationGracePeriodSeconds: 1,
        tolerations: [{ operator: "Exists" }],
        containers: [
          // A pod of the host's network must not open the port of another one.
          {
            name: "c",
            image: TEST_IMAGE,
            imagePullPolicy: "Never",
            ...(hostNetwork ? { command: ["/bin/sh", "-c", IDLE] } : {}),
            ...ports,
          },
        ],
      },
    });
    if (answer.status !== 201) throw new Error(`pod ${name}: ${answer.status} ${answer.text}`);
  }

  #ctr(...args: readonly string[]): void {
    execFileSync("/usr/bin/ctr", ["-a", join(DIR, "containerd.sock"), "-n", "k8s.io", ...args], { stdio: "pipe" });
  }
}

const IDLE = 'trap "exit 0" TERM INT; while :; do sleep 86400 & wait $!; done';

/** Calico's list, with the bandwidth plugin that its manifests chain. */
const NETWORK = JSON.stringify({
  name: "k8s-pod-network",
  cniVersion: "1.0.0",
  plugins: [
    {
      type: "calico",
      log_level: "__LOG_LEVEL__",
      log_file_path: "/var/log/calico/cni/cni.log",
      datastore_type: "__DATASTORE_TYPE__",
      nodename: "__KUBERNETES_NODE_NAME__",
      // No calico-node writes that file here.
      nodename_file_optional: true,
      mtu: 1450,
      ipam: { type: "calico-ipam" },
      policy: { type: "k8s" },
      kubernetes: { kubeconfig: "__KUBECONFIG_FILEPATH__" },
    },
    { type: "portmap", snat: true, capabilities: { portMappings: true } },
    { type: "bandwidth", capabilities: { bandwidth: true } },
  ],
});

/**
 * The node's way out, and what an administrator switches on. A client that tries again while the API server is away must not be given
 * the server's own port: it would be connected with itself, and the server could not have it back.
 */
function connect(apiPort: number): void {
  const ip = (...args: readonly string[]) => execFileSync("ip", args);
  ip("link", "add", "uplink", "type", "veth", "peer", "name", "wire");
  ip("address", "add", `${NODE_ADDRESS}/24`, "dev", "uplink");
  for (const link of ["wire", "uplink"]) ip("link", "set", link, "up");
  ip("route", "add", "default", "via", "192.168.77.254");
  writeFileSync("/proc/sys/net/ipv4/ip_forward", "1");
  writeFileSync("/proc/sys/net/ipv4/ip_local_reserved_ports", String(apiPort));
}

function isReady({ status }: StoredObject): boolean {
  const { conditions = [] } = (status ?? {}) as { conditions?: readonly { type: string; status: string }[] };
  return conditions.some((condition) => condition.type === "Ready" && condition.status === "True");
}

function endOf(path: string): string {
  return existsSync(path) ? readFileSync(path, "utf8").slice(-4000) : "";
}
