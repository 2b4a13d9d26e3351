/** Capability arguments from the command line, in the shapes that CNI's conventions give them (CONVENTIONS.md of the specification). */
import { isIP } from "node:net";
import { messageOf, TortieError } from "../../errors/errors.ts";
import { parseJson } from "../../json/parse.ts";
import { isJsonObject, type JsonObject } from "../../json/value.ts";

export interface CapabilityOptions {
  /** A JSON object; the other options are put over it. */
  readonly json: string | undefined;
  /** "[hostIP:]hostPort:containerPort[/protocol]" */
  readonly portMappings: readonly string[];
  /** "ingress=8M,egress=8M[,ingressBurst=…,egressBurst=…]", bits per second and bits. */
  readonly bandwidth: string | undefined;
  readonly mac: string | undefined;
  /** Addresses, with or without a prefix length. */
  readonly ips: readonly string[];
}

/**
 * @returns `undefined` when no option was given
 * @throws TortieError `option-invalid`
 */
export function capabilityArgs(options: CapabilityOptions): JsonObject | undefined {
  const all: JsonObject = {
    ...(options.json === undefined ? {} : jsonArgs(options.json)),
    ...(options.portMappings.length === 0 ? {} : { portMappings: options.portMappings.map(portMapping) }),
    ...(options.bandwidth === undefined ? {} : { bandwidth: bandwidth(options.bandwidth) }),
    ...(options.mac === undefined ? {} : { mac: macAddress(options.mac) }),
    ...(options.ips.length === 0 ? {} : { ips: options.ips.map(ipAddress) }),
  };
  return Object.keys(all).length === 0 ? undefined : all;
}

function jsonArgs(text: string): JsonObject {
  try {
    const value = parseJson(text);
    if (isJsonObject(value)) return value;
  } catch (error) {
    return invalid(`--capability-args is not JSON: ${messageOf(error)}`);
  }
  return invalid("--capability-args: a JSON object is wanted, one member a capability");
}

function portMapping(text: string): JsonObject {
  const match = /^(?:(\[[0-9a-fA-F:.]+\]|[0-9.]+):)?(\d+):(\d+)(?:\/(tcp|udp|sctp))?$/.exec(text);
  const [, host, hostPort, containerPort, protocol = "tcp"] = match ?? [];
  const hostIP = host?.replace(/^\[|\]$/g, "");
  if (!isPort(hostPort) || !isPort(containerPort) || (hostIP !== undefined && isIP(hostIP) === 0)) {
    invalid(`--port-mapping "${text}" is not of the form [HOST-IP:]HOST-PORT:CONTAINER-PORT[/tcp|udp|sctp]`);
  }
  return { hostPort: Number(hostPort), containerPort: Number(containerPort), protocol, ...(hostIP === undefined ? {} : { hostIP }) };
}

function isPort(text: string | undefined): boolean {
  return text !== undefined && Number(text) >= 1 && Number(text) <= 65535;
}

const RATE_KEYS = ["ingress", "egress", "ingressBurst", "egressBurst"];

/** Ingress is what the pod receives. A burst not given is a tenth of a second's traffic, and at least one segment of 64 KiB. */
function bandwidth(text: string): JsonObject {
  const given = new Map(
    text.split(",").map((pair): [string, number] => {
      const [, key = "", value = ""] = /^(\w+)=(.+)$/.exec(pair) ?? [];
      if (!RATE_KEYS.includes(key)) invalid(`--bandwidth "${pair}" is not of the form NAME=BITS with NAME one of ${RATE_KEYS.join(", ")}`);
      return [key, bits(value)];
    }),
  );
  const limits: Record<string, number> = {};
  for (const direction of ["ingress", "egress"]) {
    const rate = given.get(direction);
    const burst = given.get(`${direction}Burst`);
    if (rate === undefined && burst !== undefined) invalid(`--bandwidth: ${direction}Burst needs ${direction} too`);
    if (rate === undefined) continue;
    limits[`${direction}Rate`] = rate;
    limits[`${direction}Burst`] = burst ?? Math.max(Math.ceil(rate / 10), 64 * 1024 * 8);
  }
  return limits;
}

/** A number of bits; k, M and G are powers of 1000, as for link rates everywhere. */
function bits(text: string): number {
  const [, digits, unit = ""] = /^(\d+(?:\.\d+)?)([kKMG]?)$/.exec(text) ?? [];
  if (digits === undefined) invalid(`--bandwidth: "${text}" is no number of bits such as 500k, 8M or 1G`);
  const factor = unit === "" ? 1 : unit === "M" ? 1e6 : unit === "G" ? 1e9 : 1e3;
  return Math.round(Number(digits) * factor);
}

function macAddress(text: string): string {
  if (!/^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$/.test(text)) invalid(`--mac "${text}" is not of the form 0a:58:0a:f4:00:05`);
  return text;
}

function ipAddress(text: string): string {
  const [address = "", length] = text.split("/");
  const family = isIP(address);
  if (family === 0 || (length !== undefined && !(/^\d+$/.test(length) && Number(length) <= (family === 4 ? 32 : 128)))) {
    invalid(`--ips "${text}" is no address, with or without a prefix length`);
  }
  return text;
}

function invalid(message: string): never {
  throw new TortieError("option-invalid", message);
}
