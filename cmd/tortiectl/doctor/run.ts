/** Runs `tortiectl doctor`: asks until nothing fails or the time is over, and prints the last answer. */
import { AgentClient } from "../../../agent/api/client.ts";
import { runClusterDoctor } from "../../../doctor/cluster/doctor.ts";
import { runHostDoctor } from "../../../doctor/host/doctor.ts";
import type { AgentView } from "../../../doctor/host/view.ts";
import { exitStatus, type Report } from "../../../doctor/report.ts";
import { defaultPluginPath } from "../../../lib/cni/runtime/run-plugin.ts";
import { hostName } from "../../../lib/system/files.ts";
import { VERSION } from "../../output.ts";
import { milliseconds } from "../options.ts";
import { askPolicy } from "../policy/check.ts";
import type { Terminal } from "../terminal.ts";
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

/** Asks about this host. For whatever shows a report: this command, and a bundle. */
export function hostReport({ socket, netDir, cniBinDir }: Pick<DoctorOptions, "socket" | "netDir" | "cniBinDir">): Promise<Report> {
  const about = { version: VERSION, host: hostName(), env: process.env };
  const binDir = cniBinDir ?? defaultPluginPath(process.env);
  return runHostDoctor({ ...about, root: "/", netDir, binDir, socket, askAgent: () => askAgent(socket) });
}

/** @throws TortieError `agent-unreachable`; AgentApiError */
async function askAgent(socket: string): Promise<AgentView> {
  const client = new AgentClient(socket);
  const { body: health } = await client.call("getHealthz", {});
  const { body: config } = await client.call("getConfig", {});
  const { body: endpoints } = await client.call("listEndpoints", {});
  return {
    version: config.status.version,
    phase: health.phase,
    isReady: health.ready,
    checks: health.checks,
    waits: health.waits,
    findings: health.findings,
    endpoints: endpoints.map(({ status: { networking } }) => ({
      hostInterface: networking["interface-name"] ?? "",
      addresses: networking.addresses.map(({ address }) => address),
    })),
    policy: await askPolicy(client),
  };
}

/** Asks the API server about the cluster. */
function clusterReport({ kubeconfig, namespace }: DoctorOptions): Promise<Report> {
  return runClusterDoctor({ version: VERSION, host: hostName(), env: process.env, kubeconfig, namespace });
}
