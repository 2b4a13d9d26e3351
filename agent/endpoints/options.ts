/** What the manager of endpoints is made with. */

import type { EndpointRecord } from "../../handover/record.ts";
import type { Tasks } from "../../lib/resident/tasks.ts";
import type { Clock } from "../../lib/system/clock.ts";
import type { BuildEndpointParts } from "./build/build-endpoint.ts";
import type { BuildReport } from "./build/builds.ts";
import type { Permits } from "./build/permits.ts";
import type { Seams } from "./build/seams.ts";
import type { RecordStore } from "./record/record-store.ts";

/** What is known of an attachment when its ADD begins. */
export type NewEndpoint = Pick<EndpointRecord, "attachment" | "netns" | "podInterface" | "linkForm"> &
  Partial<Pick<EndpointRecord, "pod" | "podUID" | "request" | "traceparent" | "addresses">>;

export interface EndpointManagerOptions {
  readonly store: RecordStore;
  readonly bootId: string;
  readonly maxEndpoints?: number;
  readonly clock: Clock;
  readonly controllers: Pick<Tasks, "update" | "remove">;
  readonly dataplane: BuildEndpointParts["dataplane"];
  readonly grants: BuildEndpointParts["grants"];
  readonly hold: BuildEndpointParts["hold"];
  /** Absent: nothing is there yet (A§5.8). */
  readonly seams?: Seams;
  readonly permits?: Permits;
  readonly log: { info(message: string): void; error(message: string): void };
  readonly onBuilt?: (report: BuildReport) => void;
}
