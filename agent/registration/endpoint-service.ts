/** Endpoints as the API serves them: looked up, registered, changed, built and removed (A§2.7). */

import type { EndpointRecord } from "../../handover/record.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import type { EndpointChangeRequest } from "../api/endpoint-models.ts";
import type { Trigger } from "../endpoints/build/builds.ts";
import type { Endpoint } from "../endpoints/endpoint.ts";
import type { RegisteredEndpoints, Registration } from "./registration.ts";

/** What is needed of the endpoints' manager. */
interface ManagedEndpoints extends RegisteredEndpoints {
  endpoints(): readonly Endpoint[];
  all(): readonly Endpoint[];
  named(name: string): Endpoint;
  trigger(id: number, trigger: Trigger): void;
}

export interface EndpointServiceParts {
  readonly manager: ManagedEndpoints;
  readonly registration: Registration;
  /** Removes what an ADD made, or what was registered. It is repeated when it fails. */
  readonly removal: (record: EndpointRecord) => Promise<void>;
  /** The link of the endpoint is up and has its addresses. */
  readonly isConnected: (record: EndpointRecord) => Promise<boolean>;
  readonly log: { error(message: string): void };
}

export class EndpointService {
  readonly #parts: EndpointServiceParts;

  constructor(parts: EndpointServiceParts) {
    this.#parts = parts;
  }

  endpoints(): readonly Endpoint[] {
    return this.#parts.manager.endpoints();
  }

  all(): readonly Endpoint[] {
    return this.#parts.manager.all();
  }

  named(name: string): Endpoint {
    return this.#parts.manager.named(name);
  }

  isConnected(record: EndpointRecord): Promise<boolean> {
    return this.#parts.isConnected(record);
  }

  build(id: number, level: number, reason: string): void {
    const known = ([1, 2, 3, 4] as const).find((one) => one === level) ?? 1;
    this.#parts.manager.trigger(id, { level: known, reason });
  }

  register(request: EndpointChangeRequest): Promise<{ readonly isNew: boolean; readonly endpoint: Endpoint }> {
    return this.#parts.registration.register(request);
  }

  change(id: number, request: EndpointChangeRequest): Promise<Endpoint> {
    return this.#parts.registration.change(id, request);
  }

  /** @returns the number of errors met */
  async remove(id: number): Promise<number> {
    const record = this.#parts.manager.get(id)?.record;
    // A second removal meanwhile has nothing left to do.
    if (record === undefined) return 0;
    try {
      await this.#parts.removal(record);
      return 0;
    } catch (error) {
      this.#parts.log.error(`endpoint ${id} is not removed yet: ${messageOf(error)}`);
      return 1;
    }
  }
}
