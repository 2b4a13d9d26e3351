/** Decides who may do what over the API (A§2.1): root may do everything, members of the socket's group may read, all others nothing. */
import { readText } from "../../lib/system/files.ts";
import type { Peer } from "./socket.ts";

export type Access = "everything" | "read" | "nothing";

/** @param group of the socket; `undefined` where this machine has no such group */
export function accessOf(peer: Pick<Peer, "uid" | "gid" | "groups">, group: number | undefined): Access {
  if (peer.uid === 0) return "everything";
  if (group !== undefined && (peer.gid === group || peer.groups.includes(group))) return "read";
  return "nothing";
}

/** @param isRead the operation changes nothing and is not a plugin's call */
export function mayCall(access: Access, isRead: boolean): boolean {
  return access === "everything" || (access === "read" && isRead);
}

/** The number of a group, from /etc/group (group(5)). @returns `undefined` when there is none of that name */
export function groupNumber(name: string, file = "/etc/group"): number | undefined {
  let text: string;
  try {
    text = readText(file);
  } catch {
    return undefined;
  }
  const fields = text.split("\n").map((line) => line.split(":"));
  const number = fields.find(([group]) => group === name)?.[2];
  return number !== undefined && /^\d+$/.test(number) ? Number(number) : undefined;
}
