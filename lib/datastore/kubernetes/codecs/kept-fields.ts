/**
 * What an object has beyond the model, so that an update, which replaces the whole object, writes it back: labels, annotations and
 * finalizers of others, fields of newer or foreign schemas, a status without a sub-resource. (Calico drops them, I§2.1.)
 */
import { type Fields, has, section } from "../core/metadata.ts";

export interface Kept {
  readonly metadata: Fields;
  readonly spec: Fields;
  /** Members of the object itself. */
  readonly others: Fields;
}

/** The rest of the metadata is the server's. */
const METADATA = ["annotations", "finalizers", "labels", "ownerReferences"];
const OWN_MEMBERS: ReadonlySet<string> = new Set(["apiVersion", "kind", "metadata", "spec"]);

interface Noted {
  readonly revision: string;
  readonly object: Fields;
}

/** The objects that this process has read. Most are never written, so that nothing is picked out of them before that. */
export class KeptFields {
  readonly #byName = new Map<string, Noted>();

  note(name: string, revision: string, object: Fields): void {
    this.#byName.set(name, { revision, object });
  }

  /** What the object had at that revision. @param known members of the spec that the model has */
  at(name: string, revision: string, known: ReadonlySet<string>): Kept {
    const noted = this.#byName.get(name);
    if (noted?.revision !== revision) return { metadata: {}, spec: {}, others: {} };
    const { object } = noted;
    return {
      metadata: pick(section(object, "metadata"), (member) => METADATA.includes(member)),
      spec: pick(section(object, "spec"), (member) => !known.has(member)),
      others: pick(object, (member) => !OWN_MEMBERS.has(member)),
    };
  }
}

function pick(fields: Fields, isWanted: (member: string) => boolean): Fields {
  const picked: Record<string, unknown> = {};
  for (const member of Object.keys(fields)) {
    if (isWanted(member) && has(fields, member)) picked[member] = fields[member];
  }
  return picked;
}
