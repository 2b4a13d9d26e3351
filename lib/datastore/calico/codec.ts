/**
 * Describes one kind of custom resource: its names on the wire, its spec to a value of the model and back, and the two groups that Calico's
 * resources come in (I§2.1).
 */
import { cidrKey } from "../../addresses/address.ts";
import type { Environment } from "../../cni/protocol.ts";
import type { NetworkConfig } from "../../config/decode.ts";
import { messageOf } from "../../errors/errors.ts";
import { type Fields, isObject, objects, parseObject, section, text } from "../../json/decode.ts";
import type { ApiClient } from "../../kubernetes/api-client.ts";
import { type Metadata, metadataOf } from "../../kubernetes/objects.ts";
import { sha256 } from "../../system/hash.ts";
import { isSubdomain } from "../../system/subdomain.ts";
import type { AffinityKey } from "../datastore.ts";
import { DatastoreError } from "../errors.ts";

/** The two groups of Calico's custom resources; a cluster has one of them. */
export const LEGACY_GROUP = "crd.projectcalico.org/v1";
export const V3_GROUP = "projectcalico.org/v3";

/** `apiVersion` of the objects. */
export type ApiGroup = typeof LEGACY_GROUP | typeof V3_GROUP;

/** @returns `undefined` when nothing says which group: the server must be asked */
export function configuredGroup(config: Pick<NetworkConfig, "calicoApiGroup">, env: Environment): ApiGroup | undefined {
  const setting = env.CALICO_CALICO_API_GROUP || config.calicoApiGroup || env.CALICO_API_GROUP || "";
  if (setting === "") return undefined;
  return setting.toLowerCase() === V3_GROUP ? V3_GROUP : LEGACY_GROUP;
}

/** Asks the server once: v3 only where it has no legacy group, and legacy whenever it cannot tell. */
export async function discoverGroup(client: Pick<ApiClient, "request">): Promise<ApiGroup> {
  try {
    return (await servedGroup(client)) ?? LEGACY_GROUP;
  } catch {
    // A server that really cannot be reached shows at the next request.
    return LEGACY_GROUP;
  }
}

/** @returns the legacy group before v3; `undefined` when the server has neither @throws ApiError; Error for an answer that is not a list */
export async function servedGroup(client: Pick<ApiClient, "request">): Promise<ApiGroup | undefined> {
  const served = objects(parseObject(await client.request({ method: "GET", path: "/apis" })), "groups");
  const names = new Set(served.map((group) => text(group, "name")));
  return ([LEGACY_GROUP, V3_GROUP] as const).find((group) => names.has(groupName(group)));
}

function groupName(group: ApiGroup): string {
  return group.slice(0, group.indexOf("/"));
}

/** An object as it was read. */
export interface Resource {
  readonly metadata: Metadata;
  readonly spec: Fields;
  readonly status: Fields;
}

/** @throws Error naming the field of the metadata that is of the wrong type */
export function resourceOf(object: Fields): Resource {
  return { metadata: metadataOf(object), spec: section(object, "spec"), status: section(object, "status") };
}

/**
 * Tells whether another client has begun to delete the object (I§2.10). BlockAffinity has a text in one group and a boolean in the other
 * (I§2.1).
 */
export function isMarked(object: Fields): boolean {
  const { spec } = object;
  return isObject(spec) && (spec.deleted === true || spec.deleted === "true");
}

/** A spec to be written; members that are `undefined` are left out. */
export type Spec = Readonly<Record<string, unknown>>;

export interface Codec<K, T> {
  /** What messages call it: the kind, of the legacy group where they differ. */
  readonly title: string;
  /** `kind` of the objects, and the name of the collection in paths. */
  readonly kind: (group: ApiGroup) => string;
  readonly plural: (group: ApiGroup) => string;
  readonly nameOf: NameOf<K>;
  /** Text of an object or a list, before JSON.parse sees it. */
  readonly prepare?: (json: string) => string;
  /** @throws Error saying what is wrong with the object */
  readonly decode: (resource: Resource) => T;
  /** Looks at what `decode` leaves for later. @throws DatastoreError `invalid` */
  readonly verify?: (value: T) => void;
  /** What is strange about a value that is used all the same: a word of a newer Calico. */
  readonly oddityOf?: (value: T) => string | undefined;
  /** Members of the spec that the model knows; all others are kept as they are. */
  readonly members: ReadonlySet<string>;
  readonly encode: (value: T, group: ApiGroup) => Spec;
  /** Written with the object, beside those that it has. */
  readonly labels?: (value: T) => Readonly<Record<string, string>>;
  /** Further members of the spec of a new object. */
  readonly initial?: Spec;
}

/** Gives the same words in both groups. */
export function named(kind: string, plural: string): Pick<Codec<unknown, unknown>, "title" | "kind" | "plural"> {
  return { title: kind, kind: () => kind, plural: () => plural };
}

/** Gives what `decode` reads. @throws DatastoreError `invalid` when that is not what it should be */
export function decoded<T>(what: string, decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    throw damaged(what, error);
  }
}

/** Makes the error of an object that says what it should not. */
export function damaged(what: string, cause: unknown): DatastoreError {
  return cause instanceof DatastoreError ? cause : new DatastoreError("invalid", `${what} cannot be read: ${messageOf(cause)}`, cause);
}

// Names of Calico's IPAM objects in Kubernetes (I§2.2). The encoding is frozen: another one would not find what is stored.

/** From this length on a name is shortened and told apart by a digest (apimachinery allows 253). */
const TOO_LONG = 253;
const DIGEST_DIGITS = 11;

/** The key's name, or `undefined` when no object can have it. */
export type NameOf<K> = (key: K) => string | undefined;

export const nameOfObject: NameOf<string> = (name) => (isSubdomain(name) ? name : undefined);

export const nameOfBlock: NameOf<string> = (cidr) => nameOfObject(cidrKey(cidr));

/** The handle's id, which keeps its case in the object (I§2.5). */
export const nameOfHandle: NameOf<string> = (id) => nameOfObject(id.toLowerCase());

export const nameOfAffinity: NameOf<AffinityKey> = ({ owner, cidr }) => {
  const block = cidrKey(cidr);
  const name = `${owner.name}-${block}`;
  if (name.length < TOO_LONG) return nameOfObject(name);
  const digest = sha256(`${owner.name}+${block}`).slice(0, DIGEST_DIGITS);
  // 252, less the block's name and two separators with the digest.
  const host = owner.name.slice(0, TOO_LONG - 1 - block.length - DIGEST_DIGITS - 2);
  return nameOfObject(`${host}-${block}-${digest}`);
};
