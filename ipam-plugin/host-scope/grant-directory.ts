/**
 * Keeps the directory of one node's grant files, `<state>/ipam/v4/<address>` and `v6/<address>` (A§4.4), as the few system calls that the
 * allocator makes on it. The allocator's correctness rests on two of them: link(2) fails with EEXIST when the name is taken, and
 * rename(2) is made under the lock.
 */

import { linkSync, readdirSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import { type Family, formatAddress, parseAddress } from "../../lib/addresses/address.ts";
import { type AttachmentId, lineKey } from "../../lib/cni/attachment-id.ts";
import { type Fields, field, has, isNumber, isText, optional, parseObject, section } from "../../lib/json/decode.ts";
import { systemErrorCode } from "../../lib/system/errno.ts";
import { makeDirectories, readText } from "../../lib/system/files.ts";
import { takeNodeLock } from "../node-lock.ts";
import type { HostScopeFiles } from "./files.ts";

/** Offers steps, between which another process may come. */
export interface GrantDirectory {
  list(family: Family): Promise<readonly string[]>;
  /** @returns `undefined` when the file has gone */
  read(family: Family, name: string): Promise<string | undefined>;
  write(family: Family, name: string, text: string): Promise<void>;
  /** @returns whether `to` is now another name of `from`; `false` when the name is taken */
  link(family: Family, from: string, to: string): Promise<boolean>;
  /** Replaces `to`. @returns whether `from` was there */
  rename(family: Family, from: string, to: string): Promise<boolean>;
  /** Succeeds without such a file. */
  remove(family: Family, name: string): Promise<void>;
  /** Releases and confirmations of all processes of this node take turns; grants need no lock. */
  lock(): Promise<Disposable>;
  /** Makes a name that no other process has, for a file that is being written. */
  draftName(): string;
}

/** Holders make a handful of system calls, so a wait of this length means that one of them was stopped. */
const LOCK_LIMIT_MS = 20_000;
const DRAFT = ".new-";

/** Returns the time at which a draft was begun; `undefined` for any other file. */
export function draftTime(name: string): number | undefined {
  return name.startsWith(DRAFT) ? Number(name.slice(DRAFT.length).split("-")[0]) : undefined;
}

/** @param root `<state>/ipam`; made when the first grant is written */
export function openGrantDirectory(root: string): GrantDirectory {
  const folder = (family: Family) => `${root}/v${family}`;
  const path = (family: Family, name: string) => `${folder(family)}/${name}`;
  return {
    async list(family) {
      return unlessMissing(() => readdirSync(folder(family))) ?? [];
    },
    async read(family, name) {
      return unlessMissing(() => readText(path(family, name)));
    },
    async write(family, name, text) {
      const write = () => writeFileSync(path(family, name), text, { mode: 0o600, flag: "wx" });
      if (unlessMissing(() => [write()]) !== undefined) return;
      makeDirectories(folder(family), 0o700);
      write();
    },
    async link(family, from, to) {
      try {
        linkSync(path(family, from), path(family, to));
        return true;
      } catch (error) {
        if (systemErrorCode(error) === "EEXIST") return false;
        throw error;
      }
    },
    async rename(family, from, to) {
      return unlessMissing(() => [renameSync(path(family, from), path(family, to))]) !== undefined;
    },
    async remove(family, name) {
      unlessMissing(() => unlinkSync(path(family, name)));
    },
    lock: () => takeNodeLock(`${root}/lock`, { limitMs: LOCK_LIMIT_MS, log: SILENT }),
    draftName: () => `${DRAFT}${Date.now()}-${crypto.randomUUID()}`,
  };
}

/** Reads the grant of an address synchronously. @returns `undefined` when the address is not granted */
export function readGrant({ grants }: Pick<HostScopeFiles, "grants">, text: string): GrantFile | undefined {
  const address = parseAddress(text);
  if (address === undefined) return undefined;
  const found = unlessMissing(() => readText(`${grants}/v${address.family}/${formatAddress(address)}`));
  return found === undefined ? undefined : decodeGrant(found);
}

const SILENT = { writeNow: () => undefined };

/** Tries like that of lib/system, but a file in the place of the directory is an error. */
function unlessMissing<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (systemErrorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

export interface AttachmentOwner extends AttachmentId {
  readonly kind: "attachment";
  /** As `<namespace>/<name>`, where there is one. */
  readonly pod?: string;
}

/** Has a name: of a client of the REST API, or one of the node's own, `node/router`. */
export interface NamedOwner {
  readonly kind: "name";
  readonly name: string;
}

export type Owner = AttachmentOwner | NamedOwner;

/** Has what a grant file says (A§4.4): who holds the address, and the token that proves it. One line of JSON. */
export interface GrantFile {
  readonly owner: Owner;
  /** Whoever knows it may release the address (A§2.5). */
  readonly token: string;
  readonly grantedAtMs: number;
  /** Absent: the grant was confirmed, or was never meant to expire. */
  readonly expiresAtMs?: number;
  readonly endpoint?: number;
}

/** Tells whether two owners are the same one; a pod's name proves nothing (design, invariant 7). */
export function isSameOwner(one: Owner, other: Owner): boolean {
  return ownerKey(one) === ownerKey(other);
}

/** Writes the owner as one text, for messages and for comparing. */
export function ownerKey(owner: Owner): string {
  return owner.kind === "name" ? owner.name : lineKey(owner);
}

export function encodeGrant({ owner, token, grantedAtMs, expiresAtMs, endpoint }: GrantFile): string {
  const whose =
    owner.kind === "name"
      ? { owner: owner.name }
      : {
          attachment: { network: owner.network, "container-id": owner.containerId, ifname: owner.ifname },
          pod: owner.pod,
        };
  const line = {
    ...whose,
    "endpoint-id": endpoint,
    token,
    "granted-at": timestamp(grantedAtMs),
    "expires-at": expiresAtMs === undefined ? undefined : timestamp(expiresAtMs),
  };
  return `${JSON.stringify(line)}\n`;
}

/** @returns `undefined` for text that no version of ours has written: the address counts as granted, to an unknown owner */
export function decodeGrant(text: string): GrantFile | undefined {
  try {
    const found = parseObject(text);
    return {
      owner: ownerOf(found),
      token: field(found, "token", isText),
      grantedAtMs: timeOf(found, "granted-at"),
      expiresAtMs: has(found, "expires-at") ? timeOf(found, "expires-at") : undefined,
      endpoint: optional(found, "endpoint-id", isNumber)["endpoint-id"],
    };
  } catch {
    return undefined;
  }
}

function ownerOf(found: Fields): Owner {
  if (!has(found, "attachment")) return { kind: "name", name: field(found, "owner", isText) };
  const attachment = section(found, "attachment");
  return {
    kind: "attachment",
    network: field(attachment, "network", isText),
    containerId: field(attachment, "container-id", isText),
    ifname: field(attachment, "ifname", isText),
    ...optional(found, "pod", isText),
  };
}

function timestamp(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

function timeOf(found: Fields, name: string): number {
  const time = Date.parse(field(found, name, isText));
  if (Number.isNaN(time)) throw new Error(`${name} is no time`);
  return time;
}
