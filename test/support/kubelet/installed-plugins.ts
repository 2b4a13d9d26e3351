/** The plugins as the installer of Calico's manifests puts them on a node, and the agent as a process beside them. */
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Installation } from "../installation.ts";
import { endProcess, startProcess } from "../kubernetes/process.ts";
import type { TestCluster } from "../kubernetes/test-cluster.ts";
import { BIN_DIR } from "../node.ts";
import type { PluginPlaces } from "./kubelet-node.ts";
import { DIR, NODE } from "./pretend-host.ts";

const PLUGINS = ["loopback", "portmap", "bandwidth"];

export class InstalledPlugins implements AsyncDisposable {
  readonly #cluster: TestCluster;
  readonly #host = new Installation();
  readonly #agentKubeconfig: string;
  #agent: number | undefined;

  private constructor(cluster: TestCluster, agentKubeconfig: string) {
    this.#cluster = cluster;
    this.#agentKubeconfig = agentKubeconfig;
  }

  static async create(cluster: TestCluster): Promise<InstalledPlugins> {
    return new InstalledPlugins(cluster, await cluster.kubeconfigFor("agent"));
  }

  get places(): PluginPlaces {
    return { binDir: this.#host.binDir, netDir: this.#host.netDir };
  }

  /**
   * The first time, or once more over executables in use, as an upgrade does it.
   *
   * @param agent whether executables hand their calls to an agent: key `agent` of the configuration
   */
  async install(agent: "require" | "off" = "require"): Promise<void> {
    for (const plugin of PLUGINS) cpSync(join("/usr/lib/cni", plugin), join(this.#host.pluginSource, plugin));
    this.#host.addServiceAccount(await this.#cluster.tokenFor("admin"), readFileSync(this.#cluster.caPath, "utf8"));
    const { exit, log } = await this.#host.install({
      CNI_NET_DIR: this.#host.netDir,
      CNI_NETWORK_CONFIG: networkWith(agent),
      CNI_MTU: "1450",
      DATASTORE_TYPE: "kubernetes",
      LOG_LEVEL: "info",
      KUBERNETES_NODE_NAME: NODE,
      KUBERNETES_SERVICE_HOST: "127.0.0.1",
      KUBERNETES_SERVICE_PORT: String(this.#cluster.port),
    });
    if (exit !== 0) throw new Error(`install: ${log}`);
  }

  /**
   * A list of the reference plugins, as long as ours, before it: what pods of a network of their own cost with the fastest of others.
   * @returns what takes it away
   */
  preferPeer(): () => void {
    for (const plugin of ["ptp", "host-local"]) cpSync(join("/usr/lib/cni", plugin), join(this.#host.binDir, plugin));
    const path = join(this.#host.netDir, "00-peer.conflist");
    writeFileSync(path, JSON.stringify(PEER));
    return () => rmSync(path);
  }

  async uninstall(): Promise<void> {
    const { exit, log } = await this.#host.run([join(BIN_DIR, "tortiectl"), "uninstall", "--net-dir", this.#host.netDir]);
    if (exit !== 0) throw new Error(`uninstall: ${log}`);
  }

  /** What is in the runtime's directories, hidden files among them. */
  installed(): readonly string[] {
    return [...readdirSync(this.#host.binDir), ...readdirSync(this.#host.netDir)];
  }

  startAgent(): void {
    const settings = ["--datastore-type", "kubernetes", "--kubeconfig", this.#agentKubeconfig, "--node-name", NODE];
    this.#agent = startProcess([join(BIN_DIR, "tortie-node"), ...settings], join(DIR, "tortie-node.log"));
  }

  /** Kills it. */
  stopAgent(): Promise<void> {
    return endProcess(this.#agent);
  }

  async restartAgent(): Promise<void> {
    await this.stopAgent();
    this.startAgent();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopAgent();
    this.#host[Symbol.dispose]();
  }
}

const PEER = {
  name: "peer",
  cniVersion: "1.0.0",
  plugins: [
    { type: "ptp", mtu: 1450, ipam: { type: "host-local", dataDir: join(DIR, "host-local"), subnet: "10.61.0.0/22" } },
    { type: "portmap", snat: true, capabilities: { portMappings: true } },
    { type: "bandwidth", capabilities: { bandwidth: true } },
  ],
};

/** Calico's list, with the bandwidth plugin that its manifests chain. */
function networkWith(agent: string): string {
  return JSON.stringify({
    ...NETWORK,
    plugins: NETWORK.plugins.map((plugin) => (plugin.type === "calico" ? { ...plugin, agent } : plugin)),
  });
}

const NETWORK = {
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
};
