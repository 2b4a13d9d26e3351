/** Who there is: endpoints by number, by attachment and by every other name. */

import type { EndpointRecord } from "../../handover/record.ts";
import { formatAddress, parseAddress } from "../../lib/addresses/address.ts";
import { type AttachmentId, lineKey } from "../../lib/cni/attachment-id.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { Endpoint } from "./endpoint.ts";
import { LARGEST_ID } from "./ids.ts";

export class EndpointTable {
  readonly #endpoints = new Map<number, Endpoint>();
  readonly #attachments = new Map<string, Endpoint>();
  readonly #named = new Map<string, Set<Endpoint>>();
  readonly #names = new Map<number, readonly string[]>();

  add(endpoint: Endpoint): void {
    this.#endpoints.set(endpoint.id, endpoint);
    this.#attachments.set(lineKey(endpoint.record.attachment), endpoint);
  }

  remove(endpoint: Endpoint): void {
    const key = lineKey(endpoint.record.attachment);
    this.#endpoints.delete(endpoint.id);
    if (this.#attachments.get(key) === endpoint) this.#attachments.delete(key);
    this.hide(endpoint);
  }

  /** Gives the endpoint the names that its record says and no others. Before, only its number and its attachment lead to it. */
  show(endpoint: Endpoint): void {
    this.hide(endpoint);
    const names = namesOf(endpoint.record);
    this.#names.set(endpoint.id, names);
    for (const name of names) this.#named.set(name, (this.#named.get(name) ?? new Set()).add(endpoint));
  }

  /** Takes the endpoint's names away, and those of no other. */
  hide(endpoint: Endpoint): void {
    for (const name of this.#names.get(endpoint.id) ?? []) {
      const endpoints = this.#named.get(name);
      endpoints?.delete(endpoint);
      if (endpoints?.size === 0) this.#named.delete(name);
    }
    this.#names.delete(endpoint.id);
  }

  get(id: number): Endpoint | undefined {
    return this.#endpoints.get(id);
  }

  ofAttachment(attachment: AttachmentId): Endpoint | undefined {
    return this.#attachments.get(lineKey(attachment));
  }

  /** In the order of their ids. */
  list(): readonly Endpoint[] {
    return [...this.#endpoints.values()].sort((one, other) => one.id - other.id);
  }

  /** Endpoints that have this address, in the text of `formatAddress`. */
  withAddress(family: 4 | 6, address: string): readonly Endpoint[] {
    return [...(this.#named.get(`ipv${family}:${address}`) ?? [])];
  }

  /**
   * The endpoint with this name. One whose ADD has only just begun is not visible yet (A§5.3).
   * @throws TortieError `endpoint-name-invalid`, `endpoint-unknown`, `endpoint-ambiguous`
   */
  named(name: string): Endpoint {
    const key = keyOf(name);
    const known = typeof key === "number" ? [this.#endpoints.get(key) ?? []].flat() : [...(this.#named.get(key) ?? [])];
    const found = known.filter(({ state }) => state !== "creating");
    const [only] = found;
    if (only === undefined) throw new TortieError("endpoint-unknown", `endpoint not found: ${name}`);
    if (found.length > 1) {
      const list = found.map(({ id, record: { attachment } }) => `${id} (attachment:${attachment.containerId}:${attachment.ifname})`);
      throw new TortieError("endpoint-ambiguous", `${name} is the name of ${found.length} endpoints: ${list.join(", ")}`);
    }
    return only;
  }
}

/** Every name of an endpoint but its number. What is not known gives no name. */
function namesOf({ attachment, pod, addresses }: EndpointRecord): string[] {
  const { containerId, ifname } = attachment;
  return [
    `container-id:${containerId}`,
    `attachment:${containerId}:${ifname}`,
    ...(pod === undefined ? [] : [`pod-name:${pod}`]),
    ...addresses.map(({ address, family }) => `ipv${family}:${address}`),
  ];
}

/** Cilium's word → ours. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ["cilium-local", "local"],
  ["cni-attachment-id", "attachment"],
]);

/** @returns the endpoint's number, or a name as `namesOf` writes it @throws TortieError `endpoint-name-invalid` */
function keyOf(text: string): number | string {
  const colon = text.indexOf(":");
  const given = colon < 0 ? "local" : text.slice(0, colon);
  const prefix = ALIASES.get(given) ?? given;
  const value = colon < 0 ? text : text.slice(colon + 1);
  switch (prefix) {
    case "local":
      return localId(value);
    case "container-id":
      if (value === "") throw invalid(text, "a container id is wanted");
      return `container-id:${value}`;
    case "attachment":
      if (!/^[^:]+:.+$/.test(value)) throw invalid(text, "<containerID>:<ifname> is wanted");
      return `attachment:${value}`;
    case "pod-name":
      return `pod-name:${podName(text, value)}`;
    case "ipv4":
    case "ipv6": {
      const address = parseAddress(value);
      if (address === undefined || `ipv${address.family}` !== prefix) throw invalid(text, `an address of ${prefix} is wanted`);
      return `${prefix}:${formatAddress(address)}`;
    }
    default:
      throw new TortieError("endpoint-name-invalid", `unknown endpoint ID prefix "${given}"`);
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

function invalid(text: string, wanted: string): TortieError {
  return new TortieError("endpoint-name-invalid", `"${text}" is no name of an endpoint: ${wanted}`);
}
