/** Addresses that attachments were given and gave back, for `ipam_events_total` (A§8.2). */

import type { AgentMetrics } from "../metrics/metrics.ts";
import type { EndpointManager } from "./manager.ts";

/** Once an attachment, however often it is added; addresses that another plugin granted do not count. */
export function countAddresses(endpoints: Pick<EndpointManager, "onChange">, metrics: Pick<AgentMetrics, "ipamEvent">): void {
  const counted = new Set<number>();
  const count = (action: "allocate" | "release", addresses: readonly { family: 4 | 6; grant: string }[]) => {
    for (const { family, grant } of addresses) if (grant !== "external") metrics.ipamEvent(action, family);
  };
  endpoints.onChange((event, { id, record: { addresses, committedAt } }) => {
    if (event === "ready" && !counted.has(id)) {
      counted.add(id);
      count("allocate", addresses);
    }
    // An ADD that was taken back has never counted.
    if (event === "gone" && committedAt !== undefined) {
      counted.delete(id);
      count("release", addresses);
    }
  });
}
