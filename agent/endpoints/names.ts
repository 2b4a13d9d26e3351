/**
 * What an endpoint can be called, `[prefix:]value` (A§2.2), and who is called so. A name points to a set of endpoints, and a removed one
 * takes out only itself: two sandboxes of one pod are two endpoints.
 */

import type { EndpointRecord } from "../../handover/record.ts";
import { formatAddress, parseAddress } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { LARGEST_ID } from "./ids.ts";

/** Cilium's word → ours. */
const ALIASES: Readonly<Record<string, string>> = { "cilium-local": "local", "cni-attachment-id": "attachment" };

export type EndpointName = { readonly kind: "local"; readonly id: number } | { readonly kind: "reference"; readonly key: string };

/** @throws TortieError `endpoint-name-invalid` */
export function parseEndpointName(text: string): EndpointName {
  const colon = text.indexOf(":");
  const given = colon < 0 ? "local" : text.slice(0, colon);
  const prefix = Object.hasOwn(ALIASES, given) ? (ALIASES[given] ?? given) : given;
  const value = colon < 0 ? text : text.slice(colon + 1);
  switch (prefix) {
    case "local":
      return { kind: "local", id: localId(value) };
    case "container-id":
      if (value === "") throw invalid(text, "a container id is wanted");
      return { kind: "reference", key: `container-id:${value}` };
    case "attachment":
      if (!/^[^:]+:.+$/.test(value)) throw invalid(text, "<containerID>:<ifname> is wanted");
      return { kind: "reference", key: `attachment:${value}` };
    case "pod-name":
      return { kind: "reference", key: `pod-name:${podName(text, value)}` };
    case "ipv4":
    case "ipv6":
      return { kind: "reference", key: `${prefix}:${canonical(text, prefix, value)}` };
    default:
      throw new TortieError("endpoint-name-invalid", `unknown endpoint ID prefix "${given}"`);
  }
}

/** Every name of an endpoint but its number. What is not known is no name. */
export function referencesOf({ attachment, pod, addresses }: Pick<EndpointRecord, "attachment" | "pod" | "addresses">): string[] {
  const { containerId, ifname } = attachment;
  return [
    `container-id:${containerId}`,
    `attachment:${containerId}:${ifname}`,
    ...(pod === undefined ? [] : [`pod-name:${pod}`]),
    ...addresses.map(({ address, family }) => `ipv${family}:${address}`),
  ];
}

/** Endpoints by their names. */
export class References {
  readonly #endpoints = new Map<string, Set<number>>();
  readonly #names = new Map<number, readonly string[]>();

  /** Gives an endpoint these names and no others. */
  set(id: number, names: readonly string[]): void {
    this.remove(id);
    this.#names.set(id, names);
    for (const name of names) {
      const ids = this.#endpoints.get(name) ?? new Set();
      this.#endpoints.set(name, ids.add(id));
    }
  }

  remove(id: number): void {
    for (const name of this.#names.get(id) ?? []) {
      const ids = this.#endpoints.get(name);
      ids?.delete(id);
      if (ids?.size === 0) this.#endpoints.delete(name);
    }
    this.#names.delete(id);
  }

  find(key: string): readonly number[] {
    return [...(this.#endpoints.get(key) ?? [])];
  }
}

/** A decimal or hexadecimal number of 16 bits; a larger one is refused, not cut. */
function localId(text: string): number {
  const id = /^(0[xX][0-9a-fA-F]+|\d+)$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(id) || id > LARGEST_ID) throw invalid(text, `a number of at most ${LARGEST_ID} is wanted`);
  return id;
}

/** `<namespace>/<pod>`; a ":" in place of the "/" is understood. */
function podName(text: string, value: string): string {
  const parts = /^([^:/]+)[:/]([^:/]+)$/.exec(value);
  if (parts === null) throw invalid(text, "<namespace>/<pod> is wanted");
  return `${parts[1]}/${parts[2]}`;
}

function canonical(text: string, prefix: "ipv4" | "ipv6", value: string): string {
  const address = parseAddress(value);
  if (address === undefined || `ipv${address.family}` !== prefix) throw invalid(text, `an address of ${prefix} is wanted`);
  return formatAddress(address);
}

function invalid(text: string, wanted: string): TortieError {
  return new TortieError("endpoint-name-invalid", `"${text}" is no name of an endpoint: ${wanted}`);
}
