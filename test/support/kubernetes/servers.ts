/** etcd and kube-apiserver: how they are started, how one knows that they are up, and how they are stopped, frozen and started again. */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import type { AdminClient } from "./admin-client.ts";
import { memberAt } from "./json.ts";
import { endProcess, forgetPid, isRunning, pause, readPid, signalProcess, startProcess } from "./process.ts";

const START_LIMIT_MS = 90_000;

export interface Ports {
  readonly api: number;
  readonly etcd: number;
  readonly etcdPeer: number;
}

/** Three ports that nobody listens on. */
export async function freePorts(): Promise<Ports> {
  const servers = [createServer(), createServer(), createServer()];
  const [api = 0, etcd = 0, etcdPeer = 0] = await Promise.all(
    servers.map(
      (server) =>
        new Promise<number>((done, failed) => {
          server.on("error", failed);
          server.listen(0, "127.0.0.1", () => {
            const address = server.address();
            done(typeof address === "object" && address !== null ? address.port : 0);
          });
        }),
    ),
  );
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  return { api, etcd, etcdPeer };
}

/** The folder with etcd and kube-apiserver; builds them when the cache has none, which takes minutes. */
export function serverPrograms(): string {
  return execFileSync("bash", [resolve("scripts/cluster-servers")], { stdio: ["ignore", "pipe", "inherit"], encoding: "utf8" }).trim();
}

export class Servers {
  readonly #dir: string;
  readonly #ports: Ports;
  readonly #admin: AdminClient;
  readonly #isBare: boolean;

  /** @param isBare a controller manager will make the service accounts that pods need */
  constructor(dir: string, ports: Ports, admin: AdminClient, isBare: boolean) {
    this.#dir = dir;
    this.#ports = ports;
    this.#admin = admin;
    this.#isBare = isBare;
  }

  startEtcd(programs: string): void {
    const client = `http://127.0.0.1:${this.#ports.etcd}`;
    const peer = `http://127.0.0.1:${this.#ports.etcdPeer}`;
    startProcess(
      [
        join(programs, "etcd"),
        `--data-dir=${join(this.#dir, "etcd")}`,
        `--listen-client-urls=${client}`,
        `--advertise-client-urls=${client}`,
        `--listen-peer-urls=${peer}`,
        `--initial-advertise-peer-urls=${peer}`,
        `--initial-cluster=default=${peer}`,
        "--unsafe-no-fsync",
        "--log-level=warn",
      ],
      join(this.#dir, "etcd.log"),
      this.#pidFile("etcd"),
    );
  }

  startApiServer(programs: string): void {
    const file = (name: string) => join(this.#dir, name);
    writeFileSync(file("audit-policy.yaml"), AUDIT_POLICY);
    startProcess(
      [
        join(programs, "kube-apiserver"),
        `--etcd-servers=http://127.0.0.1:${this.#ports.etcd}`,
        "--bind-address=127.0.0.1",
        // A namespace with only a loopback has no route to find an address by.
        "--advertise-address=127.0.0.1",
        `--secure-port=${this.#ports.api}`,
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=RBAC",
        `--client-ca-file=${file("ca.crt")}`,
        `--tls-cert-file=${file("server.crt")}`,
        `--tls-private-key-file=${file("server.key")}`,
        `--service-account-key-file=${file("sa.key")}`,
        `--service-account-signing-key-file=${file("sa.key")}`,
        "--service-account-issuer=https://kubernetes.default.svc",
        // Every pod would need a service account that only the controller manager makes.
        ...(this.#isBare ? [] : ["--disable-admission-plugins=ServiceAccount"]),
        // Who it is to a kubelet that it asks for a log or an exec.
        `--kubelet-client-certificate=${file("admin.crt")}`,
        `--kubelet-client-key=${file("admin.key")}`,
        // Names of nodes are not in any DNS here.
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
        `--audit-policy-file=${file("audit-policy.yaml")}`,
        `--audit-log-path=${file("audit.log")}`,
        "--audit-log-mode=blocking",
      ],
      file("apiserver.log"),
      this.#pidFile("apiserver"),
    );
  }

  /** Waits until the API server says that it is ready. @throws Error with the end of its log */
  async ready(): Promise<void> {
    const deadline = Date.now() + START_LIMIT_MS;
    const pid = readPid(this.#pidFile("apiserver"));
    for (;;) {
      if ((await this.#admin.request("GET", "/readyz").catch(() => undefined))?.status === 200) return;
      const isOver = Date.now() > deadline;
      if (isOver || pid === undefined || !isRunning(pid)) {
        throw new Error(`kube-apiserver ${isOver ? `was not ready after ${START_LIMIT_MS} ms` : "ended"}:\n${this.logs()}`);
      }
      await pause(50);
    }
  }

  async stopApiServer(): Promise<void> {
    await stop(this.#pidFile("apiserver"));
  }

  /** etcd forgets every state but the present one. */
  async compact(): Promise<void> {
    const ask = async (path: string, body: unknown): Promise<unknown> => {
      const answer = await fetch(`http://127.0.0.1:${this.#ports.etcd}/v3/kv/${path}`, { method: "POST", body: JSON.stringify(body) });
      if (!answer.ok) throw new Error(`etcd refused ${path}: ${await answer.text()}`);
      return answer.json();
    };
    const revision = memberAt(await ask("range", { key: btoa("none") }), "header", "revision");
    await ask("compaction", { revision, physical: true });
  }

  async stopAll(): Promise<void> {
    await endServersIn(this.#dir);
  }

  isApiServerRunning(): boolean {
    const pid = readPid(this.#pidFile("apiserver"));
    return pid !== undefined && isRunning(pid);
  }

  signalApiServer(signal: "SIGSTOP" | "SIGCONT"): void {
    signalProcess(readPid(this.#pidFile("apiserver")), signal);
  }

  /** The end of both logs, for the message of a failure. */
  logs(): string {
    return ["apiserver.log", "etcd.log"]
      .map((name) => join(this.#dir, name))
      .filter((path) => existsSync(path))
      .map((path) => `${path}:\n${readFileSync(path, "utf8").slice(-3000)}`)
      .join("\n");
  }

  #pidFile(name: string): string {
    return join(this.#dir, `${name}.pid`);
  }
}

/** Ends every process whose id is in a *.pid file of `dir`, whoever started it. */
export async function endServersIn(dir: string): Promise<void> {
  await Promise.all(readdirSync(dir).map((name) => (name.endsWith(".pid") ? stop(join(dir, name)) : undefined)));
}

async function stop(pidFile: string): Promise<void> {
  await endProcess(readPid(pidFile));
  forgetPid(pidFile);
}

/** One line a request, when its answer is complete; what the API server asks itself is left out. */
const AUDIT_POLICY = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
omitManagedFields: true
rules:
  - level: None
    users: ["system:apiserver"]
  - level: None
    nonResourceURLs: ["/readyz*", "/livez*", "/healthz*", "/metrics"]
  - level: Metadata
`;
