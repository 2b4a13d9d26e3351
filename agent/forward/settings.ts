/**
 * The few keys that say whether and how a call goes to the agent (A§3.10), read without the decoder of the whole configuration, which the
 * way through the socket does not load. A configuration that the decoder would refuse is left to the plugin, which says what is wrong with
 * it as it always did.
 */
import {
  AGENT_MODES,
  type AgentMode,
  DEFAULT_AGENT_TIMEOUT_SECONDS,
  DEFAULT_AGENT_WAIT_SECONDS,
  problemOfAgentLimits,
} from "../../lib/config/limits.ts";

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

/** @param stdin the network configuration as text @returns `undefined` for one that every operation refuses */
export function readSettings(stdin: string): ForwardSettings | undefined {
  const netconf = parse(stdin);
  if (netconf === undefined) return undefined;
  const word = textOf(netconf.get("agent"), "auto");
  const socket = textOf(netconf.get("agent_socket"), "");
  const waitSeconds = integerOf(netconf.get("agent_wait_seconds"), DEFAULT_AGENT_WAIT_SECONDS);
  const timeoutSeconds = integerOf(netconf.get("agent_timeout_seconds"), DEFAULT_AGENT_TIMEOUT_SECONDS);
  const network = textOf(netconf.get("name"), "");
  if (word === undefined || socket === undefined || network === undefined) return undefined;
  if (waitSeconds === undefined || timeoutSeconds === undefined) return undefined;

  const mode = AGENT_MODES.find((one) => one === word);
  const limits = { waitSeconds, timeoutSeconds };
  const isSound = problemOfAgentLimits(limits) === undefined;
  const { waitSeconds: wait, timeoutSeconds: timeout } = isSound ? limits : DEFAULTS;
  return {
    mode: mode ?? "auto",
    socket,
    waitMs: wait * 1000,
    timeoutMs: timeout * 1000,
    network,
    ipamType: textOf(membersOf(netconf.get("ipam"))?.get("type"), "") ?? "",
    isRefusedByAdd: mode === undefined || !isSound,
  };
}

const DEFAULTS = { waitSeconds: DEFAULT_AGENT_WAIT_SECONDS, timeoutSeconds: DEFAULT_AGENT_TIMEOUT_SECONDS };

function parse(stdin: string): Map<string, unknown> | undefined {
  try {
    return membersOf(JSON.parse(stdin));
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
