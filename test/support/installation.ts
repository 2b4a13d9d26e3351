/** A host's directories as Calico's install container sees them, below a folder of their own. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { BIN_DIR } from "./node.ts";

export interface InstallRun {
  readonly exit: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly log: string;
}

export interface RunningInstaller {
  readonly ended: Promise<InstallRun>;
  stop(): void;
}

export class Installation implements Disposable {
  /** On the file system of the build, so that a hundred megabytes are linked and not copied. */
  readonly root = mkdtempSync(resolve(".cache", "install-"));
  readonly binDir = join(this.root, "host/opt/cni/bin");
  readonly secondaryDir = join(this.root, "host/secondary-bin-dir");
  readonly netDir = join(this.root, "host/etc/cni/net.d");
  readonly pluginSource = join(this.root, "opt/cni/bin");
  readonly serviceAccount = join(this.root, "var/run/secrets/kubernetes.io/serviceaccount");
  readonly secrets = join(this.root, "calico-secrets");

  constructor() {
    for (const directory of [this.binDir, this.secondaryDir, this.netDir, this.pluginSource, this.secrets]) {
      mkdirSync(directory, { recursive: true });
    }
  }

  /** `calico component cni install` as an init container runs it. */
  install(env: Readonly<Record<string, string>> = {}, wrap: readonly string[] = []): Promise<InstallRun> {
    return this.run([...wrap, join(BIN_DIR, "calico"), "component", "cni", "install"], env);
  }

  run(command: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<InstallRun> {
    return this.start(command, env).ended;
  }

  /** One that stays until it is told to stop. */
  start([program = "", ...argv]: readonly string[], env: Readonly<Record<string, string>> = {}): RunningInstaller {
    const base = { TORTIE_INSTALL_ROOT: this.root, TLS_ASSETS_DIR: this.secrets, KUBERNETES_NODE_NAME: "my-node", SLEEP: "false" };
    const child = spawn(program, argv, {
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", ...base, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let log = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        log += String(chunk);
      });
    }
    const ended = new Promise<InstallRun>((done) => child.on("close", (exit, signal) => done({ exit, signal, log })));
    return { ended, stop: () => void child.kill("SIGTERM") };
  }

  conflist(name = "10-calico.conflist"): string {
    return readFileSync(join(this.netDir, name), "utf8");
  }

  /** Names in a directory, hidden ones among them. */
  names(directory: string): readonly string[] {
    return readdirSync(directory).sort();
  }

  addServiceAccount(token: string, authority: string, namespace = "kube-system"): void {
    mkdirSync(this.serviceAccount, { recursive: true });
    for (const [name, text] of Object.entries({ token, "ca.crt": authority, namespace }))
      writeFileSync(join(this.serviceAccount, name), text);
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}
