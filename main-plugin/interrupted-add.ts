/** An ADD that was killed half-way is undone by the next ADD of its attachment, as by its DEL or by GC (design, invariant 5). */
import type { Address } from "../lib/addresses/address.ts";
import { recordOfPod } from "../lib/datastore/kubernetes/pod-record.ts";
import type { AddCall } from "./call.ts";
import { type Grant, HOLDS_ADDRESSES, type IpamSource } from "./ipam-source.ts";
import type { Node } from "./node.ts";
import { hasSibling, isRepeated } from "./workload.ts";

/**
 * ADD of the IPAM plugin for an attachment that has no record. Only a container that turns out to hold addresses is looked into, so
 * that the others pay no request for it.
 */
export async function takeAfterInterruption(address: Address | undefined, ipam: IpamSource, call: AddCall, node: Node): Promise<Grant> {
  const first = await ipam.addFirst(address);
  if (first !== HOLDS_ADDRESSES) return first;
  if (!(await hasSibling(call, node)) && !(await isRecordedByNow(call, node))) await undoInterruptedAdd(ipam, call, node);
  return ipam.add(address);
}

/** A pod's record may have been read from memory: what a container uses must not be taken for what an interrupted ADD left. */
async function isRecordedByNow({ identity, request }: AddCall, node: Node): Promise<boolean> {
  const pod = await (await node.core())?.pod({ namespace: identity.namespace, name: identity.pod });
  return pod !== undefined && isRepeated({ recorded: recordOfPod(pod) }, request.containerId);
}

/**
 * Addresses that the container of an attachment without record holds are what an interrupted ADD took, unless another interface of the
 * container has a record: then they may be that one's, and its DEL frees them.
 *
 * The link of the interrupted ADD goes first: it may carry the addresses (design, invariant 3).
 */
async function undoInterruptedAdd(ipam: IpamSource, call: AddCall, { dataplane }: Node): Promise<void> {
  const { log, podInterface, hostInterface, owner } = call;
  log.info("an earlier ADD of this attachment was interrupted: what it took is given back first");
  await dataplane.remove({ podInterface, hostInterface, owner });
  await ipam.run("DEL");
}
