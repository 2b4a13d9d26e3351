/**
 * What a process that lives on adds to a call (A§11.4). An executable adds nothing: what it left when it was killed is found by the
 * runtime's DEL, its GC or the next ADD.
 */
import type { AppliedLink } from "../dataplane/dataplane.ts";
import type { DesiredState } from "../dataplane/desired-state.ts";
import type { Collection } from "../ipam-plugin/call.ts";
import type { Prefix } from "../lib/addresses/address.ts";
import type { CniDns, CniResult, CniRoute } from "../lib/cni/protocol.ts";
import type { Sandbox } from "../lib/system/sandbox.ts";
import type { WorkloadEndpoint } from "../lib/workload/workload-endpoint.ts";
import type { Lease } from "./addresses.ts";
import type { Workload } from "./workload.ts";

export interface Residence {
  /** Proven by the process that serves the call, which closes it; "gone": no sandbox is provably that of the attachment. */
  readonly sandbox?: Sandbox | "gone";
  /** What the attachment holds already by the process's own record: an ADD keeps it, and a failed one does not give it back. */
  readonly held?: HeldAddresses;
  readonly journal?: AddJournal;
  /** Of a GC: what must be kept although the runtime does not list it. */
  readonly collection?: Collection;
}

/** The part of a lease that a record keeps. */
export interface HeldAddresses {
  readonly addresses: readonly Prefix[];
  readonly hostRoutes: boolean;
  readonly routes: readonly CniRoute[];
  readonly dns: CniDns;
}

/**
 * Told of each part of an ADD before it takes effect, so that a process that starts after a crash knows what may exist. If it throws,
 * the ADD fails and is undone.
 */
export interface AddJournal {
  /** Addresses will be taken. */
  addresses(workload: Workload): Promise<void>;
  /** The addresses are had, and the kernel will be changed. */
  link(lease: Lease, desired: DesiredState): Promise<void>;
  /** The links are up, and the record that others read will be written. */
  endpoint(link: AppliedLink, endpoint: WorkloadEndpoint): Promise<void>;
  /** The point of no return: from here on the attachment stays, whatever becomes of the caller. */
  commit(result: CniResult): Promise<void>;
}
