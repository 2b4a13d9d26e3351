/** What an ADD has decided before it has addresses. */
import type { AttachmentName } from "../../dataplane/alias.ts";
import type { DesiredState } from "../../dataplane/desired-state.ts";
import type { Address, Prefix } from "../../lib/addresses/address.ts";

export interface AttachmentPlan {
  readonly hostInterface: string;
  readonly podInterface: string;
  readonly owner: AttachmentName;
  /** Containers that the workload's record names: their link may be replaced. */
  readonly predecessors: readonly string[];
  readonly device: DesiredState["device"];
  readonly mac: string | undefined;
  /** Destinations of the pod's routes, both families mixed. */
  readonly destinations: readonly Prefix[];
  readonly allowIpForwarding: boolean;
  /** No Felix runs beside us: the node itself must forward. */
  readonly forwardOnNode: boolean;
  /** Gateways of the link form `endpoint`; absent for the form `routed`. */
  readonly routers?: readonly Address[];
}
