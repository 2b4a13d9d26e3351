/** Takes the links of an attachment away; what is gone already counts as taken away (C§4.7). */
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { inNamespace } from "../../lib/system/netns.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";
import { isAttachmentAlias, namesAttachment, parseAttachmentAlias } from "../alias.ts";
import type { AttachedLink, LinkOfAttachment, Removal } from "../dataplane.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import { type Netlink, NetlinkError } from "../netlink/socket.ts";
import { getLink, type Link, type LinkKey } from "../rtnetlink/link.ts";
import { deleteHostLink, deleteLink, openDeletion } from "./delete-link.ts";
import type { JoinedDeletions } from "./joined-deletions.ts";
import { isUnfinished, mayReplace } from "./ownership.ts";

export interface DetachOptions {
  /** How long the kernel may take for the link in the sandbox. */
  readonly limitMs?: number;
  /** Where host ends are deleted together with others, before the sandbox is looked into. */
  readonly deletions?: JoinedDeletions | undefined;
}

/**
 * Deletes the link in the sandbox, whatever its type, and then the host end if it is still there and still of this attachment.
 * Both are tried, whatever happens to the first.
 *
 * Neither is touched when the host end, whose name is the workload's own, says that it belongs to another container by now: the ADD of
 * that one has replaced the link of this one, and the interface that a sandbox both share has under this name is the newer one's
 * (design, invariant 7; Calico takes it away, recordings add-twice-new-id, del-foreign-id).
 * @throws TortieError `netns-invalid`, `link-delete-timeout`, `link-failed`
 */
export async function detach({ route }: HostSockets, link: LinkOfAttachment, { limitMs, deletions }: DetachOptions = {}): Promise<Removal> {
  const host = link.hostInterface === "" ? undefined : getLink(route, { name: link.hostInterface });
  if (host !== undefined && isOfAnotherContainer(host.alias, link)) return { keptFor: host.alias };
  // The peer goes with it. Whatever is still there is deleted the ordinary way, which reports failures.
  if (host !== undefined) await deletions?.delete(host, (found) => isRemovable(found, link)).catch(() => undefined);
  try {
    if (link.sandbox !== undefined) await deleteInSandbox(link.sandbox, link.podInterface, limitMs);
  } finally {
    if (link.hostInterface !== "") await deleteHostEnd(route, { name: link.hostInterface }, (found) => isRemovable(found, link));
  }
  return {};
}

/** Deletes a link that `list` found, if it still is what it was. @throws TortieError `link-failed`, `link-delete-timeout` */
export async function detachFound(
  { route }: HostSockets,
  { index, owner, hostInterface: name }: AttachedLink,
  deletions?: JoinedDeletions,
): Promise<Removal> {
  const isRight = (link: Link) => (owner === undefined ? isUnfinished(link) : namesAttachment(link.alias, owner));
  if (deletions === undefined) await deleteHostEnd(route, { index }, isRight);
  else await deleteJoined(deletions, { index, name }, isRight);
  return {};
}

async function deleteJoined(deletions: JoinedDeletions, link: Pick<Link, "index" | "name">, isRight: (link: Link) => boolean) {
  try {
    await deletions.delete(link, isRight);
  } catch (error) {
    throw asLinkFailure(error, link);
  }
}

/** Without an alias of Tortie's form, the link does not tell which attachment it belongs to. */
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
  if (link === undefined || !isRight(link)) return;
  try {
    await deleteHostLink(link);
  } catch (error) {
    throw asLinkFailure(error, link);
  }
}

function asLinkFailure(error: unknown, { name }: Pick<Link, "name">): unknown {
  if (!(error instanceof NetlinkError)) return error;
  return new TortieError("link-failed", `failed to delete host interface ${name}: ${messageOf(error)}`, { cause: error });
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
