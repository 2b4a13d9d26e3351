/**
 * `agent.json`: who is there (A§0.2). The agent writes it at its start and leaves it where it is when it ends, so that a plugin can tell
 * an agent that restarts from one that was never installed (A§3.10). Uninstalling the agent removes it.
 */
import { readText, statusOf } from "../../lib/system/files.ts";

const BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id";

/** What the plugin reads; the agent may write more. */
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
