/** One run of the installer: it installs and, where asked to, stays to keep the installation intact. */
import { install, type Log } from "../installer/install.ts";
import type { InstallSettings } from "../installer/settings.ts";
import { InstallationWatch } from "../installer/watch.ts";

export interface InstallerOptions {
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

/** 200 while nothing is wrong, else 503; the body says what. */
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
