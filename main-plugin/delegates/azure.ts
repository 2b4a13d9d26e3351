/**
 * What the main plugin remembers for `azure-vnet-ipam`, which knows no containers: the network's subnet, and the addresses of each
 * attachment, in Calico's files (C§2.5). Its ADD is told the subnet that it gave before, its DEL which address to release.
 */
import { formatPrefix, maskPrefix, parsePrefix } from "../../lib/addresses/address.ts";
import type { CniRequest } from "../../lib/cni/protocol.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { field, isText, listOf, parseObject } from "../../lib/json/decode.ts";
import { isJsonObject, type JsonObject } from "../../lib/json/value.ts";
import { isThere, makeDirectories, readText, removeFile } from "../../lib/system/files.ts";
import { writeWhole } from "../../lib/system/write-whole.ts";

export const AZURE_IPAM = "azure-vnet-ipam";

/** Where Calico's main plugin keeps them as well, so that either can delete what the other has added. */
const STATE = "/var/run/calico/azure/networks";

type Attachment = Pick<CniRequest, "network" | "containerId" | "interfaceName" | "netconf">;

/** The plugin's input for an ADD: the subnet of the network's first address, if there was one. @throws TortieError `azure-state-invalid` */
export function azureNetconfForAdd({ netconf, network }: Attachment): JsonObject {
  const [subnet] = subnetsOf(network);
  return subnet === undefined ? netconf : withIpam(netconf, { subnet });
}

/**
 * The plugin's inputs for a DEL, one for each address that the attachment has: it releases one address a call. Calico names the first
 * one only.
 *
 * @returns none when nothing is known of the attachment: there is nothing to release
 * @throws TortieError `azure-state-invalid`
 */
export function azureNetconfsForDel(attachment: Attachment): readonly JsonObject[] {
  const file = endpointFile(attachment);
  if (!isThere(file)) return [];
  const [subnet] = subnetsOf(attachment.network);
  return read(file, "Addresses").map((address) =>
    withIpam(attachment.netconf, { ipAddress: address.replace(/\/.*$/, ""), ...(subnet === undefined ? {} : { subnet }) }),
  );
}

/**
 * Notes what an ADD of the plugin gave, before the result is used.
 *
 * @param addresses with their prefix length, as the plugin returned them
 */
export function rememberAzure(attachment: Attachment, addresses: readonly string[]): void {
  const { network, containerId, interfaceName } = attachment;
  makeDirectories(`${STATE}/${network}`, 0o700);
  const subnets = [...new Set(addresses.flatMap((address) => subnetOf(address) ?? []))];
  write(networkFile(network), { Name: network, Subnets: subnets });
  write(endpointFile(attachment), { Network: network, ContainerID: containerId, Interface: interfaceName, Addresses: addresses });
}

/** After the plugin has released the addresses, and not before: until then a repeated DEL needs them. */
export function forgetAzure(attachment: Attachment): void {
  removeFile(endpointFile(attachment));
}

function subnetOf(address: string): string | undefined {
  const prefix = parsePrefix(address);
  return prefix === undefined ? undefined : formatPrefix(maskPrefix(prefix));
}

function subnetsOf(network: string): readonly string[] {
  const file = networkFile(network);
  return isThere(file) ? read(file, "Subnets") : [];
}

function networkFile(network: string): string {
  return `${STATE}/${network}/network.json`;
}

function endpointFile({ network, containerId, interfaceName }: Attachment): string {
  return `${STATE}/${network}/${containerId}-${interfaceName}`;
}

function read(file: string, list: string): readonly string[] {
  try {
    const stored = parseObject(readText(file));
    // Go writes an empty list as null.
    return stored[list] === null ? [] : field(stored, list, listOf(isText));
  } catch (error) {
    throw new TortieError("azure-state-invalid", `${file}: ${messageOf(error)}`);
  }
}

function write(file: string, content: Readonly<Record<string, unknown>>): void {
  writeWhole(file, JSON.stringify(content), 0o600);
}

function withIpam(netconf: JsonObject, members: JsonObject): JsonObject {
  return { ...netconf, ipam: { ...(isJsonObject(netconf.ipam) ? netconf.ipam : {}), ...members } };
}
