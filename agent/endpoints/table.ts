/** Who there is: endpoints by number, by attachment and by every other name. */

import { type AttachmentId, lineKey } from "../../lib/cni/attachment-id.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { Endpoint } from "./endpoint.ts";
import { parseEndpointName, References, referencesOf } from "./names.ts";

export class EndpointTable {
  readonly #endpoints = new Map<number, Endpoint>();
  readonly #attachments = new Map<string, Endpoint>();
  readonly #references = new References();

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

  /** Gives the endpoint the names that its record says; before, only its number and its attachment lead to it. */
  show(endpoint: Endpoint): void {
    this.#references.set(endpoint.id, referencesOf(endpoint.record));
  }

  /** Takes the endpoint's names away, and those of no other. */
  hide({ id }: Endpoint): void {
    this.#references.remove(id);
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
    return this.#referred(`ipv${family}:${address}`);
  }

  /**
   * The endpoint with this name (A§2.2). One whose ADD has only just begun is not visible yet (A§5.3).
   * @throws TortieError `endpoint-name-invalid`, `endpoint-unknown`, `endpoint-ambiguous`
   */
  named(name: string): Endpoint {
    const parsed = parseEndpointName(name);
    const byNumber = parsed.kind === "local" ? [this.#endpoints.get(parsed.id) ?? []].flat() : this.#referred(parsed.key);
    const found = byNumber.filter(({ state }) => state !== "creating");
    const [only] = found;
    if (only === undefined) throw new TortieError("endpoint-unknown", `endpoint not found: ${name}`);
    if (found.length > 1) {
      const list = found.map(({ id, record: { attachment } }) => `${id} (attachment:${attachment.containerId}:${attachment.ifname})`);
      throw new TortieError("endpoint-ambiguous", `${name} is the name of ${found.length} endpoints: ${list.join(", ")}`);
    }
    return only;
  }

  #referred(key: string): readonly Endpoint[] {
    return this.#references.find(key).flatMap((id) => this.#endpoints.get(id) ?? []);
  }
}
