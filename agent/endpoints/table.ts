/** Numbers the endpoints of this node, and finds one by its number, its attachment or any other name. */
import type { EndpointRecord } from "../../handover/record.ts";
import { formatAddress, parseAddress } from "../../lib/addresses/address.ts";
import { type AttachmentId, lineKey } from "../../lib/cni/attachment-id.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { Endpoint } from "./endpoint.ts";

const DEFAULT_MAX_ENDPOINTS = 4095;
/** 16 bits, which programs that keep ids in kernel maps rely on. */
export const LARGEST_ID = 65535;
const REST_MS = 60_000;

export interface IdPoolOptions {
  readonly max?: number;
  readonly now: () => number;
  /** Whether the id still has a directory. */
  readonly hasDirectory: (id: number) => boolean;
}

interface Released {
  readonly id: number;
  readonly at: number;
}

/**
 * Gives the endpoints of this node their numbers (A§5.1). Gives the id first that has been free the longest, never within 60 s of its
 * release and never while a directory of its last owner exists: a client that still knows an old number must not reach another endpoint.
 */
export class IdPool {
  readonly #max: number;
  readonly #options: IdPoolOptions;
  readonly #inUse = new Set<number>();
  /** In the order of their release. */
  #released: Released[] = [];
  /** Every id that was ever in use or in the way: only the others are fresh. */
  readonly #seen = new Set<number>();
  #nextFresh = 1;

  constructor(options: IdPoolOptions) {
    this.#max = Math.min(options.max ?? DEFAULT_MAX_ENDPOINTS, LARGEST_ID);
    this.#options = options;
  }

  /** @throws TortieError `endpoint-ids-exhausted` */
  take(): number {
    const id = this.#takeFresh() ?? this.#takeReleased();
    if (id === undefined) {
      throw new TortieError("endpoint-ids-exhausted", `no more endpoint IDs available: ${this.#inUse.size} of ${this.#max} are in use`);
    }
    this.#inUse.add(id);
    this.#seen.add(id);
    return id;
  }

  /** Takes an id for what `use` makes of it. An id for which that fails rests. @throws as `take`; what `use` throws */
  takeFor<T>(use: (id: number) => T): T {
    const id = this.take();
    try {
      return use(id);
    } catch (error) {
      this.release(id);
      throw error;
    }
  }

  /**
   * Takes a certain id, that of a restored endpoint. It may be above the limit, which can have been lowered.
   * @throws Error when it is in use
   */
  reserve(id: number): void {
    if (this.#inUse.has(id)) throw new Error(`endpoint ID ${id} is already in use`);
    this.#inUse.add(id);
    this.#seen.add(id);
    this.#released = this.#released.filter((one) => one.id !== id);
  }

  /** Frees an id, but does not give one above the limit again. */
  release(id: number): void {
    if (this.#inUse.delete(id) && id <= this.#max) this.#released.push({ id, at: this.#options.now() });
  }

  /** Keeps an id that nobody has from being given for a while, as a released one. @throws Error when it is in use */
  rest(id: number): void {
    this.reserve(id);
    this.release(id);
  }

  #takeFresh(): number | undefined {
    while (this.#nextFresh <= this.#max) {
      const id = this.#nextFresh++;
      if (this.#seen.has(id)) continue;
      if (!this.#options.hasDirectory(id)) return id;
      // What is in the way may go; until then the id counts as released now.
      this.#seen.add(id);
      this.#released.push({ id, at: this.#options.now() });
    }
    return undefined;
  }

  #takeReleased(): number | undefined {
    const { now, hasDirectory } = this.#options;
    const latest = now() - REST_MS;
    const at = this.#released.findIndex((one) => one.at <= latest && !hasDirectory(one.id));
    return at < 0 ? undefined : this.#released.splice(at, 1)[0]?.id;
  }
}

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
    for (const name of names) this.#named.getOrInsertComputed(name, () => new Set()).add(endpoint);
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

  /** Lists the endpoints in the order of their ids. */
  list(): readonly Endpoint[] {
    return [...this.#endpoints.values()].sort((one, other) => one.id - other.id);
  }

  /** Finds endpoints that have this address, in the text of `formatAddress`. */
  withAddress(family: 4 | 6, address: string): readonly Endpoint[] {
    return [...(this.#named.get(`ipv${family}:${address}`) ?? [])];
  }

  /**
   * Finds the endpoint with this name. One whose ADD has only just begun is not visible yet (A§5.3).
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

/** Lists every name of an endpoint but its number. What is not known gives no name. */
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

/** Reads a decimal or hexadecimal number of 16 bits; refuses a larger one instead of cutting it. */
function localId(text: string): number {
  const id = /^(0[xX][0-9a-fA-F]+|\d+)$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(id) || id > LARGEST_ID) throw invalid(text, `a number of at most ${LARGEST_ID} is wanted`);
  return id;
}

/** Reads `<namespace>/<pod>`, also with a ":" in place of the "/". */
function podName(text: string, value: string): string {
  const parts = /^([^:/]+)[:/]([^:/]+)$/.exec(value);
  if (parts === null) throw invalid(text, "<namespace>/<pod> is wanted");
  return `${parts[1]}/${parts[2]}`;
}

function invalid(text: string, wanted: string): TortieError {
  return new TortieError("endpoint-name-invalid", `"${text}" is no name of an endpoint: ${wanted}`);
}
