/** Takes the links of an attachment away; what is gone already counts as taken away (C§4.7). */
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { inNamespace } from "../../lib/system/netns.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";
import { isAttachmentAlias, namesAttachment, parseAttachmentAlias } from "../alias.ts";
import type { AttachedLink, LinkOfAttachment, Removal } from "../dataplane.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import { NetlinkError } from "../netlink/message.ts";
import type { Netlink } from "../netlink/socket.ts";
import { getLink, type Link, type LinkKey, namespaceIdOf } from "../rtnetlink/link.ts";
import { deleteHostLink, deleteLink, type JoinedDeletions, openDeletion } from "./deletions.ts";
import { isDeviceKind, isUnfinished, mayReplace } from "./ends.ts";

interface DetachOptions {
  /** How long the kernel may take for the link in the sandbox. */
  readonly limitMs?: number;
  /** Deletes host ends together with others. */
  readonly deletions?: JoinedDeletions | undefined;
}

/**
 * Deletes the pair by its host end, where the sandbox has nothing else under the pod end's name: that is all then, since an end takes the
 * other with it. Otherwise deletes the link in the sandbox, whatever its type, and then the host end if it is still there and still of this
 * attachment. Both are tried, whatever happens to the first.
 *
 * Neither is touched when the host end, whose name is the workload's own, says that it belongs to another container: the ADD of
 * that one has replaced the link of this one, and the interface that a sandbox both share has under this name is the newer one's
 * (design, invariant 7; Calico takes it away, recordings add-twice-new-id, del-foreign-id).
 * @throws TortieError `netns-invalid`, `link-delete-timeout`, `link-failed`
 */
export async function detach({ route }: HostSockets, link: LinkOfAttachment, { limitMs, deletions }: DetachOptions = {}): Promise<Removal> {
  const host = link.hostInterface === "" ? undefined : getLink(route, { name: link.hostInterface });
  if (host !== undefined && isOfAnotherContainer(host.alias, link)) return { keptFor: host.alias };
  if (host !== undefined && (await isPairDeleted(route, host, link, deletions))) return {};
  try {
    if (link.sandbox !== undefined) await deleteInSandbox(link.sandbox, link.podInterface, limitMs);
  } finally {
    if (link.hostInterface !== "") await deleteHostEnd(route, { name: link.hostInterface }, (found) => isRemovable(found, link));
  }
  return {};
}

/** Begins with the host end. Whatever is still there afterwards is deleted the ordinary way, which reports failures. */
async function isPairDeleted(route: Netlink, host: Link, link: LinkOfAttachment, deletions?: JoinedDeletions): Promise<boolean> {
  const isAll = isAllThere(route, host, link);
  if (!isAll && deletions === undefined) return false;
  const isRight = (found: Link) => isRemovable(found, link);
  const deleting = deletions === undefined ? deleteHostLink(host) : deletions.delete(host, isRight);
  const isDeleted = await deleting.catch(() => false);
  return isDeleted && isAll;
}

/**
 * Tells whether there is nothing to delete but this pair: the host end is the attachment's, and what the sandbox has under the pod end's
 * name is its other end, or nothing. It is asked on the host's socket, of the namespace by its number, which costs a tenth of a visit.
 */
function isAllThere(route: Netlink, { alias, kind, peer }: Link, { owner, sandbox, podInterface: name }: LinkOfAttachment): boolean {
  if (!namesAttachment(alias, owner) || !isDeviceKind(kind)) return false;
  if (sandbox === undefined) return true;
  try {
    const namespaceId = namespaceIdOf(route, sandbox.fd);
    if (namespaceId === undefined) return false;
    const found = getLink(route, { name, namespaceId });
    return found === undefined || (found.index === peer?.index && namespaceId === peer.namespaceId);
  } catch (error) {
    // Kernels before 4.15 cannot be asked of another namespace.
    if (error instanceof NetlinkError) return false;
    throw error;
  }
}

/** Deletes a link that `list` found, if it still is what it was. @throws TortieError `link-failed`, `link-delete-timeout` */
export async function detachFound(
  { route }: HostSockets,
  { index, owner, hostInterface: name }: AttachedLink,
  deletions?: JoinedDeletions,
): Promise<Removal> {
  const isRight = (link: Link) => (owner === undefined ? isUnfinished(link) : namesAttachment(link.alias, owner));
  if (deletions === undefined) await deleteHostEnd(route, { index }, isRight);
  else await explained(name, () => deletions.delete({ index, name }, isRight));
  return {};
}

/** Tells whether another container has the link; without an alias of Tortie's form a link does not say whose it is. */
function isOfAnotherContainer(alias: string, { owner, predecessors }: LinkOfAttachment): boolean {
  if (!isAttachmentAlias(alias) || namesAttachment(alias, owner)) return false;
  if (predecessors !== undefined && mayReplace(alias, { owner, predecessors })) return false;
  return parseAttachmentAlias(alias)?.containerId !== owner.containerId;
}

function isRemovable({ alias }: Link, { owner, predecessors }: LinkOfAttachment): boolean {
  return predecessors === undefined ? namesAttachment(alias, owner) : mayReplace(alias, { owner, predecessors });
}

/** Deletes a link of the host if it is the right one: what was found a moment ago may have changed, and a name alone proves nothing. */
async function deleteHostEnd(socket: Netlink, key: LinkKey, isRight: (link: Link) => boolean): Promise<void> {
  const link = getLink(socket, key);
  if (link !== undefined && isRight(link)) await explained(link.name, () => deleteHostLink(link));
}

/** Adds to a refusal of the kernel which link was being deleted. */
async function explained(name: string, deleting: () => Promise<unknown>): Promise<void> {
  try {
    await deleting();
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    throw new TortieError("link-failed", `failed to delete host interface ${name}: ${messageOf(error)}`, { cause: error });
  }
}

async function deleteInSandbox(sandbox: Sandbox, name: string, limitMs?: number): Promise<void> {
  using sockets = inNamespace(sandbox, openDeletion);
  try {
    await deleteLink(sockets, name, { where: `in netns ${sandbox.path}`, limitMs });
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    const message = `failed to clean up workload's pod interface inside netns: ${name} in ${sandbox.path}: ${messageOf(error)}`;
    throw new TortieError("link-failed", message, { cause: error });
  }
}
