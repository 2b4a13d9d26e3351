/**
 * Reads a runtime's call as far as it must be to be handed over to the agent (A§11.3): first in the plugin, then again in the agent.
 * Neither judges more than that: whoever serves the call judges all of it, with the words of the plugin.
 *
 * Every start of the plugin loads this file, so that the decoder of the whole configuration stays out. A configuration that the decoder
 * would refuse is left to the plugin, which says what is wrong with it.
 */

import type { AttachmentId } from "../lib/cni/attachment-id.ts";
import type { CniCommand } from "../lib/cni/protocol.ts";
import { commandOf, type Environment, missingVariables } from "../lib/cni/protocol.ts";
import {
  AGENT_MODES,
  type AgentMode,
  DEFAULT_AGENT_TIMEOUT_SECONDS,
  DEFAULT_AGENT_WAIT_SECONDS,
  problemOfAgentLimits,
} from "../lib/config/limits.ts";
import { refusedVariables } from "../lib/system/refused-variables.ts";
import type { SeenSandbox } from "../lib/system/sandbox.ts";
import { type RunDirectory, runDirectoryOf } from "./run-directory.ts";

/** Most bytes of a call behind its header, and of a request to the API. */
export const MAX_BODY_BYTES = 1 << 20;

export type CallCommand = Exclude<CniCommand, "VERSION">;

/** The sandbox as the caller saw it before the call; device and inode are absent when nothing was there. */
export interface CallerNamespace extends SeenSandbox {
  /** Its number in the caller, who keeps it open during the call. */
  readonly fd?: number;
}

/** A call as its caller had it, whether it came over the socket or out of a file (call-body.ts). */
export interface CniCall {
  readonly command: CallCommand;
  /** The caller's own: an agent's must not decide anything, and delegates inherit this one. */
  readonly env: Environment;
  /** The network configuration, unchanged, as bytes and as text. */
  readonly stdin: Uint8Array;
  readonly text: string;
  /** Its path is CNI_NETNS, empty where the runtime gave none. */
  readonly netns: CallerNamespace;
  /**
   * true: `ipam.type` leads to the plugin's own file, which would serve it in its own process, and so does the agent. The agent cannot
   * know: its executable is another copy, of its image for instance.
   */
  readonly ownIpam?: boolean;
}

/** With the few keys that say whether and how it goes to the agent (A§3.10). */
export interface PreparedCall extends CniCall {
  readonly settings: ForwardSettings;
  readonly runDirectory: RunDirectory;
  readonly attachment: AttachmentId;
}

/** @returns `undefined` when the plugin itself is to serve the call: there is something wrong with it, and the plugin says what */
export function prepareCall(env: Environment, readStdin: () => Uint8Array): PreparedCall | undefined {
  const command = commandOf(env.CNI_COMMAND ?? "");
  if (command === undefined || command === "VERSION") return undefined;
  if (refusedVariables(env).length > 0 || missingVariables(command, env).length > 0) return undefined;
  const isOfAttachment = command !== "GC" && command !== "STATUS";
  const [containerId = "", ifname = "", netns = ""] = isOfAttachment ? [env.CNI_CONTAINERID, env.CNI_IFNAME, env.CNI_NETNS] : [];
  try {
    const stdin = readStdin();
    // Unchanged: neither a byte order mark nor a wrong byte gets lost on the way.
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(stdin);
    const settings = readSettings(text);
    if (settings === undefined || (settings.isRefusedByAdd && (command === "ADD" || command === "STATUS"))) return undefined;
    const runDirectory = runDirectoryOf(settings.socket || env.TORTIE_SOCK || undefined);
    const attachment = { network: settings.network, containerId, ifname };
    return { command, settings, runDirectory, attachment, env, stdin, text, netns: { path: netns } };
  } catch {
    return undefined;
  }
}

export interface ForwardSettings {
  readonly mode: AgentMode;
  /** Empty: not configured. */
  readonly socket: string;
  readonly waitMs: number;
  readonly timeoutMs: number;
  /** `name` and `ipam.type`; empty when absent. */
  readonly network: string;
  readonly ipamType: string;
  /** A value makes no sense. ADD refuses it; every other operation goes by the defaults. */
  readonly isRefusedByAdd: boolean;
}

const DEFAULTS = { waitSeconds: DEFAULT_AGENT_WAIT_SECONDS, timeoutSeconds: DEFAULT_AGENT_TIMEOUT_SECONDS };

/** @param text the network configuration @returns `undefined` for one that every operation refuses */
export function readSettings(text: string): ForwardSettings | undefined {
  const netconf = parse(text);
  if (netconf === undefined) return undefined;
  const word = textOf(netconf.get("agent"), "off");
  const socket = textOf(netconf.get("agent_socket"), "");
  const waitSeconds = integerOf(netconf.get("agent_wait_seconds"), DEFAULTS.waitSeconds);
  const timeoutSeconds = integerOf(netconf.get("agent_timeout_seconds"), DEFAULTS.timeoutSeconds);
  const network = textOf(netconf.get("name"), "");
  if (word === undefined || socket === undefined || network === undefined) return undefined;
  if (waitSeconds === undefined || timeoutSeconds === undefined) return undefined;

  const mode = AGENT_MODES.find((one) => one === word);
  const limits = { waitSeconds, timeoutSeconds };
  const isSound = problemOfAgentLimits(limits) === undefined;
  const used = isSound ? limits : DEFAULTS;
  return {
    mode: mode ?? "off",
    socket,
    waitMs: used.waitSeconds * 1000,
    timeoutMs: used.timeoutSeconds * 1000,
    network,
    ipamType: textOf(membersOf(netconf.get("ipam"))?.get("type"), "") ?? "",
    isRefusedByAdd: mode === undefined || !isSound,
  };
}

function parse(text: string): Map<string, unknown> | undefined {
  try {
    return membersOf(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Keys in lower case: their letter case does not count (C§1.1). Of several spellings the last one that is not null counts. */
function membersOf(value: unknown): Map<string, unknown> | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return new Map(Object.entries(value).flatMap(([key, member]) => (member === null ? [] : [[key.toLowerCase(), member]])));
}

/** @returns `undefined` for another type */
function textOf(value: unknown, absent: string): string | undefined {
  if (value === undefined || value === "") return absent;
  return typeof value === "string" ? value : undefined;
}

/** @returns `undefined` for another type, and for numbers that are far out of range */
function integerOf(value: unknown, absent: number): number | undefined {
  if (value === undefined) return absent;
  return typeof value === "number" && Number.isSafeInteger(value) ? value : undefined;
}
