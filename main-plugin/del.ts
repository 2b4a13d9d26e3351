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
import { checkDataplaneType } from "../lib/config/add-checks.ts";
import { TortieError } from "../lib/errors/errors.ts";
import type { Logger } from "../lib/log/logger.ts";
import type { Sandbox } from "../lib/system/sandbox.ts";
import { type AttachmentCall, openSandboxToRemove } from "./call.ts";
import { findIpam } from "./find-ipam.ts";
import { assertClusterReady, assertNodeNamed } from "./gates.ts";
import type { Host } from "./host.ts";
import { connectIpam, ipamInput } from "./ipam-source.ts";

export async function del(call: AttachmentCall, host: Host): Promise<void> {
  const { request, config, log } = call;
  checkDataplaneType(config);
  const teardown = new Teardown(log);
  const isUnplugged = await teardown.attempt("remove the link", () => unplug(call, host));
  log.step("dataplane");

  const isReady = await teardown.attempt("ask the cluster", async () => {
    await assertClusterReady(call, host);
    // Only the keys of etcd have the node's name: a DEL without need of it must not fail for ever.
    if (call.datastore === "etcdv3" && config.nodename === undefined) assertNodeNamed(call);
  });
  log.step("cluster");
  if (!isReady) return teardown.report();

  const isForgotten = await teardown.attempt("remove the endpoint", async () => {
    const { records } = await host.datastore();
    log.debug("record of the endpoint", { clearing: await records.clear(call.endpointKey, request.containerId) });
  });
  log.step("endpoint");
  // An address is free only when no interface carries it and no record names it (invariant 3).
  if (isUnplugged && isForgotten) {
    await teardown.attempt("release the addresses", () => connectIpam(findIpam(request, config), ipamInput(call), call, host).run("DEL"));
    log.step("ipam");
  }
  teardown.report();
}

/**
 * Does the part of a DEL that needs only the kernel: removes both ends of the link. A link that another container has taken over stays. A
 * sandbox that cannot be entered keeps nobody from removing the host end.
 */
export async function unplug(call: AttachmentCall, { dataplane }: Pick<Host, "dataplane">): Promise<void> {
  const { podInterface, hostInterface, owner, log } = call;
  const removeLink = async (sandbox: Sandbox | undefined) => {
    const { keptFor } = await dataplane.remove({ sandbox, podInterface, hostInterface, owner });
    if (keptFor !== undefined) log.info(`${hostInterface} is now another container's and stays`, { alias: keptFor });
  };
  try {
    using sandbox = openSandboxToRemove(call);
    await removeLink(sandbox);
  } catch (error) {
    if (error instanceof TortieError && error.word === "netns-invalid") await removeLink(undefined);
    throw error;
  }
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
