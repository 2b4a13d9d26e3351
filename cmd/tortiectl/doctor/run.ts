/** Runs `tortiectl doctor`: asks until nothing fails or the time is over, and prints the last answer. */
import { runClusterDoctor } from "../../../doctor/cluster/doctor.ts";
import { type HostOptions, runHostDoctor } from "../../../doctor/host/doctor.ts";
import { exitStatus, type Report } from "../../../doctor/report.ts";
import { defaultPluginPath } from "../../../lib/cni/runtime/run-plugin.ts";
import { hostName } from "../../../lib/system/files.ts";
import { VERSION } from "../../output.ts";
import { milliseconds } from "../options.ts";
import type { Terminal } from "../terminal.ts";
import { agentAt } from "./agent-port.ts";
import { printReport } from "./print.ts";

interface DoctorOptions {
  readonly cluster: boolean;
  readonly kubeconfig: string | undefined;
  readonly namespace: string;
  /** Seconds. */
  readonly wait: number;
  readonly netDir: string;
  readonly cniBinDir: string | undefined;
  readonly socket: string;
  readonly json: boolean;
}

/** @returns exit status: 1 when something failed */
export async function doctor(options: DoctorOptions, terminal: Terminal): Promise<number> {
  const end = performance.now() + milliseconds("wait", options.wait);
  const report = await untilWell(() => (options.cluster ? clusterReport(options) : hostReport(options)), end);
  if (options.json) terminal.out(JSON.stringify(report, undefined, 2));
  else printReport(terminal, report);
  return exitStatus(report);
}

const BETWEEN_LOOKS_MS = 2_000;

async function untilWell(ask: () => Promise<Report>, end: number): Promise<Report> {
  for (;;) {
    const report = await ask();
    const left = end - performance.now();
    if (exitStatus(report) === 0 || left <= 0) return report;
    await Bun.sleep(Math.min(left, BETWEEN_LOOKS_MS));
  }
}

/** Has what decides about the host's report; all but the socket have defaults of the host itself. */
type HostPlaces = Partial<Pick<HostOptions, "root" | "netDir" | "env">> & {
  readonly socket: string;
  readonly cniBinDir?: string | undefined;
};

/** Asks about this host. For whatever shows a report: this command, a bundle, a page. */
export function hostReport({ socket, cniBinDir, env = process.env, ...places }: HostPlaces): Promise<Report> {
  const binDir = cniBinDir ?? defaultPluginPath(env);
  const given = { root: places.root ?? "/", netDir: places.netDir ?? "/etc/cni/net.d" };
  return runHostDoctor({ version: VERSION, host: hostName(), env, binDir, socket, agent: agentAt(socket), ...given });
}

/** Asks the API server about the cluster. */
export function clusterReport({
  kubeconfig,
  namespace = "kube-system",
}: Partial<Pick<DoctorOptions, "kubeconfig" | "namespace">>): Promise<Report> {
  return runClusterDoctor({ version: VERSION, host: hostName(), env: process.env, kubeconfig, namespace });
}
