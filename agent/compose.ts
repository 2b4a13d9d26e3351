/**
 * The agent, put together: the only file that knows all its parts (A§0.3). Each part declares what it needs; here it gets it. The steps
 * stand in the order of the contract; nothing after the socket ends the process.
 */
import { JoinedDeletions } from "../dataplane/linux/joined-deletions.ts";
import { LinuxDataplane } from "../dataplane/linux/linux-dataplane.ts";
import type { Environment } from "../lib/cni/environment.ts";
import { DEFAULT_NODENAME_FILE } from "../lib/config/decode.ts";
import { nodeName } from "../lib/config/node-name.ts";
import { messageOf } from "../lib/errors/errors.ts";
import { exitNow } from "../lib/system/exit.ts";
import { makeDirectories } from "../lib/system/files.ts";
import type { DaemonConfiguration, StatusResponse } from "./api/models.ts";
import { AttachmentService } from "./attachments/attachment-service.ts";
import { StoredRecords } from "./attachments/stored-records.ts";
import { RecordStore } from "./endpoints/record/record-store.ts";
import { NamespaceCanary } from "./node/canary.ts";
import { GuardedDataplane } from "./node/guarded-dataplane.ts";
import { Nodes } from "./node/nodes.ts";
import { createAgentLog } from "./process/agent-log.ts";
import { takeInstanceLock } from "./process/instance-lock.ts";
import { type AgentOptions, OPTION_NAMES } from "./process/option-table.ts";
import { PhaseFile } from "./process/phase.ts";
import { watchSignals } from "./process/signals.ts";
import { openState, removeOldStates } from "./process/state-directory.ts";
import { readBootId } from "./run-directory/agent-file.ts";
import { AttachmentLocks } from "./run-directory/attachment-locks.ts";
import { runDirectory } from "./run-directory/run-directory.ts";
import { groupNumber } from "./server/access.ts";
import type { Handlers } from "./server/handler.ts";
import { cniHandlers } from "./server/routes/cni.ts";
import { serveApi } from "./server/server.ts";

export interface AgentInput {
  readonly options: AgentOptions;
  readonly env: Environment;
  readonly version: string;
  /** Reads flags, variables and file again, for SIGHUP. @throws TortieError */
  readonly reread: () => AgentOptions;
}

const RUN_MODE = 0o755;
/** SIGTERM ends the process within 5 s; this much of it is for the answers of running calls. */
const GRACE_MS = 3_000;

/** Runs until a signal ends it. @returns the exit status @throws TortieError `agent-running` and others before the socket is there */
export async function runAgent({ options, env, version, reread }: AgentInput): Promise<number> {
  const signals = watchSignals(() => reload());
  const run = runDirectory(options["run-dir"]);
  makeDirectories(run.path, RUN_MODE);
  using _lock = takeInstanceLock(`${run.path}/agent.lock`);
  const log = createAgentLog(options["log-level"], options["log-file"]);
  const bootId = readBootId();
  const state = openState(run.path, bootId, [run.deleteQueue, run.direct]);
  if (state.wasReset) log.info("the machine has been started anew: the state of its last boot is dropped");
  const phase = new PhaseFile(run.agentFile, { bootId, version, ipam: options.ipam, pid: process.pid });

  const canary = new NamespaceCanary((message) => {
    log.error(message);
    exitNow(1);
  });
  const dataplane = new GuardedDataplane(new LinuxDataplane(new JoinedDeletions()), canary);
  const nodes = new Nodes({ log, parts: () => ({ dataplane }) });
  using records = new StoredRecords({ store: new RecordStore(state.path), bootId, maxEndpoints: options["max-endpoints"], log });
  const attachments = new AttachmentService({ nodes, records, locks: new AttachmentLocks(run.attachments) });
  records.finishBy((record) => attachments.finish(record));

  const handlers: Handlers = {
    ...cniHandlers(attachments),
    cniStatus: () => ({ status: 200, body: "" }),
    getConfig: () => ({ status: 200, body: configuration() }),
    getHealthz: () => ({ status: 200, body: health() }),
  };
  const configuration = (): DaemonConfiguration => ({
    spec: { options: Object.fromEntries(OPTION_NAMES.map((name) => [name, String(options[name] ?? "")])) },
    status: {
      version,
      phase: phase.phase,
      "node-name": nameOfNode(options, env),
      "ipam-mode": options.ipam,
      datapathMode: options["datapath-mode"],
      datastore: options["datastore-type"] ?? "local",
      deviceMTU: options.mtu,
      "run-dir": run.path,
      "boot-id": bootId,
    },
  });
  const health = (): StatusResponse => ({
    phase: phase.phase,
    state: "ok",
    ready: phase.phase === "ready",
    live: true,
    checks: [],
    waits: [],
    findings: [],
  });

  const server = await serveApi({
    version,
    socket: run.socket,
    group: groupNumber(options["socket-group"]),
    handlers,
    onError: (message, error) => log.error(message, { error }),
  });
  phase.set("local");
  log.info("the API is served", { socket: run.socket });
  removeOldStates(run.path);
  phase.set("ready");

  function reload(): void {
    try {
      log.setLevel(reread()["log-level"]);
      log.reopen();
      log.info("the configuration was read again");
    } catch (error) {
      log.error(`the configuration was not read again: ${messageOf(error)}`);
    }
  }

  const signal = await signals.ended;
  log.info(`${signal}: the agent ends`);
  await server.stop(GRACE_MS);
  phase.set("stopped");
  await nodes[Symbol.asyncDispose]();
  await log.close();
  return 0;
}

function nameOfNode(options: AgentOptions, env: Environment): string {
  return nodeName({ nodename: options["node-name"] ?? env.K8S_NODE_NAME, nodenameFile: DEFAULT_NODENAME_FILE, hostname: undefined });
}
