/** What a grant file says: who holds the address, and the token that proves it (A§4.4). One line of JSON. */
import { type Fields, field, has, isNumber, isText, optional, parseObject, section } from "../../lib/json/decode.ts";

/** What CNI adds and deletes: (network, container id, interface name), and the pod as `<namespace>/<name>` where there is one. */
export interface AttachmentOwner {
  readonly kind: "attachment";
  readonly network: string;
  readonly containerId: string;
  readonly interfaceName: string;
  readonly pod?: string;
}

/** A name: of a client of the REST API, or one of the node's own, `node/router`. */
export interface NamedOwner {
  readonly kind: "name";
  readonly name: string;
}

export type Owner = AttachmentOwner | NamedOwner;

export interface Grant {
  readonly owner: Owner;
  /** Whoever knows it may release the address (A§2.5). */
  readonly token: string;
  readonly grantedAtMs: number;
  /** Absent: the grant was confirmed, or was never meant to expire. */
  readonly expiresAtMs?: number;
  readonly endpoint?: number;
}

/** Two owners are the same one; a pod's name proves nothing (design, invariant 7). */
export function isSameOwner(one: Owner, other: Owner): boolean {
  return ownerKey(one) === ownerKey(other);
}

/** The owner as one text, for messages and for comparing. */
export function ownerKey(owner: Owner): string {
  return owner.kind === "name" ? owner.name : `${owner.network}:${owner.containerId}:${owner.interfaceName}`;
}

export function encodeGrant({ owner, token, grantedAtMs, expiresAtMs, endpoint }: Grant): string {
  const whose =
    owner.kind === "name"
      ? { owner: owner.name }
      : {
          attachment: { network: owner.network, "container-id": owner.containerId, ifname: owner.interfaceName },
          ...(owner.pod === undefined ? {} : { pod: owner.pod }),
        };
  const line = {
    ...whose,
    ...(endpoint === undefined ? {} : { "endpoint-id": endpoint }),
    token,
    "granted-at": timestamp(grantedAtMs),
    ...(expiresAtMs === undefined ? {} : { "expires-at": timestamp(expiresAtMs) }),
  };
  return `${JSON.stringify(line)}\n`;
}

/** @returns `undefined` for text that no version of ours has written: the address counts as granted, to an unknown owner */
export function decodeGrant(text: string): Grant | undefined {
  try {
    const found = parseObject(text);
    const endpoint = optional(found, "endpoint-id", isNumber)["endpoint-id"];
    return {
      owner: ownerOf(found),
      token: field(found, "token", isText),
      grantedAtMs: timeOf(found, "granted-at"),
      ...(has(found, "expires-at") ? { expiresAtMs: timeOf(found, "expires-at") } : {}),
      ...(endpoint === undefined ? {} : { endpoint }),
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
    interfaceName: field(attachment, "ifname", isText),
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
