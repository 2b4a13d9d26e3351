/** Finds out where etcd is and who we are to it (C§1.2, C§1.4): from the network configuration, the environment and the DNS. */

import { resolveSrv } from "node:dns/promises";
import type { Environment } from "../../cni/protocol.ts";
import type { EtcdConfig } from "../../config/decode.ts";
import { messageOf, TortieError } from "../../errors/errors.ts";
import { type ClientLimits, DEFAULT_LIMITS } from "../../kubernetes/client/limits.ts";
import { type ApiServer, type ClientCertificate, parseServer, type ServerTrust } from "../../kubernetes/config/api-config.ts";
import { withSystemAuthorities } from "../../kubernetes/config/resolve.ts";
import { checkPem, type PemKind, type Setting, settingOf } from "../../kubernetes/config/settings.ts";
import { readText } from "../../system/files.ts";
import { CODES, EtcdError } from "./answers.ts";

export interface EtcdSettings {
  /** URLs, or the domain whose SRV records name them. */
  readonly members: { readonly servers: readonly ApiServer[] } | { readonly domain: string };
  readonly trust: ServerTrust;
  readonly certificate: ClientCertificate | undefined;
  readonly user: EtcdUser | undefined;
  /** Reads the files again. @throws TortieError `netconf-value` */
  readonly reload: () => EtcdSettings;
}

interface EtcdUser {
  readonly name: string;
  readonly password: string;
}

/**
 * Reads every file that is named; nothing is asked of the network.
 * @throws TortieError `netconf-value`
 */
export function resolveEtcdSettings(config: EtcdConfig, env: Environment): EtcdSettings {
  const members = membersOf(config, env);
  const trust: ServerTrust = {
    certificateAuthority: pemOf(settingOf(env, "ETCD_CA_CERT_FILE", config.caCertFile, "etcd_ca_cert_file"), "CERTIFICATE"),
    serverName: undefined,
    skipVerify: false,
  };
  const usesTls = "domain" in members || members.servers.some(({ isTls }) => isTls);
  return {
    members,
    trust: usesTls ? withSystemAuthorities(trust, env) : trust,
    certificate: certificateOf(config, env),
    user: userOf(env),
    reload: () => resolveEtcdSettings(config, env),
  };
}

function membersOf(config: EtcdConfig, env: Environment): EtcdSettings["members"] {
  const endpoints = settingOf(env, "ETCD_ENDPOINTS", config.endpoints, "etcd_endpoints");
  const domain = settingOf(env, "ETCD_DISCOVERY_SRV", config.discoverySrv, "etcd_discovery_srv");
  if (endpoints !== undefined && domain !== undefined) {
    throw wrong(`multiple discovery or bootstrap flags specified, use either ${endpoints.source} or ${domain.source}`);
  }
  if (domain !== undefined) return { domain: domain.value };
  if (endpoints !== undefined) return { servers: serversOf(endpoints) };
  const authority = settingOf(env, "ETCD_AUTHORITY", config.authority, "etcd_authority");
  if (authority === undefined) throw wrong("no etcd endpoints specified: set etcd_endpoints or etcd_discovery_srv");
  const scheme = settingOf(env, "ETCD_SCHEME", config.scheme, "etcd_scheme")?.value ?? "http";
  return { servers: [serverOf(`${scheme}://${authority.value}`, authority.source)] };
}

function serversOf({ value, source }: Setting): readonly ApiServer[] {
  const urls = value
    .split(",")
    .map((url) => url.trim())
    .filter((url) => url !== "");
  if (urls.length === 0) throw wrong(`no etcd endpoints specified: ${source} is empty`);
  return urls.map((url) => serverOf(url, source));
}

/** As in Calico an endpoint needs its scheme: with a guessed one a password could go out in the clear. */
export function serverOf(url: string, source: string): ApiServer {
  try {
    if (!url.includes("://")) throw new Error("it has no scheme");
    return parseServer(url, source);
  } catch (error) {
    if (URL.parse(url)?.password) throw wrong(`${source} holds a password: set ETCD_USERNAME and ETCD_PASSWORD instead`);
    throw wrong(`${source}: ${JSON.stringify(url)} is not the http or https URL of an etcd member (${messageOf(error)})`);
  }
}

function certificateOf(config: EtcdConfig, env: Environment): ClientCertificate | undefined {
  const certificate = settingOf(env, "ETCD_CERT_FILE", config.certFile, "etcd_cert_file");
  const key = settingOf(env, "ETCD_KEY_FILE", config.keyFile, "etcd_key_file");
  if (certificate === undefined && key === undefined) return undefined;
  const [certificateText, keyText] = [pemOf(certificate, "CERTIFICATE"), pemOf(key, "PRIVATE KEY")];
  if (certificateText === undefined || keyText === undefined) {
    const missing = certificate === undefined ? "etcd_cert_file (or ETCD_CERT_FILE)" : "etcd_key_file (or ETCD_KEY_FILE)";
    throw wrong(`client certificate and key belong together: ${missing} is not set`);
  }
  return { certificate: certificateText, key: keyText };
}

function pemOf(setting: Setting | undefined, kind: PemKind): string | undefined {
  if (setting === undefined) return undefined;
  const place = `${setting.source} (${setting.value})`;
  try {
    return checkPem(readText(setting.value), kind, place);
  } catch (cause) {
    throw wrong(cause instanceof TortieError ? cause.message : `unable to read ${place}: ${messageOf(cause)}`, cause);
  }
}

function userOf(env: Environment): EtcdUser | undefined {
  const name = settingOf(env, "ETCD_USERNAME");
  if (name === undefined) return undefined;
  return { name: name.value, password: settingOf(env, "ETCD_PASSWORD")?.value ?? "" };
}

function wrong(message: string, cause?: unknown): TortieError {
  return new TortieError("netconf-value", message, { cause });
}

interface SrvRecord {
  readonly name: string;
  readonly port: number;
  readonly priority: number;
}

/** A lookup of the records of one name. */
export type LookUp = (name: string) => Promise<readonly SrvRecord[]>;

const SERVICES = [
  { service: "_etcd-client-ssl._tcp", scheme: "https" },
  { service: "_etcd-client._tcp", scheme: "http" },
] as const;

/**
 * Runs SRV discovery (etcd's client/pkg/srv): the members that a domain's records name, those with TLS first.
 *
 * @throws EtcdError when no name server answers, or none knows of a member
 */
export async function discoverMembers(domain: string, lookUp: LookUp = resolveSrv): Promise<readonly ApiServer[]> {
  const failures: string[] = [];
  const servers: ApiServer[] = [];
  for (const { service, scheme } of SERVICES) {
    const name = `${service}.${domain}`;
    try {
      const records = [...(await lookUp(name))].sort((one, other) => one.priority - other.priority);
      for (const { name: host, port } of records)
        servers.push(serverOf(`${scheme}://${withoutDot(host)}:${port}`, `SRV record of ${name}`));
    } catch (error) {
      failures.push(`${name}: ${messageOf(error)}`);
    }
  }
  if (servers.length > 0) return servers;
  throw new EtcdError(`etcd discovery: no SRV record of ${domain} names a member (${failures.join("; ")})`, {
    code: CODES.none,
    isRepetition: false,
  });
}

function withoutDot(host: string): string {
  return host.endsWith(".") ? host.slice(0, -1) : host;
}

/** How long, and how many at once, the client of etcd's gateway tries. */
export interface EtcdLimits extends Omit<ClientLimits, "repetitions" | "retryAfter"> {
  /** Milliseconds for the first try where another member can be asked; doubled with every further one. */
  readonly firstTry: number;
}

/** More than the requests that one operation makes together; an agent that has a burst of them shares the members with other nodes. */
const CONNECTIONS = 16;

export const ETCD_LIMITS: EtcdLimits = { ...DEFAULT_LIMITS, firstTry: 2_000, refused: 5_000, firstPause: 50, connections: CONNECTIONS };
