/**
 * What an object has beyond the model, so that an update, which replaces the whole object, writes it back: labels, annotations and
 * finalizers of others, fields of newer or foreign schemas, a status without a sub-resource. (Calico drops them, I§2.1.)
 */
import { type Fields, has, section } from "../../kubernetes/core/metadata.ts";

export interface Kept {
  readonly revision: string;
  readonly metadata: Fields;
  readonly spec: Fields;
  /** Members of the object itself. */
  readonly others: Fields;
}

/** The rest of the metadata is the server's. */
const METADATA = ["annotations", "finalizers", "labels", "ownerReferences"];
const OWN_MEMBERS: ReadonlySet<string> = new Set(["apiVersion", "kind", "metadata", "spec"]);

/** The objects that this process has read, as far as there is anything to keep of them. */
export class KeptFields {
  readonly #byName = new Map<string, Kept>();

  /** @param known members of the spec that the model has */
  note(name: string, revision: string, object: Fields, known: ReadonlySet<string>): void {
    const kept = {
      revision,
      metadata: pick(section(object, "metadata"), (member) => METADATA.includes(member)),
      spec: pick(section(object, "spec"), (member) => !known.has(member)),
      others: pick(object, (member) => !OWN_MEMBERS.has(member)),
    };
    if ([kept.metadata, kept.spec, kept.others].every((fields) => Object.keys(fields).length === 0)) this.#byName.delete(name);
    else this.#byName.set(name, kept);
  }

  /** What the object had at that revision. */
  at(name: string, revision: string): Omit<Kept, "revision"> {
    const kept = this.#byName.get(name);
    return kept?.revision === revision ? kept : { metadata: {}, spec: {}, others: {} };
  }
}

function pick(fields: Fields, isWanted: (member: string) => boolean): Fields {
  const picked: Record<string, unknown> = {};
  for (const member of Object.keys(fields)) {
    if (isWanted(member) && has(fields, member)) picked[member] = fields[member];
  }
  return picked;
}
