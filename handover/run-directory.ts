/**
 * Names the files below the agent's run directory that the plugin and the agent share (A§0.2, A§11.5, A§11.6), and reads what `agent.json`
 * says of the agent. The plugin knows the directory by its socket: the key `agent_socket`, the variable TORTIE_SOCK, or the default.
 */
import { baseName, directoryOf, readText, statusOf } from "../lib/system/files.ts";

const DEFAULT_RUN_DIRECTORY = "/run/tortie";
const SOCKET = "tortie.sock";
export const DEFAULT_SOCKET = `${DEFAULT_RUN_DIRECTORY}/${SOCKET}`;
const BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id";

export interface RunDirectory {
  readonly path: string;
  /** The API socket. */
  readonly socket: string;
  /** The socket for calls of plugins. */
  readonly calls: string;
  /** Who is there: boot id, version, IPAM mode, phase. */
  readonly agentFile: string;
  /** Held by the agent as long as it lives. */
  readonly instanceLock: string;
  /** DELs that wait for the agent, one file each. */
  readonly deleteQueue: string;
  /** Locks of attachments (attachment-locks.ts). */
  readonly attachments: string;
  /** What happened to attachments, also to those that are gone (history.ts). */
  readonly history: string;
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
    calls: `${path}/cni.sock`,
    agentFile: `${path}/agent.json`,
    instanceLock: `${path}/agent.lock`,
    deleteQueue: `${path}/deletequeue`,
    attachments: `${path}/attachments`,
    history: `${path}/history`,
  };
}

/**
 * What the plugin reads of `agent.json`; the agent may write more. The agent writes it at its start and leaves it where it is when it ends,
 * so that a plugin can tell an agent that restarts from one that was never installed (A§3.10). Uninstalling the agent removes it.
 */
export interface AgentFile {
  readonly bootId: string;
  readonly version: string;
  /** The IPAM mode of attachments whose configuration names none. */
  readonly ipam: "blocks" | "host-scope";
  /** `starting`; `local` once its socket serves; `ready` when the cluster is known too; `stopped` after SIGTERM. */
  readonly phase: "starting" | "local" | "ready" | "stopped";
  readonly pid: number;
}

/** As a plugin found it: of another version of the agent, words may be unknown. */
export interface FoundAgent {
  readonly version: string;
  readonly ipam: string;
  readonly phase: string;
  /** How long ago it was written. */
  readonly ageSeconds: number;
}

/** @returns `undefined` when no agent of this boot has ever been there, or its file cannot be read */
export function findAgent(path: string, bootId: () => string = readBootId): FoundAgent | undefined {
  try {
    const modified = statusOf(path)?.modified;
    if (modified === undefined) return undefined;
    const found: unknown = JSON.parse(readText(path));
    const text = (member: string) => {
      const value: unknown = typeof found === "object" && found !== null && Object.getOwnPropertyDescriptor(found, member)?.value;
      return typeof value === "string" ? value : "";
    };
    if (text("bootId") !== bootId()) return undefined;
    const ageSeconds = Math.max(0, Math.round(Date.now() / 1000 - modified));
    return { version: text("version"), ipam: text("ipam"), phase: text("phase"), ageSeconds };
  } catch {
    return undefined;
  }
}

export function readBootId(): string {
  return readText(BOOT_ID_FILE).trim();
}
