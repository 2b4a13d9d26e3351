/**
 * CNI ADD: give one attachment its address, links, routes and endpoint, or leave nothing behind (C§2, design invariant 5). Here is what
 * comes before anything is changed; while the datastore is asked, `complete-add.ts` is loaded, which does the rest.
 */

import { refuseOwnNamespace } from "../lib/cni/own-namespace.ts";
import type { CniRequest } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { verifyNamespacePath } from "../lib/system/netns.ts";
import { turns } from "../lib/system/turns.ts";
import type { Access } from "./access.ts";
import { identifyNewAttachment, type NewAttachment } from "./attachment.ts";
import { assertClusterReady } from "./cluster-ready.ts";
import { findIpam, type IpamPlugin } from "./find-ipam.ts";
import { type IpamSection, readIpamSection } from "./ipam-stdin.ts";
import { saying } from "./saying.ts";
import { readSubject, type Subject } from "./subject.ts";

/** An ADD whose questions have been asked. */
export interface BegunAdd {
  readonly request: CniRequest;
  readonly config: NetworkConfig;
  readonly attachment: NewAttachment;
  readonly section: IpamSection;
  readonly plugin: IpamPlugin;
  /** Rejects when the cluster lets nobody change anything. */
  readonly ready: Promise<void>;
  /** Resolves as soon as it is certain enough that the workload wants addresses, but no particular ones; maybe never. */
  readonly wantsAny: Promise<void>;
  /** To be called once, when the node is ready for pods. */
  subject(): Promise<Subject>;
}

/** @returns the result as it is to be printed */
export async function add(request: CniRequest, config: NetworkConfig, access: Access): Promise<string> {
  const begun = await beginAdd(request, config, access);
  // The questions leave before the loading, which keeps the thread busy.
  if (!access.isStandalone) await turns(1);
  const { completeAdd, createServices } = await import("./complete-add.ts");
  return completeAdd(begun, createServices(config, access));
}

/** @throws TortieError when the ADD is impossible whatever the datastore says, or there is no way to the datastore */
export async function beginAdd(request: CniRequest, config: NetworkConfig, access: Access): Promise<BegunAdd> {
  const { log, isStandalone } = access;
  const attachment = identifyNewAttachment(request, config, access.env);
  verifyNamespacePath(request.netns);
  refuseOwnNamespace(request);
  const section = readIpamSection(request, !isStandalone);
  const plugin = findIpam(request, config);
  log.step("checks");

  await (isStandalone ? access.datastore() : saying("error creating calico client", () => access.datastore()));
  log.step("open");
  const ready = assertClusterReady(access);
  ready.catch(() => {});
  const wantsAny = Promise.withResolvers<void>();
  const read = () => readSubject(attachment, config, access, wantsAny.resolve);
  // Asked for together, but not before the gates: who waits there must not go by what was before.
  const reading = config.readinessGates.length === 0 ? read() : undefined;
  reading?.catch(() => {});
  return { request, config, attachment, section, plugin, ready, wantsAny: wantsAny.promise, subject: () => reading ?? read() };
}
