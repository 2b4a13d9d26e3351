/**
 * Serves CNI DEL: takes an attachment apart (C§6.2, design invariants 3, 4 and 7).
 *
 * The link goes first, then the record, then the address: an address that is free while its pod's annotations still name it has two
 * owners to every reader of them. Every step that is safe is tried whatever failed before, and the first error is reported at the
 * end. Repeating it is harmless. It reads nothing that only ADD needs.
 *
 * The link is this node's own business. The datastore is left alone while its cluster cannot be asked, or says that it is not ready:
 * a runtime comes back until everything is gone.
 */
import { type AttachmentName, parseAttachmentAlias } from "../dataplane/alias.ts";
import type { Logger } from "../lib/log/logger.ts";
import type { AttachmentCall } from "./call.ts";
import { findIpam } from "./find-ipam.ts";
import { assertClusterReady, assertNodeNamed } from "./gates.ts";
import type { Host } from "./host.ts";
import { connectIpam, ipamInput } from "./ipam-source.ts";

export async function del(call: AttachmentCall, host: Host): Promise<void> {
  const { request, config, log } = call;
  const teardown = new Teardown(log);
  let sibling: AttachmentName | undefined;
  const isUnplugged = await teardown.attempt("remove the link", async () => {
    sibling = await unplug(call, host, () => isRecorded(call, host));
  });
  log.step("dataplane");

  const isReady = await teardown.attempt("ask the cluster", async () => {
    await assertClusterReady(call, host);
    // Only the keys of etcd have the node's name: a DEL without need of it must not fail for ever.
    if (call.datastore === "etcdv3" && config.nodename === undefined) assertNodeNamed(call);
  });
  log.step("cluster");
  if (!isReady) return teardown.report();

  // The container has another interface, and one record and, in one network, one handle serve all its interfaces.
  const isForgotten = sibling !== undefined || (await teardown.attempt("remove the endpoint", () => forget(call, host)));
  log.step("endpoint");
  // An address is free only when no interface carries it and no record names it (invariant 3).
  if (isUnplugged && isForgotten && sibling?.network !== request.network) {
    await teardown.attempt("release the addresses", () => connectIpam(findIpam(request, config), ipamInput(call), call, host).run("DEL"));
    log.step("ipam");
  }
  teardown.report();
}

/**
 * Does the part of a DEL that needs only the kernel: removes the link, where it is provably this attachment's. The sandbox is not asked
 * for: whatever its path leads to by now, both ends of the link go with the host end.
 * @param isRecorded the proof of a link without an alias
 * @returns the other attachment of this very container that has the link, if that is so: the ADD of this one was refused
 */
export async function unplug(
  call: AttachmentCall,
  { dataplane }: Pick<Host, "dataplane">,
  isRecorded?: () => Promise<boolean>,
): Promise<AttachmentName | undefined> {
  const { hostInterface, owner, request, log } = call;
  const { keptFor } = await dataplane.remove({ hostInterface, owner, isRecorded, netns: request.netns });
  if (keptFor === undefined) return undefined;
  log.info(`${hostInterface} is not provably of this attachment and stays`, { alias: keptFor });
  const present = parseAttachmentAlias(keptFor);
  return present?.containerId === owner.containerId ? present : undefined;
}

async function isRecorded({ endpointKey, request }: AttachmentCall, host: Host): Promise<boolean> {
  const { records } = await host.datastore();
  return (await records.read(endpointKey))?.containerID === request.containerId;
}

/** Clears the record that others read, if it is this container's. */
export async function forget({ endpointKey, request, log }: AttachmentCall, host: Host): Promise<void> {
  const { records } = await host.datastore();
  log.debug("record of the endpoint", { clearing: await records.clear(endpointKey, request.containerId) });
}

/** Goes on after an error: tries each step, logs each failure, and reports the first one at the end (design, invariant 4). */
export class Teardown {
  readonly #log: Logger;
  #first: { readonly error: unknown } | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** @returns whether the step succeeded */
  async attempt(what: string, step: () => Promise<unknown>): Promise<boolean> {
    try {
      await step();
      return true;
    } catch (error) {
      this.#log.error(`could not ${what}`, { error });
      this.#first ??= { error };
      return false;
    }
  }

  /** Throws the first failure, if there was one. */
  report(): void {
    if (this.#first !== undefined) throw this.#first.error;
  }
}
