/**
 * The agent, put together: the only file that knows all its parts (A§0.3). Each part declares what it needs; here it gets it. The steps
 * stand in the order of the contract; nothing after the socket ends the process.
 */
import type { Environment } from "../lib/cni/environment.ts";
import { DEFAULT_NODENAME_FILE } from "../lib/config/decode.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { nodeName } from "../lib/config/node-name.ts";
import { messageOf } from "../lib/errors/errors.ts";
import { makeDirectories } from "../lib/system/files.ts";
import { createNode, type Node } from "../main-plugin/node.ts";
import type { DaemonConfiguration, StatusResponse } from "./api/models.ts";
import { createAgentLog } from "./process/agent-log.ts";
import { takeInstanceLock } from "./process/instance-lock.ts";
import { type AgentOptions, OPTION_NAMES } from "./process/option-table.ts";
import { PhaseFile } from "./process/phase.ts";
import { watchSignals } from "./process/signals.ts";
import { openState, removeOldStates } from "./process/state-directory.ts";
import { readBootId } from "./run-directory/agent-file.ts";
import { runDirectory } from "./run-directory/run-directory.ts";
import { groupNumber } from "./server/access.ts";
import type { Handlers } from "./server/handler.ts";
import { plainAttachments } from "./server/plain-attachments.ts";
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

  const nodes = new Map<string, Node>();
  const nodeOf = (config: NetworkConfig, callEnv: Environment): Node => {
    const key = JSON.stringify([
      config.datastoreType,
      config.datastorePath,
      config.etcd,
      config.kubernetes,
      config.policy,
      config.calicoApiGroup,
      callEnv,
    ]);
    const node = nodes.get(key) ?? createNode(config, callEnv, log);
    nodes.set(key, node);
    return node;
  };

  const handlers: Handlers = {
    ...cniHandlers(plainAttachments(nodeOf)),
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
  await Promise.allSettled([...nodes.values()].map((node) => node[Symbol.asyncDispose]()));
  await log.close();
  return 0;
}

function nameOfNode(options: AgentOptions, env: Environment): string {
  return nodeName({ nodename: options["node-name"] ?? env.K8S_NODE_NAME, nodenameFile: DEFAULT_NODENAME_FILE, hostname: undefined });
}
