/**
 * What a change between two calls does to the stored objects, where a recording says it in words only. A change that nobody can make
 * is an error: what is not played must not be called equal.
 */
import type { StoredObject } from "./stored-object.ts";

export interface ObjectChange {
  readonly put: readonly StoredObject[];
  readonly remove: readonly { readonly kind: string; readonly name: string }[];
}

interface Sentence {
  readonly words: RegExp;
  /** @param named an object by what recordings call it; `undefined`: it was not there */
  change(named: (called: string) => StoredObject | undefined, found: RegExpExecArray): ObjectChange;
}

/** How recordings call an object → its kind and name. */
const OBJECTS: Readonly<Record<string, { readonly kind: string; readonly name: string }>> = {
  "the pod": { kind: "Pod", name: "shop/virt-launcher-src" },
  VM: { kind: "VirtualMachine", name: "shop/vm1" },
  "the VM": { kind: "VirtualMachine", name: "shop/vm1" },
  VMI: { kind: "VirtualMachineInstance", name: "shop/vm1" },
  "the VMI": { kind: "VirtualMachineInstance", name: "shop/vm1" },
  p4: { kind: "IPPool", name: "p4" },
};

const SENTENCES: readonly Sentence[] = [
  { words: /^delete (.+)$/, change: (named, [, called = ""]) => ({ put: [], remove: present(named(called)) }) },
  // Their finalizers keep them.
  {
    words: /^(VM|VMI|VM and VMI) gets? a deletionTimestamp$/,
    change: (named, [, called = ""]) => ({ put: called.split(" and ").flatMap((each) => present(named(each)).map(deleted)), remove: [] }),
  },
  {
    words: /^p4 for zone (\w+)$/,
    change: (named, [, zone]) => ({
      put: present(named("p4")).map((pool) => withSpec(pool, { nodeSelector: `zone == '${zone}'` })),
      remove: [],
    }),
  },
  {
    words: /^disable p4, add p5$/,
    change: (named) => ({
      put: present(named("p4")).flatMap((pool) => [
        withSpec(pool, { disabled: true }),
        { ...withSpec(pool, { cidr: "10.50.0.0/24" }), name: "p5" },
      ]),
      remove: [],
    }),
  },
];

/**
 * @param objects what was there before the calls
 * @throws Error when the words are not known, or change nothing
 */
export function changeInWords(words: string, objects: readonly StoredObject[]): ObjectChange {
  const named = (called: string) => objects.find(({ kind, name }) => kind === OBJECTS[called]?.kind && name === OBJECTS[called].name);
  for (const sentence of SENTENCES) {
    const found = sentence.words.exec(words);
    if (found === null) continue;
    const change = sentence.change(named, found);
    if (change.put.length + change.remove.length > 0) return change;
  }
  throw new Error(`the replayer cannot make the change "${words}" (recording/change-in-words.ts)`);
}

function present(object: StoredObject | undefined): StoredObject[] {
  return object === undefined ? [] : [object];
}

function deleted(object: StoredObject): StoredObject {
  return { ...object, deleting: true };
}

function withSpec(object: StoredObject, spec: StoredObject["spec"]): StoredObject {
  return { ...object, spec: { ...object.spec, ...spec } };
}
