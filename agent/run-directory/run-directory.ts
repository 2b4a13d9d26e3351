/**
 * The files below the agent's run directory that the plugin and the agent share (A§0.2, A§11.5, A§11.6). The plugin knows the directory by
 * its socket: the key `agent_socket`, the variable TORTIE_SOCK, or the default.
 */
import { baseName, directoryOf } from "../../lib/system/files.ts";

const DEFAULT_RUN_DIRECTORY = "/run/tortie";
const SOCKET = "tortie.sock";
const CALLS = "cni.sock";
export const DEFAULT_SOCKET = `${DEFAULT_RUN_DIRECTORY}/${SOCKET}`;

export interface RunDirectory {
  readonly path: string;
  /** The API socket. */
  readonly socket: string;
  /** The socket for calls of plugins. */
  readonly calls: string;
  /** Who is there: boot id, version, IPAM mode, phase (agent-file.ts). */
  readonly agentFile: string;
  /** Held by the agent as long as it lives. */
  readonly instanceLock: string;
  /** DELs that wait for the agent, one file each. */
  readonly deleteQueue: string;
  /** What plugins attached without the agent, one file each. */
  readonly direct: string;
  /** Locks of attachments (attachment-locks.ts). */
  readonly attachments: string;
}

/** @param socket the agent's; the other files are beside it */
export function runDirectoryOf(socket: string = DEFAULT_SOCKET): RunDirectory {
  return at(directoryOf(socket), baseName(socket));
}

/** @param path the agent's `--run-dir` */
export function runDirectory(path: string): RunDirectory {
  return at(path, SOCKET);
}

function at(path: string, socketName: string): RunDirectory {
  return {
    path,
    socket: `${path}/${socketName}`,
    calls: `${path}/${CALLS}`,
    agentFile: `${path}/agent.json`,
    instanceLock: `${path}/agent.lock`,
    deleteQueue: `${path}/deletequeue`,
    direct: `${path}/direct`,
    attachments: `${path}/attachments`,
  };
}
