/**
 * One real node in the sandbox: containerd and kubelet, which find plugins and network configuration where a test says. Its processes die
 * with the test process, its files are the sandbox's, and its control groups, links and mounts are removed with it.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { endProcess, startProcess } from "../kubernetes/process.ts";
import { LEGACY, type StoredObject, type TestCluster } from "../kubernetes/test-cluster.ts";
import { Cgroups } from "./cgroups.ts";
import { containerdConfiguration, kubeletConfiguration, MIRRORED, REGISTRY, REGISTRY_HOSTS } from "./configurations.ts";
import { makeImage, TEST_IMAGE } from "./image.ts";
import { DIR, leaveHost, loseKernelState, makeHost, NODE, NODE_ADDRESS } from "./pretend-host.ts";
import { endShims } from "./shims.ts";

/** Only ends what hangs. */
const LIMIT_MS = 240_000;
const LOOK_MS = 100;
const NAMESPACE = "pods";

type Program = "containerd" | "kubelet";

/** Where the runtime looks. */
export interface PluginPlaces {
  readonly binDir: string;
  readonly netDir: string;
}

export interface PodWishes {
  readonly annotations?: Readonly<Record<string, string>>;
  readonly hostNetwork?: boolean;
  readonly hostPort?: number;
  /** Kubelet starts its containers again when they have ended, in a new sandbox if need be. */
  readonly isRestarted?: boolean;
}

export class KubeletNode implements AsyncDisposable {
  readonly #cluster: TestCluster;
  readonly #places: PluginPlaces;
  readonly #cgroups: Cgroups;
  readonly #kubelet: string;
  readonly #pids = new Map<Program, number>();

  private constructor(cluster: TestCluster, places: PluginPlaces, kubelet: string) {
    this.#cluster = cluster;
    this.#places = places;
    this.#kubelet = kubelet;
    this.#cgroups = Cgroups.mount();
  }

  /** @returns when kubelet runs; the node is Ready when plugins are there (`untilNodeReady`) */
  static async start(cluster: TestCluster, places: PluginPlaces): Promise<KubeletNode> {
    makeHost(cluster.port);
    await cluster.createNamespace(NAMESPACE);
    const kubelet = join(execFileSync("bash", [resolve("scripts/cluster-servers"), "kubelet"], { encoding: "utf8" }).trim(), "kubelet");
    const node = new KubeletNode(cluster, places, kubelet);
    try {
      await node.startRuntime();
      const image = join(DIR, "image");
      mkdirSync(image);
      node.ctr("images", "import", makeImage(image));
      node.start("kubelet");
      return node;
    } catch (error) {
      const logs = node.logs();
      await node[Symbol.asyncDispose]();
      throw new Error(`no node: ${error instanceof Error ? error.message : String(error)}\n${logs}`);
    }
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
    const before = this.#timesServed();
    this.start("containerd");
    await this.until("containerd", () => {
      try {
        this.ctr("version");
      } catch {
        return false;
      }
      // Until then it takes stock of its containers and refuses kubelet, which ends: nothing here starts it again, as an init system would.
      return this.#timesServed() > before;
    });
  }

  /** How often kubelet's part of containerd has begun to serve: the last thing that it says of its start. */
  #timesServed(): number {
    const log = join(DIR, "containerd.log");
    return existsSync(log) ? readFileSync(log, "utf8").split("Start streaming server").length - 1 : 0;
  }

  /**
   * The power goes: everything that ran is gone, and so are links, namespaces, mounts, rules and what /run had. What lies on disks
   * stays: images and containers' records, kubelet's directory, /var/lib. The kernel's next boot has another id.
   */
  async loseBoot(): Promise<void> {
    for (const program of ["kubelet", "containerd"] as const) await this.stop(program);
    await endShims();
    await this.#cgroups.empty();
    loseKernelState();
    await this.until("links of pods to be gone", () => this.podLinks().length === 0);
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

  /** The ends of what the programs have written. */
  logs(): string {
    const names = readdirSync(DIR).filter((name) => name.endsWith(".log"));
    return names.map((name) => `--- ${name}\n${readFileSync(join(DIR, name), "utf8").slice(-4000)}`).join("\n");
  }

  /** Runs `ctr` on the images and containers of kubelet. */
  ctr(...args: readonly string[]): string {
    return execFileSync("/usr/bin/ctr", ["-a", join(DIR, "containerd.sock"), "-n", "k8s.io", ...args], { stdio: "pipe", encoding: "utf8" });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const program of ["kubelet", "containerd"] as const) await this.stop(program);
    await endShims();
    await this.#cgroups[Symbol.asyncDispose]();
    leaveHost();
  }

  #commandOf(program: Program): readonly string[] {
    const places = { dir: DIR, ...this.#places };
    switch (program) {
      case "containerd":
        writeFileSync(join(DIR, "containerd.toml"), containerdConfiguration(places));
        for (const name of [REGISTRY, MIRRORED]) {
          mkdirSync(join(DIR, "certs.d", name), { recursive: true });
          writeFileSync(join(DIR, "certs.d", name, "hosts.toml"), REGISTRY_HOSTS);
        }
        return ["/usr/bin/containerd", "--config", join(DIR, "containerd.toml")];
      case "kubelet":
        writeFileSync(join(DIR, "kubelet.json"), kubeletConfiguration(DIR, this.#cgroups.root, NODE_ADDRESS, this.#cluster.caPath));
        return [
          this.#kubelet,
          ...["--config", join(DIR, "kubelet.json"), "--kubeconfig", this.#cluster.adminKubeconfig],
          ...["--root-dir", join(DIR, "kubelet"), "--cert-dir", join(DIR, "pki")],
          ...["--hostname-override", NODE, "--node-ip", NODE_ADDRESS],
        ];
    }
  }

  async #createPod(name: string, { annotations = {}, hostNetwork = false, hostPort, isRestarted = false }: PodWishes): Promise<void> {
    const ports = hostPort === undefined ? {} : { ports: [{ containerPort: 8080, hostPort }] };
    const answer = await this.#cluster.api("POST", `/api/v1/namespaces/${NAMESPACE}/pods`, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: NAMESPACE, annotations },
      spec: {
        nodeName: NODE,
        hostNetwork,
        restartPolicy: isRestarted ? "Always" : "Never",
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
}

const IDLE = 'trap "exit 0" TERM INT; while :; do sleep 86400 & wait $!; done';

function isReady({ status }: StoredObject): boolean {
  const { conditions = [] } = (status ?? {}) as { conditions?: readonly { type: string; status: string }[] };
  return conditions.some((condition) => condition.type === "Ready" && condition.status === "True");
}
