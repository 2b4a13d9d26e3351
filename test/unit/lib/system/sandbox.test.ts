/** What proves a sandbox. The only namespace that a unit test has is its own, which is also the one that must be refused. */
import { closeSync, openSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, type SeenSandbox, seenOf, withCookie } from "../../../../lib/system/sandbox.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const OWN = "/proc/self/ns/net";
const INSISTING = { allowsOwn: true };

const directory = fresh(() => new TemporaryDirectory());

function seen(path: string, changes: Partial<SeenSandbox> = {}): SeenSandbox {
  const { dev, ino } = statSync(path);
  return { path, dev: String(dev), ino: String(ino), ...changes };
}

const word = (name: string) => expect.objectContaining({ word: name });

describe("A sandbox", () => {
  it("is had by a path, or by a path that leads to what was seen there", () => {
    using named = Sandbox.named(OWN, INSISTING);
    using again = Sandbox.seen(seenOf(named), INSISTING);
    expect(again.identity).toBe(named.identity);
    expect(seenOf(named)).toMatchObject(seen(OWN));
  });

  it("G2: is never this process's own namespace, unless the caller insists", () => {
    expect(() => Sandbox.named(OWN)).toThrow(word("netns-own"));
    expect(() => Sandbox.seen(seen(OWN))).toThrow(word("netns-own"));
    const fd = openSync(OWN, "r");
    expect(() => Sandbox.heldBy(process.pid, fd, seen(OWN))).toThrow(word("netns-own"));
    closeSync(fd);
  });

  it("G2: is not had where the path leads to another one, to nothing, or to something else, nor where nobody saw which it was", () => {
    const file = join(directory.path, "file");
    writeFileSync(file, "");
    expect(() => Sandbox.seen(seen(OWN, { ino: "1" }), INSISTING)).toThrow(word("netns-changed"));
    expect(() => Sandbox.seen(seen(OWN, { path: join(directory.path, "missing") }), INSISTING)).toThrow(word("netns-missing"));
    expect(() => Sandbox.seen(seen(file), INSISTING)).toThrow(word("netns-invalid"));
    expect(() => Sandbox.seen({ path: OWN }, INSISTING)).toThrow(word("netns-unproven"));
  });

  it("G8: is not had where device and inode are those of another one that is gone, which the cookie tells", () => {
    using named = Sandbox.named(OWN, INSISTING);
    expect(() => Sandbox.seen(seen(OWN, { cookie: "1" }), INSISTING)).toThrow(word("netns-changed"));
    expect(named.is(seen(OWN, { cookie: "1" }))).toBe(false);
    // Written down by a version that did not know cookies.
    expect(named.is(seen(OWN))).toBe(true);
    expect(withCookie(seen(OWN))).toEqual(seenOf(named));
    expect(withCookie(seen(OWN, { ino: "1" }))).toEqual(seen(OWN, { ino: "1" }));
  });

  it("is another one, not this process's own, where a path that led elsewhere leads here now", () => {
    expect(() => Sandbox.seen(seen(OWN, { ino: "1" }))).toThrow(word("netns-changed"));
  });

  it("G1: keeps the path of the request where it is reached by a descriptor of its caller, which has to be that very namespace", () => {
    const [fd, other] = [openSync(OWN, "r"), openSync("/proc/self/ns/mnt", "r")];
    try {
      using held = Sandbox.heldBy(process.pid, fd, seen(OWN, { path: "/run/netns/elsewhere" }), INSISTING);
      expect(held).toMatchObject({ path: "/run/netns/elsewhere", isAtPath: false });
      expect(Sandbox.heldBy(process.pid, other, seen(OWN), INSISTING)).toBeUndefined();
      expect(Sandbox.heldBy(process.pid, 9999, seen(OWN), INSISTING)).toBeUndefined();
    } finally {
      closeSync(fd);
      closeSync(other);
    }
  });

  it("has no descriptor any more when it is closed, whatever has its number by then; what was lent of it neither", () => {
    const sandbox = Sandbox.named(OWN, INSISTING);
    const lent = sandbox.borrowed();
    lent[Symbol.dispose]();
    expect(sandbox.fd).toEqual(expect.any(Number));
    sandbox[Symbol.dispose]();
    sandbox[Symbol.dispose]();
    expect(() => sandbox.fd).toThrow("is closed");
    expect(() => lent.fd).toThrow("is closed");
  });
});
