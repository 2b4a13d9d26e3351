/**
 * Stays after an installation: renews the token before it expires, restores a conflist that was removed, and takes over TLS files
 * that were renewed (C§9.5). Nothing here ends the process: a failure is logged, shown by the health answer, and tried again.
 */
import { watch as watchDirectory } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../lib/errors/errors.ts";
import { isThere } from "../lib/system/files.ts";
import { type Installed, install, installConflist, installKubeconfig, type Log } from "./install.ts";
import { isInPod, kubeconfigPath, type Token } from "./kubeconfig.ts";
import { lockInstallation } from "./lock.ts";
import type { InstallSettings } from "./settings.ts";
import { installTlsFiles, removeOtherTlsFiles, renderConflist } from "./template.ts";

/** Counts milliseconds before a failed renewal, or one of a token about to end, is tried again (C§9.5). */
const RETRY_MS = 5000;
/** Events of one renewal of a mounted secret come together. */
const COALESCE_MS = 50;
/** Looks beside the events of the file system, which can be lost. */
const LOOK_MS = 30_000;

interface WatchHealth {
  /** Empty when all is well. */
  readonly problems: readonly string[];
  /** Milliseconds since 1970; `undefined` without a token. */
  readonly tokenExpiresMs: number | undefined;
}

/** Returns a quarter of the token's life that is left, doubled at random, so that the nodes of a cluster do not all ask at once (C§9.5). */
export function pauseUntilRenewal(leftMs: number, configuredMs: number | undefined, random: () => number): number {
  if (configuredMs !== undefined) return configuredMs;
  return Math.max(leftMs / 4, RETRY_MS) * (1 + random());
}

/** Runs until `signal` aborts. */
export class InstallationWatch {
  readonly #settings: InstallSettings;
  readonly #log: Log;
  readonly #problems = new Map<string, string>();
  readonly #keepsToken: boolean;
  #token: Token | undefined;
  /** The files are compared every 30 s; what is said of them is said once. */
  #remarks: readonly string[];
  #wake: (() => void) | undefined;
  #isTokenStale = false;

  /** @param installed just now; its token is that of the kubeconfig: in a pod that has none yet it is asked for at once */
  constructor(settings: InstallSettings, { token, remarks }: Installed, log: Log) {
    this.#settings = settings;
    this.#keepsToken = token !== undefined || isInPod(settings);
    this.#token = token;
    this.#remarks = remarks;
    this.#log = log;
  }

  health(): WatchHealth {
    return { problems: [...this.#problems].map(([what, why]) => `${what}: ${why}`), tokenExpiresMs: this.#token?.expiresMs };
  }

  async run(signal: AbortSignal): Promise<void> {
    const { netDir, tlsDir, serviceAccount } = this.#settings;
    const watches = [
      this.#watch(netDir, () => undefined),
      this.#watch(tlsDir, () => undefined),
      // A signing key that was replaced ends tokens before their time; the kubelet then mounts a new one (C§9.5).
      this.#watch(serviceAccount, () => {
        this.#isTokenStale = true;
      }),
    ];
    let renewal = this.#nextRenewal();
    try {
      while (!signal.aborted) {
        await this.#sleep(Math.min(LOOK_MS, Math.max(0, renewal - Date.now())), signal);
        if (signal.aborted) return;
        await this.#mendFiles();
        const isDue = Date.now() >= renewal || this.#isTokenStale || !isThere(kubeconfigPath(this.#settings));
        if (this.#keepsToken && isDue) {
          this.#isTokenStale = false;
          await this.#attempt("token", async () => {
            this.#token = await installKubeconfig(this.#settings, this.#log);
          });
          renewal = this.#nextRenewal();
        }
      }
    } finally {
      for (const one of watches) one?.close();
    }
  }

  #mendFiles(): Promise<void> {
    return this.#attempt("files of the installation", () => {
      // Does not wait: the process has other work, and the next look comes.
      using _ = lockInstallation([this.#settings.netDir], 0);
      const tls = installTlsFiles(this.#settings, this.#log);
      this.#remarks = installConflist(this.#settings, renderConflist(this.#settings, tls), this.#log, this.#remarks);
      removeOtherTlsFiles(this.#settings.netDir, tls, this.#log);
    });
  }

  #nextRenewal(): number {
    if (!this.#keepsToken) return Number.POSITIVE_INFINITY;
    if (this.#problems.has("token")) return Date.now() + RETRY_MS * (1 + Math.random());
    if (this.#token === undefined) return Date.now();
    return Date.now() + pauseUntilRenewal(this.#token.expiresMs - Date.now(), this.#settings.token.refreshMs, Math.random);
  }

  async #attempt(what: string, work: () => void | Promise<void>): Promise<void> {
    try {
      await work();
      if (this.#problems.delete(what)) this.#log(`${what}: done, after failures`);
    } catch (error) {
      const problem = messageOf(error);
      if (this.#problems.get(what) !== problem) this.#log(`${what}: ${problem}; tried again`);
      this.#problems.set(what, problem);
    }
  }

  /** Watches a directory; where that fails, the look every 30 s remains. */
  #watch(directory: string, onChange: () => void): { close(): void } | undefined {
    if (!isThere(directory)) return undefined;
    try {
      const watcher = watchDirectory(directory, () => {
        onChange();
        setTimeout(() => this.#wake?.(), COALESCE_MS);
      });
      watcher.on("error", (error) => this.#log(`${join(directory, "*")} is not watched any more: ${messageOf(error)}`));
      return watcher;
    } catch (error) {
      this.#log(`${directory} cannot be watched: ${messageOf(error)}`);
      return undefined;
    }
  }

  #sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(done, milliseconds);
      function done(): void {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        resolve();
      }
      this.#wake = done;
      signal.addEventListener("abort", done, { once: true });
    });
  }
}

interface InstallerOptions {
  readonly log: Log;
  /** TCP port of the loopback address for `GET /healthz` while it stays; absent: none. */
  readonly healthPort?: number | undefined;
}

/** Returns when everything is installed or, if it stays, when the process is asked to end. @throws TortieError as `install` */
export async function runInstaller(settings: InstallSettings, { log, healthPort }: InstallerOptions): Promise<void> {
  const installed = await install(settings, log);
  log("done");
  if (!settings.stays) return;
  const end = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => end.abort());
  const watch = new InstallationWatch(settings, installed, log);
  const server = healthPort === undefined ? undefined : serveHealth(watch, healthPort);
  try {
    await watch.run(end.signal);
  } finally {
    await server?.stop(true);
  }
}

/** Answers 200 while nothing is wrong, else 503; the body says what. */
function serveHealth(watch: InstallationWatch, port: number) {
  return Bun.serve({
    hostname: "127.0.0.1",
    port,
    routes: {
      "/healthz": () => {
        const health = watch.health();
        return Response.json(health, { status: health.problems.length === 0 ? 200 : 503 });
      },
    },
    fetch: () => new Response("the only page is /healthz\n", { status: 404 }),
  });
}
