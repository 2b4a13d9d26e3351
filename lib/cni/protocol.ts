/**
 * Names the nouns of the Container Network Interface specification, as Tortie holds them: always the shapes of CNI 1.1.0; and which
 * CNI_* variables an operation needs. (request.ts judges what they hold, which not every caller loads.)
 */
import type { JsonObject } from "../json/value.ts";

/** Every version of the specification that can be spoken, oldest first. */
export const CNI_VERSIONS = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] as const;
export type CniVersion = (typeof CNI_VERSIONS)[number];

export const CNI_COMMANDS = ["ADD", "DEL", "CHECK", "STATUS", "GC", "VERSION"] as const;
export type CniCommand = (typeof CNI_COMMANDS)[number];

/** One call of a runtime, validated: environment and standard input (I§1.2, C§1.3). */
export interface CniRequest {
  readonly command: Exclude<CniCommand, "VERSION">;
  /** Empty for STATUS and GC. */
  readonly containerId: string;
  /** Path of the sandbox; empty when the runtime gave none (DEL of a sandbox that is gone). */
  readonly netns: string;
  /** CNI_IFNAME; empty for STATUS and GC. */
  readonly interfaceName: string;
  /** CNI_ARGS as it came. */
  readonly args: string;
  /** CNI_PATH as it came. */
  readonly path: string;
  /** The executable that handed the call to the agent says so: `ipam.type` names that very file, by which the agent may serve it. */
  readonly ownIpam?: boolean;
  /** CNI_NETNS_OVERRIDE is "1" or "true": the caller's own namespace is meant. */
  readonly netnsOverride: boolean;
  /** Standard input as it came, for a delegate. */
  readonly stdin: Uint8Array;
  /** Standard input parsed. */
  readonly netconf: JsonObject;
  /** `name` of the network. */
  readonly network: string;
  /** `cniVersion` as given; `undefined` when absent or empty. */
  readonly cniVersion: CniVersion | undefined;
}

export interface CniInterface {
  readonly name: string;
  readonly mac?: string;
  readonly mtu?: number;
  readonly sandbox?: string;
  readonly socketPath?: string;
  readonly pciID?: string;
}

export interface CniIp {
  /** Address with prefix length, "10.0.0.5/32". */
  readonly address: string;
  readonly gateway?: string;
  /** Index into `interfaces`. */
  readonly interface?: number;
}

export interface CniRoute {
  readonly dst: string;
  readonly gw?: string;
  readonly mtu?: number;
  readonly advmss?: number;
  readonly priority?: number;
  readonly table?: number;
  readonly scope?: number;
}

export interface CniDns {
  readonly nameservers?: readonly string[];
  readonly domain?: string;
  readonly search?: readonly string[];
  readonly options?: readonly string[];
}

/** The result of ADD in its newest form; `lib/cni/result.ts` turns it into any other version and back. */
export interface CniResult {
  readonly interfaces: readonly CniInterface[];
  readonly ips: readonly CniIp[];
  readonly routes: readonly CniRoute[];
  readonly dns: CniDns;
}

/** An attachment that the runtime still knows (CNI 1.1.0, GC: `cni.dev/valid-attachments`). */
export interface ValidAttachment {
  readonly containerID: string;
  readonly ifname: string;
}

/** The newest version that is spoken. */
const NEWEST_VERSION: CniVersion = "1.1.0";

/**
 * Writes the answer to VERSION: one compact line (recording version). Standard input is never read for it, as Calico's plugins do: a caller
 * who asks for versions may pass anything or nothing. So the caller's `cniVersion` is not echoed, as the specification would have it.
 */
export function renderVersions(): string {
  return `${JSON.stringify({ cniVersion: NEWEST_VERSION, supportedVersions: CNI_VERSIONS })}\n`;
}

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

/** Lists those that `command` needs and that are not set, or empty. An unknown command needs nothing. */
export function missingVariables(command: CniCommand | undefined, env: Environment): string[] {
  return Object.keys(REQUIRED).filter((name) => isNeeded(name, command) && !env[name]);
}
