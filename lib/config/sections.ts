/** The small sections of a network configuration: `policy`, `kubernetes`, `runtimeConfig`, features, attachments (C§1.2, CNI 1.1.0). */
import { boolean, type Decoded, record, secret, text, texts } from "./codec.ts";
import type { KubernetesConfig, NetworkConfig, PolicyConfig, RuntimeConfig } from "./network-config.ts";

export const policySchema = record({
  type: text,
  k8s_api_root: text,
  k8s_auth_token: secret,
  k8s_client_certificate: text,
  k8s_client_key: text,
  k8s_certificate_authority: text,
});

export function policyConfig(given: Decoded<typeof policySchema> | undefined): PolicyConfig {
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

export function kubernetesConfig(given: Decoded<typeof kubernetesSchema> | undefined): KubernetesConfig {
  return {
    kubeconfig: given?.kubeconfig || undefined,
    k8sApiRoot: given?.k8s_api_root || undefined,
    nodeName: given?.node_name || undefined,
  };
}

export const featureSchema = record({ ip_addrs_no_ipam: boolean, floating_ips: boolean });

export function featureControl(given: Decoded<typeof featureSchema> | undefined): NetworkConfig["featureControl"] {
  return { ipAddrsNoIpam: given?.ip_addrs_no_ipam ?? false, floatingIps: given?.floating_ips ?? false };
}

export const containerSchema = record({ allow_ip_forwarding: boolean });

/** `dns` is what the capability of that name brings; Linux pods get their DNS from the runtime, so that it only has to be well-typed. */
const dnsSchema = record({ servers: texts, domain: text, searches: texts, options: texts });

export const runtimeSchema = record({ mac: text, ips: texts, dns: dnsSchema });

export function runtimeConfig(given: Decoded<typeof runtimeSchema> | undefined): RuntimeConfig {
  return { mac: given?.mac || undefined, ips: given?.ips ?? [] };
}
