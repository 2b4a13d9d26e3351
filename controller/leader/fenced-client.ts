/** A client whose writes stop with the lease: the last look before each of them is here, whatever asked for it. */
import { type ApiClient, ApiError } from "../../lib/kubernetes/api-client.ts";
import { Slots } from "../../lib/kubernetes/client/limits.ts";

export interface Fence {
  /** Whether a write may begin now. */
  readonly mayWrite: boolean;
  /** How long one may take. */
  readonly writeLimitMs: number;
}

/** @param connections of `client`: the wait for one of them comes before the look at the lease */
export function fencedClient(client: ApiClient, fence: Fence, connections: number): ApiClient {
  const slots = new Slots(connections);
  return {
    get server() {
      return client.server;
    },
    request(request) {
      return slots.run(async () => {
        if (request.method === "GET") return client.request(request);
        if (!fence.mayWrite) throw new ApiError(`${request.method} ${request.path}: not sent, this controller does not lead any more`);
        return client.request({ ...request, timeoutMs: Math.min(request.timeoutMs ?? fence.writeLimitMs, fence.writeLimitMs) });
      });
    },
    close: () => client.close(),
  };
}
