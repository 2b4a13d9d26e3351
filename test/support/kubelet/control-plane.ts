/** The parts of a control plane that make pods of DaemonSets and Deployments, and kubectl and Helm, which a page's commands call. */
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { endProcess, startProcess } from "../kubernetes/process.ts";
import type { TestCluster } from "../kubernetes/test-cluster.ts";
import { BIN_DIR } from "../node.ts";
import { DIR, NODE_ADDRESS } from "./pretend-host.ts";

/** Where a pod finds the API server: Service `kubernetes`, the first address of the server's range. */
const SERVICE_ADDRESS = "10.96.0.1";

export class ControlPlane implements AsyncDisposable {
  readonly #programs: string;
  readonly #helm: string;
  readonly #home = join(DIR, "home");
  readonly #pids: readonly number[];

  /** On a bare cluster, when the host is made. */
  constructor(cluster: TestCluster) {
    this.#programs = programsOf("control-plane");
    this.#helm = programsOf("helm");
    mkdirSync(join(this.#home, ".kube"), { recursive: true });
    symlinkSync(cluster.adminKubeconfig, join(this.#home, ".kube/config"));
    serve(cluster.port);
    const listen = `TCP-LISTEN:${SERVICE_PORT},bind=${NODE_ADDRESS},reuseaddr,fork`;
    const common = ["--kubeconfig", cluster.adminKubeconfig, "--leader-elect=false", "--secure-port=0"];
    this.#pids = [
      this.#start("kube-controller-manager", [
        ...common,
        `--service-account-private-key-file=${join(cluster.dir, "sa.key")}`,
        `--root-ca-file=${cluster.caPath}`,
        // Ranges of nodes, which host scope gives addresses from.
        ...["--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16", "--node-cidr-mask-size=24"],
        ...["--kube-api-qps=200", "--kube-api-burst=400"],
      ]),
      this.#start("kube-scheduler", [...common, "--kube-api-qps=200", "--kube-api-burst=400"]),
      startProcess(["/usr/bin/socat", listen, `TCP:127.0.0.1:${cluster.port}`], join(DIR, "socat.log")),
    ];
  }

  /**
   * Runs shell commands of a page as the administrator, in the project's folder.
   *
   * @returns what they printed
   * @throws Error with all that they said
   */
  async run(script: string): Promise<string> {
    const env = { PATH: `${this.#programs}:${this.#helm}:${BIN_DIR}:/usr/sbin:/usr/bin:/sbin:/bin`, HOME: this.#home };
    // It ends what the script has started too.
    const limited = ["--kill-after=1", String(LIMIT_SECONDS), "bash", "-euo", "pipefail", "-c", script];
    const child = spawn("timeout", limited, { env, stdio: ["ignore", "pipe", "pipe"] });
    const said = { stdout: "", stderr: "" };
    for (const stream of ["stdout", "stderr"] as const) {
      child[stream].on("data", (chunk) => {
        said[stream] += String(chunk);
      });
    }
    const status = await new Promise((done) => child.on("close", (exit, signal) => done(exit ?? signal)));
    if (status !== 0) throw new Error(`${script}\nended with ${status}: ${said.stdout}${said.stderr}`);
    return said.stdout;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const pid of this.#pids) await endProcess(pid);
  }

  #start(program: string, settings: readonly string[]): number {
    return startProcess([join(this.#programs, program), ...settings], join(DIR, `${program}.log`));
  }
}

/** Only ends what hangs. */
const LIMIT_SECONDS = 180;

/** Where pods' requests to Service `kubernetes` are passed on to the server, which listens on 127.0.0.1 alone. */
const SERVICE_PORT = 6443;

/** What kube-proxy would write for Service `kubernetes`, for the host's own network and for pods. */
function serve(apiPort: number): void {
  const rule = `ip daddr ${SERVICE_ADDRESS} tcp dport 443 dnat to`;
  // The rules of another file's server, on another port, would come first.
  execFileSync("nft", ["table ip service; delete table ip service"]);
  execFileSync("nft", [`table ip service { chain out { type nat hook output priority -100; ${rule} 127.0.0.1:${apiPort}; }; }`]);
  execFileSync("nft", [
    `table ip service { chain pre { type nat hook prerouting priority -100; ${rule} ${NODE_ADDRESS}:${SERVICE_PORT}; }; }`,
  ]);
}

function programsOf(what: string): string {
  return execFileSync("bash", [resolve("scripts/cluster-servers"), what], { encoding: "utf8" }).trim();
}
