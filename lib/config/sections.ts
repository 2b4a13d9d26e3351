/**
 * Decodes the small sections of a network configuration: `policy`, `kubernetes`, `runtimeConfig`, `log_*`, features (C§1.2).
 */

import type { LogConfig } from "../log/file.ts";
import { boolean, type Decoded, integer, record, secret, text, texts } from "./codec.ts";
import { DEFAULT_AGENT_TIMEOUT_SECONDS, DEFAULT_AGENT_WAIT_SECONDS } from "./limits.ts";

export const policySchema = record({
  type: text,
  k8s_api_root: text,
  k8s_auth_token: secret,
  k8s_client_certificate: text,
  k8s_client_key: text,
  k8s_certificate_authority: text,
});

export function policyConfig(given: Decoded<typeof policySchema> | undefined) {
  return {
    type: given?.type ?? "",
    k8sApiRoot: given?.k8s_api_root || undefined,
    k8sAuthToken: given?.k8s_auth_token || undefined,
    k8sClientCertificate: given?.k8s_client_certificate || undefined,
    k8sClientKey: given?.k8s_client_key || undefined,
    k8sCertificateAuthority: given?.k8s_certificate_authority || undefined,
  };
}

export const kubernetesSchema = record({ kubeconfig: text, k8s_api_root: text, node_name: text });

export function kubernetesConfig(given: Decoded<typeof kubernetesSchema> | undefined) {
  return {
    kubeconfig: given?.kubeconfig || undefined,
    k8sApiRoot: given?.k8s_api_root || undefined,
    nodeName: given?.node_name || undefined,
  };
}

export const featureSchema = record({ ip_addrs_no_ipam: boolean, floating_ips: boolean });

export function featureControl(given: Decoded<typeof featureSchema> | undefined) {
  return { ipAddrsNoIpam: given?.ip_addrs_no_ipam ?? false, floatingIps: given?.floating_ips ?? false };
}

export const containerSchema = record({ allow_ip_forwarding: boolean });

/** `dns` is what the capability of that name brings; Linux pods get their DNS from the runtime, so that it only has to be well-typed. */
const dnsSchema = record({ servers: texts, domain: text, searches: texts, options: texts });

export const runtimeSchema = record({ mac: text, ips: texts, dns: dnsSchema });

/** Decodes the capabilities `mac` and `ips`; addresses come with or without prefix length. */
export function runtimeConfig(given: Decoded<typeof runtimeSchema> | undefined) {
  return { mac: given?.mac || undefined, ips: given?.ips ?? [] };
}

/** handover/call.ts reads them too, before this decoder is loaded. */
export const agentMembers = { agent: text, agent_socket: text, agent_wait_seconds: integer, agent_timeout_seconds: integer };

export function agentConfig(given: Members<typeof agentMembers>) {
  return {
    /** As given: `auto`, `require` or `off`; ADD refuses anything else. */
    mode: given.agent || "off",
    /** `undefined`: where the agent's run directory is by default. */
    socket: given.agent_socket || undefined,
    /** As given, both; ADD refuses what is out of range. */
    waitSeconds: given.agent_wait_seconds ?? DEFAULT_AGENT_WAIT_SECONDS,
    timeoutSeconds: given.agent_timeout_seconds ?? DEFAULT_AGENT_TIMEOUT_SECONDS,
  };
}

export const etcdMembers = {
  etcd_endpoints: text,
  etcd_discovery_srv: text,
  etcd_key_file: text,
  etcd_cert_file: text,
  etcd_ca_cert_file: text,
  etcd_authority: text,
  etcd_scheme: text,
};

type Members<M> = { readonly [K in keyof M]: Decoded<M[K]> | undefined };

export function etcdConfig(given: Members<typeof etcdMembers>) {
  return {
    endpoints: given.etcd_endpoints || undefined,
    discoverySrv: given.etcd_discovery_srv || undefined,
    keyFile: given.etcd_key_file || undefined,
    certFile: given.etcd_cert_file || undefined,
    caCertFile: given.etcd_ca_cert_file || undefined,
    /** Host and port of one member, and its scheme: used where nothing else says where etcd is. */
    authority: given.etcd_authority || undefined,
    scheme: given.etcd_scheme || undefined,
  };
}

const DEFAULT_MAX_SIZE_MEGABYTES = 100;
const DEFAULT_MAX_AGE_DAYS = 30;
const DEFAULT_MAX_COUNT = 10;

export const logMembers = {
  log_level: text,
  log_file_path: text,
  log_file_max_size: integer,
  log_file_max_age: integer,
  log_file_max_count: integer,
};

export function logConfig(given: Members<typeof logMembers>): LogConfig {
  return {
    level: levelOf(given.log_level ?? ""),
    filePath: given.log_file_path || undefined,
    fileMaxSize: positiveOr(DEFAULT_MAX_SIZE_MEGABYTES, given.log_file_max_size),
    fileMaxAge: positiveOr(DEFAULT_MAX_AGE_DAYS, given.log_file_max_age),
    fileMaxCount: positiveOr(DEFAULT_MAX_COUNT, given.log_file_max_count),
  };
}

/** Reads any letter case; every other word means info. */
function levelOf(word: string): LogConfig["level"] {
  const level = word.toLowerCase();
  return level === "debug" || level === "error" ? level : "info";
}

function positiveOr(standard: number, given: number | undefined): number {
  return given === undefined || given <= 0 ? standard : given;
}
