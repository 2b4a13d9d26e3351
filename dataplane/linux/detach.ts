/** Takes the links of an attachment away; what is gone already counts as taken away (C§4.7). */
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { ifReadable } from "../../lib/system/files.ts";
import { openNamespace } from "../../lib/system/netns.ts";
import { isAttachmentAlias, namesAttachment } from "../alias.ts";
import type { AttachedLink, LinkOfAttachment, Removal } from "../dataplane.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import { NetlinkError } from "../netlink/message.ts";
import type { Netlink } from "../netlink/socket.ts";
import { getLink, type Link, listLinks, namespaceIdOf } from "../rtnetlink/link.ts";
import { deleteHostLink, type JoinedDeletions } from "./deletions.ts";
import { isDeviceKind, isUnfinished, mayReplace } from "./ends.ts";

/**
 * Deletes the host end of an attachment, and with it the pod end: the kernel never leaves one of the two (drivers/net/veth.c,
 * veth_dellink; drivers/net/netkit.c, netkit_del_link). The sandbox is not entered, so nothing there can be mistaken for the pod end:
 * neither another pod's interface, where the path of a DEL leads to a reused process, nor one of the same name that somebody else made
 * (design, invariants 7 and 11).
 * @throws TortieError `link-delete-timeout`, `link-failed`; what `isRecorded` throws
 */
export async function detach({ route }: HostSockets, link: LinkOfAttachment, deletions?: JoinedDeletions): Promise<Removal> {
  const host = findHostEnd(route, link);
  if (host === undefined) return {};
  const { alias } = host;
  if (!isUnfinishedIn(route, host, link.netns) && !(await isProven(host, link))) return { keptFor: alias };
  await deleteProven(route, host, (found) => found.alias === alias, deletions);
  return {};
}

/** Deletes a link that `list` found, if it still is what it was. @throws TortieError `link-failed`, `link-delete-timeout` */
export async function detachFound(
  { route }: HostSockets,
  { index, owner, hostInterface: name }: AttachedLink,
  deletions?: JoinedDeletions,
): Promise<Removal> {
  const isRight = (link: Link) => (owner === undefined ? isUnfinished(link) : namesAttachment(link.alias, owner));
  await deleteProven(route, { index, name }, isRight, deletions);
  return {};
}

/**
 * Looks for the link that names the attachment: under its own name first, then among all links of the host, since a DEL may lack the
 * arguments of which the name is made, and somebody may have renamed the link.
 * @returns otherwise the link that has the name, whosever it is
 */
function findHostEnd(route: Netlink, { hostInterface: name, owner }: LinkOfAttachment): Link | undefined {
  const named = name === "" ? undefined : getLink(route, { name });
  const isOwn = ({ alias }: Link) => namesAttachment(alias, owner);
  return named !== undefined && isOwn(named) ? named : (listLinks(route).find(isOwn) ?? named);
}

/** Tells whether a killed ADD got no further than to make this link, and its other end is in the sandbox of the DEL. */
function isUnfinishedIn(route: Netlink, host: Link, netns = ""): boolean {
  if (netns === "" || host.peer === undefined || !isUnfinished(host)) return false;
  const id = ifReadable(() => {
    using namespace = openNamespace(netns);
    return namespaceIdOf(route, namespace.fd);
  });
  return id !== undefined && id === host.peer.namespaceId;
}

async function isProven({ alias, kind }: Link, { owner, predecessors, isRecorded }: LinkOfAttachment): Promise<boolean> {
  if (!isDeviceKind(kind)) return false;
  if (namesAttachment(alias, owner)) return true;
  if (predecessors !== undefined) return mayReplace(alias, { owner, predecessors });
  return !isAttachmentAlias(alias) && (await isRecorded?.()) === true;
}

/** Deletes a link of the host if it is the right one: what was found a moment ago may have changed. */
async function deleteProven(
  route: Netlink,
  { index, name }: Pick<Link, "index" | "name">,
  isRight: (link: Link) => boolean,
  deletions: JoinedDeletions | undefined,
): Promise<void> {
  try {
    if (deletions !== undefined) return void (await deletions.delete({ index, name }, isRight));
    const link = getLink(route, { index });
    if (link !== undefined && isRight(link)) await deleteHostLink(link);
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    throw new TortieError("link-failed", `failed to delete host interface ${name}: ${messageOf(error)}`, { cause: error });
  }
}
