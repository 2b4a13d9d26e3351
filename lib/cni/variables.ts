/** Which CNI_* variables an operation needs; apart from what they may hold (environment.ts), which not every caller judges. */
import { CNI_COMMANDS, type CniCommand } from "./protocol.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * In the order in which missing ones are listed (recording env-missing). PATH is needed by DEL too, though the specification calls it
 * optional.
 */
const REQUIRED: Readonly<Record<string, readonly CniCommand[]>> = {
  CNI_CONTAINERID: ["ADD", "DEL", "CHECK"],
  CNI_NETNS: ["ADD", "CHECK"],
  CNI_IFNAME: ["ADD", "DEL", "CHECK"],
  CNI_PATH: ["ADD", "DEL", "CHECK", "STATUS", "GC"],
};

/** @returns `undefined` for a word that CNI does not have */
export function commandOf(text: string): CniCommand | undefined {
  return CNI_COMMANDS.find((command) => command === text);
}

export function isNeeded(name: string, command: CniCommand | undefined): boolean {
  return command !== undefined && REQUIRED[name]?.includes(command) === true;
}

/** Those that `command` needs and that are not set, or empty. An unknown command needs nothing. */
export function missingVariables(command: CniCommand | undefined, env: Environment): string[] {
  return Object.keys(REQUIRED).filter((name) => isNeeded(name, command) && !env[name]);
}
