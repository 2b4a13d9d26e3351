/** Runs `tortiectl bundle`: reads the parts, hides secrets, writes the archive and prints what it holds and what was hidden. */
import { existsSync, writeFileSync } from "node:fs";
import { AgentClient } from "../../../agent/api/client.ts";
import type { OperationName } from "../../../agent/api/operations.ts";
import { archiveOf, type Bundle, makeBundle, type Part } from "../../../doctor/bundle/bundle.ts";
import { clusterParts } from "../../../doctor/bundle/cluster-parts.ts";
import { hostParts } from "../../../doctor/bundle/host-parts.ts";
import { secretsOf } from "../../../doctor/bundle/known-secrets.ts";
import { Redaction } from "../../../doctor/bundle/redact.ts";
import { readHistory } from "../../../handover/history.ts";
import { runDirectoryOf } from "../../../handover/run-directory.ts";
import { defaultPluginPath } from "../../../lib/cni/runtime/run-plugin.ts";
import { messageOf, TortieError } from "../../../lib/errors/errors.ts";
import { type ApiClient, ApiError } from "../../../lib/kubernetes/api-client.ts";
import { systemErrorCode } from "../../../lib/system/errno.ts";
import { hostName } from "../../../lib/system/files.ts";
import { VERSION } from "../../output.ts";
import { openNamedServer } from "../cluster/access.ts";
import { hostReport } from "../doctor/run.ts";
import { columns, type Terminal } from "../terminal.ts";

interface BundleOptions {
  readonly output: string | undefined;
  readonly kubeconfig: string | undefined;
  readonly node: string | undefined;
  readonly netDir: string;
  readonly cniPath: string | undefined;
  readonly log: readonly string[];
  readonly socket: string;
  /** MiB. */
  readonly maxSize: number;
  readonly json: boolean;
}

const MEBIBYTE = 1024 * 1024;
const PART_BYTES = MEBIBYTE;
const COMMAND_MS = 15_000;
/** Of a node's endpoints, how many show their log. */
const MOST_LOGS = 300;

/** @returns exit status: 0, since what could not be read is a finding too */
export async function bundle(options: BundleOptions, terminal: Terminal): Promise<number> {
  if (!(options.maxSize > 0 && options.maxSize <= 1024)) throw new TortieError("option-invalid", "--max-size wants MiB, up to 1024");
  const made = new Date();
  const folder = `tortie-bundle-${hostName()}-${made.toISOString().replace(/[-:]|\.\d+/g, "")}`;
  const file = options.output ?? `${folder}.tar.gz`;
  if (existsSync(file)) throw exists(file);
  const redaction = new Redaction(
    await secretsOf(options.netDir, options.kubeconfig === undefined ? [] : [options.kubeconfig], process.env),
  );
  using api = options.kubeconfig === undefined ? undefined : openNamedServer(options.kubeconfig);
  const parts = [...ownParts(options), ...(await partsOfCluster(api, options.node))];
  const bounds = { partBytes: PART_BYTES, totalBytes: options.maxSize * MEBIBYTE };
  const collected = await makeBundle(parts, redaction, bounds);
  const hidden = Object.fromEntries(redaction.counts);
  const summary = { file, time: made.toISOString(), version: VERSION, host: hostName(), parts: collected.parts, hidden };
  const whole = { ...collected, files: { "contents.json": JSON.stringify(summary, undefined, 2), ...collected.files } };
  write(file, await archiveOf(whole, folder));
  if (options.json) terminal.out(JSON.stringify(summary, undefined, 2));
  else print(collected, hidden, file, terminal);
  return 0;
}

/** Everything that this host says. */
function ownParts({ socket, netDir, cniPath, log }: BundleOptions): readonly Part[] {
  const pluginPath = cniPath ?? defaultPluginPath(process.env);
  const places = { netDir, pluginFolders: pluginPath.split(":"), logs: log, version: VERSION };
  const report = async () => ({ json: await hostReport({ socket, netDir, cniBinDir: pluginPath }) });
  return [
    { path: "doctor.json", read: report },
    ...agentParts(new AgentClient(socket)),
    // Of its files: they are there while the agent is not.
    { path: "agent/history.json", read: () => ({ json: readHistory(runDirectoryOf(socket).history) }) },
    ...hostParts(places, { bytes: PART_BYTES, timeoutMs: COMMAND_MS }),
  ];
}

/** Everything that the agent of this host says about itself and its endpoints, with their logs. */
function agentParts(client: AgentClient): readonly Part[] {
  const asked = (name: OperationName): Part["read"] => {
    return async () => {
      const { body }: { readonly body?: unknown } = await client.call(name, {});
      return typeof body === "string" ? { text: body, isCut: false } : { json: body };
    };
  };
  return [
    { path: "agent/health.json", read: asked("getHealthz") },
    { path: "agent/config.json", read: asked("getConfig") },
    { path: "agent/endpoints.json", read: asked("listEndpoints") },
    { path: "agent/endpoint-logs.json", read: () => endpointLogs(client) },
    { path: "agent/controllers.json", read: asked("getControllers") },
    { path: "agent/identities.json", read: asked("listIdentities") },
    { path: "agent/policy.json", read: asked("getPolicy") },
    { path: "agent/policy-drops.json", read: asked("getPolicyDrops") },
    { path: "agent/metrics.txt", read: asked("getMetricsText") },
  ];
}

async function endpointLogs(client: AgentClient): Promise<{ readonly json: unknown }> {
  const { body: endpoints } = await client.call("listEndpoints", {});
  const asked = endpoints.slice(0, MOST_LOGS).map(async ({ id }) => {
    const log = await client.call("getEndpointLog", { params: { id: String(id) } }).catch((error: unknown) => ({ body: messageOf(error) }));
    return [String(id), log.body];
  });
  return { json: Object.fromEntries(await Promise.all(asked)) };
}

/** A host that is no node by its name tells of all nodes, and of no pods. */
async function partsOfCluster(api: ApiClient | undefined, node: string | undefined): Promise<readonly Part[]> {
  if (api === undefined) return [];
  if (node !== undefined) return clusterParts(api, node);
  const own = hostName();
  const isNode = await api.request({ method: "GET", path: `/api/v1/nodes/${encodeURIComponent(own)}` }).then(
    () => true,
    (error: unknown) => {
      if (error instanceof ApiError) return false;
      throw error;
    },
  );
  return clusterParts(api, isNode ? own : undefined);
}

/** For its owner alone, and never over another file. */
function write(file: string, archive: Uint8Array): void {
  try {
    writeFileSync(file, archive, { flag: "wx", mode: 0o600 });
  } catch (error) {
    if (systemErrorCode(error) === "EEXIST") throw exists(file);
    throw new TortieError("option-invalid", `the archive cannot be written: ${messageOf(error)}`, {
      next: "name another file with --output",
    });
  }
}

function exists(file: string): TortieError {
  return new TortieError("option-invalid", `${file} is there already`, { next: "remove it, or name another file with --output" });
}

function print({ parts }: Bundle, hidden: Readonly<Record<string, number>>, file: string, { out, colors }: Terminal): void {
  const { bold, dim, yellow } = colors;
  const had = parts.filter(({ missing }) => missing === undefined);
  for (const line of columns(had.map(({ path, bytes, isCut }) => [path, `${bytes} bytes`, isCut ? "cut" : ""]))) out(line);
  for (const { path, missing } of parts) if (missing !== undefined) out(`  ${yellow("!")} ${path}: ${missing}`);
  const counts = Object.entries(hidden).map(([rule, count]) => `${rule} ${count} ×`);
  out(`hidden  ${counts.length === 0 ? "nothing was found that looks like a secret" : counts.join(", ")}`);
  out(`${bold(file)}  ${had.length} files  ${dim("read it before you give it away: it holds names, addresses and logs")}`);
}
