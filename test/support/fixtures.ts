/**
 * Makes what tests share in hooks, and gives it to them as a plain constant: `const cluster = shared(startCluster)`, `const node =
 * fresh(Node.create)`. The constant can be used in tests and hooks, and in what later fixtures are made of. What was made last ends first.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** What is there now and ends by itself, in the order in which it was made. */
const made: object[] = [];

/** One for all tests of the file, or of the `describe` that it stands in. */
export function shared<T extends object>(make: () => T | Promise<T>): T {
  return fixture(make, beforeAll, afterAll);
}

/** Another one for each test. */
export function fresh<T extends object>(make: () => T | Promise<T>): T {
  return fixture(make, beforeEach, afterEach);
}

/** Ends with the fixture before it: what only some tests make, or more than once. */
export function ending<T extends AsyncDisposable | Disposable>(value: T): T {
  if (made.length === 0) throw new Error("nothing ends this: no fixture is there");
  made.push(value);
  return value;
}

/** A directory of its own with all that is in it. */
export class TemporaryDirectory implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), "tortie-test-"));

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

type Hook = (action: () => Promise<void>) => void;

function fixture<T extends object>(make: () => T | Promise<T>, before: Hook, after: Hook): T {
  let value: T | undefined;
  let place = 0;
  before(async () => {
    value = undefined;
    place = made.length;
    value = await make();
    made.push(value);
  });
  // Jest calls the first hook first, and this one ends all that came after its fixture too; the others find nothing to do.
  after(async () => {
    await using stack = new AsyncDisposableStack();
    for (const one of made.splice(place)) stack.defer(() => endOf(one));
  });
  const present = (): T => {
    if (value === undefined) throw new Error("a fixture is there in tests and hooks only");
    return value;
  };
  return new Proxy<T>(Object.create(null), {
    get(_, key) {
      const target = present();
      const member: unknown = Reflect.get(target, key);
      // Methods reach private members, which a proxy does not have.
      return typeof member === "function" ? member.bind(target) : member;
    },
    set: (_, key, member) => Reflect.set(present(), key, member),
    has: (_, key) => Reflect.has(present(), key),
    deleteProperty: (_, key) => Reflect.deleteProperty(present(), key),
    defineProperty: (_, key, descriptor) => Reflect.defineProperty(present(), key, descriptor),
    ownKeys: () => Reflect.ownKeys(present()),
    getOwnPropertyDescriptor(_, key) {
      const descriptor = Reflect.getOwnPropertyDescriptor(present(), key);
      return descriptor === undefined ? undefined : { ...descriptor, configurable: true };
    },
    getPrototypeOf: () => Reflect.getPrototypeOf(present()),
  });
}

async function endOf(value: object): Promise<void> {
  if (Symbol.asyncDispose in value) await (value as AsyncDisposable)[Symbol.asyncDispose]();
  else if (Symbol.dispose in value) (value as Disposable)[Symbol.dispose]();
}
