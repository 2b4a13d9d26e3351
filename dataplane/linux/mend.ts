/**
 * Makes the host end of an attachment whole again where something was taken from it: by hand, by another daemon, by a flushed table.
 *
 * Only what differs is touched, and only on a host end that is provably this attachment's: by its alias, or by its index where the
 * alias was cleared (design, invariants 7, 11 and 16). The pod end is looked for and never changed: what a container, a chained plugin
 * or a VPN client did there is its own business.
 */

import type { Sandbox } from "../../lib/system/sandbox.ts";
import { attachmentAlias, namesAttachment } from "../alias.ts";
import type { Mending, RecordedPair } from "../dataplane.ts";
import type { Difference } from "../desired-state.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import type { Netlink } from "../netlink/socket.ts";
import { getLink, type Link, setLinkAlias, setLinkMac } from "../rtnetlink/link.ts";
import { bringUp, completeHostEnd } from "./attach.ts";
import { inspectHostEnd } from "./inspect.ts";
import { isDeviceKind } from "./ownership.ts";
import { openSite, type Site } from "./site.ts";
import { differingSysctls, readSysctl, writeSysctls } from "./sysctl.ts";

export function drift(sockets: HostSockets, sandbox: Sandbox, recorded: RecordedPair): Difference[] {
  using site = openSite(sockets, sandbox);
  return driftAt(site, recorded);
}

/** @returns what differed and does no longer, and what still does */
export function mend(sockets: HostSockets, sandbox: Sandbox, recorded: RecordedPair): Mending {
  using site = openSite(sockets, sandbox);
  const found = driftAt(site, recorded);
  const link = found.length === 0 ? undefined : provenHostEnd(site, recorded);
  if (link === undefined) return { mended: [], left: found };
  const { host } = recorded.desired;
  if (link.alias === "") setLinkAlias(site.hostSocket, link.index, attachmentAlias(host.owner));
  if (link.mac !== host.mac) setLinkMac(site.hostSocket, link.index, host.mac);
  writeSysctls(differingSysctls(host.sysctls));
  bringUp(site.hostSocket, link);
  completeHostEnd(site.hostSocket, link, host);
  const left = driftAt(site, recorded);
  return { mended: found.filter((one) => !left.some(({ object }) => object === one.object)), left };
}

function driftAt({ hostSocket, podSocket }: Site, { desired }: RecordedPair): Difference[] {
  const { host, pod } = desired;
  const link = getLink(hostSocket, { name: host.name });
  const lacksPod = getLink(podSocket, { name: pod.name }) === undefined;
  const podSide: Difference[] = lacksPod ? [{ side: "pod", object: `link ${pod.name}`, wanted: "present", found: "missing" }] : [];
  const hostSide = inspectHostEnd(hostSocket, desired);
  if (link === undefined) return [...hostSide, ...podSide];
  return [...hostSide, ...clearedAlias(link, desired), ...sysctlDifferences(desired), ...podSide];
}

/** CHECK takes a link without an owner for one that Calico's plugin made; a recorded one was made with its owner's name. */
function clearedAlias({ name, alias }: Link, { host }: RecordedPair["desired"]): Difference[] {
  return alias === "" ? [{ side: "host", object: `link ${name} alias`, wanted: attachmentAlias(host.owner), found: "" }] : [];
}

/** A setting that this kernel does not have, and that is not required, is no difference. */
function sysctlDifferences({ host }: RecordedPair["desired"]): Difference[] {
  return differingSysctls(host.sysctls).flatMap(({ path, value, required }): Difference[] => {
    const found = readSysctl(path);
    if (found === undefined && !required) return [];
    return [{ side: "host", object: `setting ${path}`, wanted: value, found: found ?? "missing" }];
  });
}

/**
 * The host end, where it is this attachment's and its other end is in the sandbox. A pair is gone as a whole: where only one end is
 * found, somebody has moved or renamed the other.
 */
function provenHostEnd(site: Site, { desired: { host, pod }, hostIndex }: RecordedPair): Link | undefined {
  const link = getLink(site.hostSocket, { name: host.name });
  if (link === undefined || !isDeviceKind(link.kind) || !hasPodEnd(site.podSocket, pod.name)) return undefined;
  const isOwn = link.alias === "" ? link.index === hostIndex : namesAttachment(link.alias, host.owner);
  return isOwn ? link : undefined;
}

function hasPodEnd(socket: Netlink, name: string): boolean {
  return getLink(socket, { name }) !== undefined;
}
