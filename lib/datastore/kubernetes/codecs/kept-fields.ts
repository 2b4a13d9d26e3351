/**
 * What an object has beyond the model, so that an update, which replaces the whole object, writes it back: labels, annotations and
 * finalizers of others, fields of newer or foreign schemas, a status without a sub-resource. (Calico drops them, I§2.1.)
 */
import { type Fields, has, section } from "../../../json/decode.ts";

export interface Kept {
  readonly metadata: Fields;
  readonly spec: Fields;
  /** Members of the object itself. */
  readonly others: Fields;
}

/** The rest of the metadata is the server's. */
const METADATA: ReadonlySet<string> = new Set(["annotations", "finalizers", "labels", "ownerReferences"]);
const OWN_MEMBERS: ReadonlySet<string> = new Set(["apiVersion", "kind", "metadata", "spec"]);

/** Objects whose fields are remembered, for each kind: more than one operation reads. Of a forgotten one they are read again. */
const MOST_REMEMBERED = 4096;

interface Noted {
  readonly revision: string;
  readonly kept: Kept;
}

/** The last state of each object that was read, by name; the one that was read longest ago is forgotten first. */
export class KeptFields {
  readonly #known: ReadonlySet<string>;
  readonly #metadata: ReadonlySet<string>;
  readonly #byName = new Map<string, Noted>();

  /** @param known members of the spec that the model has @param metadata members of the metadata that are kept */
  constructor(known: ReadonlySet<string>, metadata: ReadonlySet<string> = METADATA) {
    this.#known = known;
    this.#metadata = metadata;
  }

  note(name: string, revision: string, object: Fields): void {
    const kept = {
      metadata: pick(section(object, "metadata"), (member) => this.#metadata.has(member)),
      spec: pick(section(object, "spec"), (member) => !this.#known.has(member)),
      others: pick(object, (member) => !OWN_MEMBERS.has(member)),
    };
    // A map keeps the order of insertion.
    this.#byName.delete(name);
    this.#byName.set(name, { revision, kept });
    const [oldest] = this.#byName.keys();
    if (this.#byName.size > MOST_REMEMBERED && oldest !== undefined) this.#byName.delete(oldest);
  }

  /** What the object had at that revision; `undefined` when that is not remembered. */
  at(name: string, revision: string): Kept | undefined {
    const noted = this.#byName.get(name);
    return noted?.revision === revision ? noted.kept : undefined;
  }
}

function pick(fields: Fields, isWanted: (member: string) => boolean): Fields {
  const picked: Record<string, unknown> = {};
  for (const member of Object.keys(fields)) {
    if (isWanted(member) && has(fields, member)) picked[member] = fields[member];
  }
  return picked;
}
