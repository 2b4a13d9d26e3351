/** Takes the links of an attachment away; what is gone already counts as taken away (C§4.7). */
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { inNamespace, type OpenNamespace, openNamespace } from "../../lib/system/netns.ts";
import type { Attachment } from "../desired-state.ts";
import { NETLINK_ROUTE, NetlinkError, NetlinkSocket, RTMGRP_LINK } from "../netlink/socket.ts";
import { deleteHostLink, deleteLink } from "./delete-link.ts";
import { getLink } from "./link.ts";

/**
 * Deletes the link in the sandbox, whatever its type, and then the host end if it is still there and still of this attachment.
 * Both are tried, whatever happens to the first.
 * @param limitMs how long the kernel may take for the one in the sandbox
 * @throws TortieError `netns-invalid`, `link-delete-timeout`, `link-failed`
 */
export function detach(attachment: Attachment, limitMs?: number): void {
  try {
    if (attachment.sandbox !== "") deleteInSandbox(attachment.sandbox, attachment.podInterface, limitMs);
  } finally {
    if (attachment.hostInterface !== "") detachHostEnd(attachment.hostInterface, attachment.alias);
  }
}

/** Deletes a link of the host if its alias is still `alias`: the name alone may by now be another attachment's. */
export function detachHostEnd(name: string, alias: string): void {
  using socket = NetlinkSocket.open(NETLINK_ROUTE);
  const link = getLink(socket, { name });
  if (link === undefined || link.alias !== alias) return;
  try {
    deleteHostLink(socket, { index: link.index });
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    throw new TortieError("link-failed", `failed to delete host interface ${name}: ${messageOf(error)}`, { cause: error });
  }
}

function deleteInSandbox(sandbox: string, name: string, limitMs?: number): void {
  using namespace = open(sandbox);
  if (namespace === undefined) return;
  using sockets = enter(namespace);
  try {
    const limit = limitMs === undefined ? {} : { limitMs };
    deleteLink({ socket: sockets.request, monitor: sockets.monitor, where: `in netns ${sandbox}`, ...limit }, { name });
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    const message = `failed to clean up workload's pod interface inside netns: ${name} in ${sandbox}: ${messageOf(error)}`;
    throw new TortieError("link-failed", message, { cause: error });
  }
}

/** `undefined` when the sandbox is gone. */
function open(sandbox: string): OpenNamespace | undefined {
  try {
    return openNamespace(sandbox);
  } catch (error) {
    if (!(error instanceof TortieError)) throw error;
    if (error.word === "netns-missing") return undefined;
    throw new TortieError(error.word, `failed to enter netns: ${error.message}`, { cause: error });
  }
}

function enter(namespace: OpenNamespace): { request: NetlinkSocket; monitor: NetlinkSocket } & Disposable {
  return inNamespace(namespace, () => {
    const request = NetlinkSocket.open(NETLINK_ROUTE);
    const monitor = NetlinkSocket.open(NETLINK_ROUTE, RTMGRP_LINK);
    return {
      request,
      monitor,
      [Symbol.dispose]() {
        request[Symbol.dispose]();
        monitor[Symbol.dispose]();
      },
    };
  });
}
