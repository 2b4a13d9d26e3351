/** What every way to an attachment's addresses needs and gives (C§2.5). */
import type { CniIp, CniResult } from "../lib/cni/protocol.ts";
import type { NewAttachment } from "./attachment.ts";
import type { IpamPlugin } from "./find-ipam.ts";
import type { IpamInput } from "./ipam-input.ts";
import type { Services } from "./services.ts";
import type { Subject } from "./subject.ts";

/** One ADD on its way to its addresses. */
export interface Assignment {
  readonly attachment: NewAttachment;
  readonly subject: Subject;
  readonly plugin: IpamPlugin;
  readonly input: IpamInput;
}

export interface Assigned {
  /** Addresses, routes and DNS; interfaces are not IPAM's. */
  readonly result: CniResult;
  /** false for the target of a live migration, whose host routes come later (C§2.3 S9). */
  readonly hostRoutes: boolean;
  /** The addresses are those of the record: nothing was taken now. */
  readonly isKept: boolean;
}

/** An empty route list of our own IPAM plugin marks the target of a live migration (C§2.3 S9). */
export function wantsHostRoutes(result: CniResult, plugin: Pick<IpamPlugin, "isOurs">, services: Pick<Services, "isStandalone">): boolean {
  return services.isStandalone || !plugin.isOurs || result.routes.length > 0;
}

/** An answer without routes and DNS (C§5.1). */
export function resultOf(ips: readonly CniIp[]): CniResult {
  return { interfaces: [], ips, routes: [], dns: {} };
}
