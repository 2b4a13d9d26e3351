/** A client whose writes stop with the lease: the last look before each of them is here, whatever asked for it. */
import { type ApiClient, ApiError } from "../../lib/kubernetes/api-client.ts";

export interface Fence {
  /** Whether a write may begin now. */
  readonly mayWrite: boolean;
  /** How long one may take, waiting for its turn included. */
  readonly writeLimitMs: number;
}

export function fencedClient(client: ApiClient, fence: Fence): ApiClient {
  return {
    get server() {
      return client.server;
    },
    async request(request) {
      if (request.method === "GET") return client.request(request);
      if (!fence.mayWrite) throw new ApiError(`${request.method} ${request.path}: not sent, this controller does not lead any more`);
      return client.request({ ...request, timeoutMs: Math.min(request.timeoutMs ?? fence.writeLimitMs, fence.writeLimitMs) });
    },
    close: () => client.close(),
  };
}
