/** Converts TortieIdentity, the object of an identity, whose name is the identity's number (P§1.13). */
import { type Fields, type Readers, readAll, section, text, textList } from "../json/decode.ts";
import { metadataOf } from "../kubernetes/objects.ts";
import type { Selection } from "../kubernetes/watch/kubernetes-feed.ts";
import type { LabelSet } from "./labels.ts";
import { rankOf } from "./numbers.ts";

const API_VERSION = "tortie.dev/v1alpha1";
const KIND = "TortieIdentity";
export const IDENTITY_PLURAL = "tortieidentities";
export const IDENTITY_PATH = `/apis/${API_VERSION}/${IDENTITY_PLURAL}`;

/** `retired`: nobody uses it, and it goes when that lasts a day. */
export type IdentityState = "active" | "retired";

/** An identity as it is written, wherever that is. */
export interface IdentityRecord extends LabelSet {
  readonly number: number;
  readonly state: IdentityState;
  /** RFC 3339; empty while it is active. */
  readonly retiredAt: string;
  readonly createdBy: string;
  /** RFC 3339. */
  readonly createdAt: string;
  /** The node that collects it, where nodes do: the one that created it, or revived it last. Empty where a cluster's controller does. */
  readonly keeper: string;
}

export interface StoredIdentity extends IdentityRecord {
  /** Of its object; empty where there is no object. */
  readonly uid: string;
  readonly resourceVersion: string;
}

/** The port to where identities are. A writer that is beaten is told so, and looks again when the watch shows what is there. */
export interface IdentityStore {
  /** Creates it as active. @returns whether the number was free */
  create(number: number, set: LabelSet): Promise<boolean>;
  get(number: number): Promise<StoredIdentity | undefined>;
  /** Retires it as of that time, or revives it. @returns false when it has changed since it was read, or is gone */
  setState(identity: StoredIdentity, retiredAt: string | undefined): Promise<boolean>;
  /** @returns false when it has changed since it was read, or is gone */
  delete(identity: StoredIdentity): Promise<boolean>;
}

/** Members of an identity wherever it is kept. A later version may give `state` other values. */
export const IDENTITY_MEMBERS: Readers<Omit<IdentityRecord, "number" | "keeper">> = {
  key: text,
  labels: textList,
  state: (stored, name) => (text(stored, name) === "retired" ? "retired" : "active"),
  retiredAt: text,
  createdBy: text,
  createdAt: text,
};

export const IDENTITIES: Selection<StoredIdentity> = { name: IDENTITY_PLURAL, path: IDENTITY_PATH, decode: decodeIdentity };

/** @throws Error where the name is no number, or a field is of the wrong type */
export function decodeIdentity(object: Fields): StoredIdentity {
  const { name, uid, resourceVersion } = metadataOf(object);
  return { number: numberOf(name), ...readAll(IDENTITY_MEMBERS, section(object, "spec")), keeper: "", uid, resourceVersion };
}

/** Reads the name of an identity. @throws Error where it is no number */
export function numberOf(name: string): number {
  if (!/^[1-9][0-9]{0,9}$/.test(name)) throw new Error(`the name ${JSON.stringify(name)} is no number`);
  return Number(name);
}

/** Makes the object to be created. */
export function newIdentity(number: number, { key, labels }: LabelSet, createdBy: string, createdAt: string): Fields {
  return {
    apiVersion: API_VERSION,
    kind: KIND,
    metadata: { name: String(number) },
    spec: { key, labels, state: "active", createdBy, createdAt },
  };
}

/** Makes the merge patch that retires the identity, or revives it. It fails when the object has changed since it was read. */
export function statePatch({ resourceVersion }: StoredIdentity, retiredAt: string | undefined): Fields {
  const state: IdentityState = retiredAt === undefined ? "active" : "retired";
  return { metadata: { resourceVersion }, spec: { state, retiredAt: retiredAt ?? null } };
}

/** Finds identities by their sets of labels. Where a set has several, everybody must choose the same one. */
export class IdentityIndex {
  readonly #byKey = new Map<string, StoredIdentity>();
  readonly #byNumber = new Map<number, StoredIdentity>();
  /** Numbers that stand for a set of labels which another number stands for, with that number. */
  readonly duplicates: ReadonlyMap<number, number>;

  constructor(identities: Iterable<StoredIdentity>) {
    const doubled: StoredIdentity[] = [];
    for (const identity of identities) {
      this.#byNumber.set(identity.number, identity);
      const other = this.#byKey.get(identity.key);
      if (other !== undefined) doubled.push(identity, other);
      if (other === undefined || precedes(identity, other)) this.#byKey.set(identity.key, identity);
    }
    const beside = doubled.filter((one) => this.#byKey.get(one.key) !== one);
    this.duplicates = new Map(beside.map(({ key, number }) => [number, this.#byKey.get(key)?.number ?? number]));
  }

  /** Finds the identity of a set: an active one before a retired one, and then the one that is probed first. */
  of(key: string): StoredIdentity | undefined {
    return this.#byKey.get(key);
  }

  get(number: number): StoredIdentity | undefined {
    return this.#byNumber.get(number);
  }
}

function precedes(one: StoredIdentity, other: StoredIdentity): boolean {
  if (one.state !== other.state) return one.state === "active";
  const [rank, otherRank] = [rankOf(one.key, one.number), rankOf(other.key, other.number)];
  return rank === otherRank ? one.number < other.number : rank < otherRank;
}
