/** Where etcd is and who we are to it, from the network configuration and the environment (C§1.2, C§1.4). */
import type { Environment } from "../../../cni/environment.ts";
import type { EtcdConfig } from "../../../config/network-config.ts";
import { messageOf, TortieError } from "../../../errors/errors.ts";
import type { ApiServer, ClientCertificate, ServerTrust } from "../../../kubernetes/config/api-config.ts";
import { checkPem, type PemKind } from "../../../kubernetes/config/material.ts";
import { withSystemAuthorities } from "../../../kubernetes/config/resolve.ts";
import { parseServer } from "../../../kubernetes/config/server-address.ts";
import { type Setting, settingOf } from "../../../kubernetes/config/settings.ts";
import { readText } from "../../../system/files.ts";

export interface EtcdSettings {
  /** URLs, or the domain whose SRV records name them. */
  readonly members: { readonly servers: readonly ApiServer[] } | { readonly domain: string };
  readonly trust: ServerTrust;
  readonly certificate: ClientCertificate | undefined;
  readonly user: EtcdUser | undefined;
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
