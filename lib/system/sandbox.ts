/**
 * Opens and proves the network namespace of a container (design, invariant 16).
 *
 * Whatever changes or deletes something in a sandbox takes a `Sandbox`, and only this file makes one. A path proves nothing by itself:
 * it may have been used again by another container, or lead into the host. Device and inode tell namespaces apart that exist at one time,
 * and the open descriptor keeps both from being used again while the `Sandbox` exists; the cookie tells it from those before and after.
 */
import { TortieError } from "../errors/errors.ts";
import { closeFile, ifReadable, statusIfSeen, statusOfOpen } from "./files.ts";
import { isOwnIdentity, netnsCookie, type OpenNamespace, OWN_REFUSED, openNamespace } from "./netns.ts";

/** A sandbox as somebody saw it earlier. */
export interface SeenSandbox {
  readonly path: string;
  /** Device and inode, in decimal; absent when nobody could look. */
  readonly dev?: string;
  readonly ino?: string;
  /** As `netnsCookie` tells it; absent from what a caller saw, who holds the sandbox open, and on kernels before 5.14. */
  readonly cookie?: string;
}

export interface SandboxOptions {
  /** The caller insists on a sandbox that is this process's own namespace (CNI_NETNS_OVERRIDE). */
  readonly allowsOwn?: boolean;
}

/** The descriptor, which a sandbox shares with those that it lends. */
interface Descriptor {
  readonly fd: number;
  isOpen: boolean;
  /** Known once somebody has asked. */
  cookie?: string | undefined;
  readonly close: () => void;
}

export class Sandbox implements OpenNamespace {
  /** As the runtime names it. */
  readonly path: string;
  /** Device and inode as one text. */
  readonly identity: string;
  /** Whether the path leads to it in this process's view of the file system. */
  readonly isAtPath: boolean;
  readonly #descriptor: Descriptor;
  readonly #isLent: boolean;

  private constructor(path: string, descriptor: Descriptor, isAtPath: boolean, isLent = false) {
    this.path = path;
    this.identity = statusOfOpen(descriptor.fd).identity;
    this.isAtPath = isAtPath;
    this.#descriptor = descriptor;
    this.#isLent = isLent;
  }

  /**
   * A number is used again as soon as it is closed: work that goes on behind the end of its sandbox must not enter whatever has it then.
   * @throws Error after the sandbox was closed
   */
  get fd(): number {
    if (!this.#descriptor.isOpen) throw new Error(`the sandbox ${this.path} is closed: nothing more is done in it`);
    return this.#descriptor.fd;
  }

  /** `undefined` where the kernel does not tell it, or does not let anybody in. Costs a visit when it is asked for first. */
  get cookie(): string | undefined {
    this.#descriptor.cookie ??= netnsCookie(this);
    return this.#descriptor.cookie;
  }

  /** Tells whether this is the very sandbox that was seen earlier. Without a cookie, device and inode have to do. */
  is(seen: Omit<SeenSandbox, "path">): boolean {
    return identityOf(seen) === this.identity && (seen.cookie === undefined || seen.cookie === this.cookie);
  }

  /**
   * Opens the sandbox that a runtime's request names at this moment.
   * @throws TortieError `netns-missing`, `netns-invalid`, `netns-own`
   */
  static named(path: string, options: SandboxOptions = {}): Sandbox {
    const namespace = openNamespace(path);
    const descriptor = { fd: namespace.fd, isOpen: true, close: () => namespace[Symbol.dispose]() };
    return unlessOwn(descriptor, options, () => new Sandbox(path, descriptor, true));
  }

  /**
   * Opens the sandbox that was seen earlier, where its path still leads to it.
   * @throws TortieError as `named`, and `netns-changed` when the path leads to another one, `netns-unproven` when device and inode are
   * not known
   */
  static seen(seen: SeenSandbox, options: SandboxOptions = {}): Sandbox {
    const wanted = identityOf(seen);
    if (wanted === undefined) {
      throw new TortieError("netns-unproven", `nobody saw which namespace ${seen.path} led to: nothing is done in it`);
    }
    // The path may have come to lead here: what was seen is another sandbox then, and whoever removes it has nothing to refuse.
    const wantsOwn = isOwnIdentity(wanted);
    const sandbox = Sandbox.named(seen.path, wantsOwn ? options : { ...options, allowsOwn: true });
    if (sandbox.is(seen)) return sandbox;
    sandbox[Symbol.dispose]();
    throw changed(seen);
  }

  /**
   * Opens the sandbox that another process holds open, wherever its path leads here.
   * @returns `undefined` when the descriptor is not that sandbox
   * @throws TortieError `netns-own`
   */
  static heldBy(pid: number, fd: number, seen: SeenSandbox, options: SandboxOptions = {}): Sandbox | undefined {
    const wanted = identityOf(seen);
    const opened = wanted === undefined ? undefined : openNamespaceOf(pid, fd);
    if (opened === undefined) return undefined;
    const descriptor = { fd: opened, isOpen: true, close: () => closeFile(opened) };
    const sandbox = unlessOwn(descriptor, options, () => new Sandbox(seen.path, descriptor, false));
    if (sandbox.is(seen)) return sandbox;
    sandbox[Symbol.dispose]();
    return undefined;
  }

  /** Copies the sandbox for a function that closes what it is given; this one stays open. */
  borrowed(): Sandbox {
    return new Sandbox(this.path, this.#descriptor, this.isAtPath, true);
  }

  /**
   * Proves once more that the runtime's path still leads here: a link made in a sandbox that was replaced would be nobody's.
   * @throws TortieError `netns-changed`
   */
  assertCurrent(): void {
    if (this.isAtPath && statusIfSeen(this.path)?.identity !== this.identity) throw changed(seenOf(this));
  }

  [Symbol.dispose](): void {
    if (this.#isLent || !this.#descriptor.isOpen) return;
    this.#descriptor.isOpen = false;
    this.#descriptor.close();
  }
}

/** "<device>:<inode>" as `FileStatus.identity` has it; `undefined` when it is not known. */
export function identityOf({ dev, ino }: Pick<SeenSandbox, "dev" | "ino">): string | undefined {
  return dev === undefined || ino === undefined ? undefined : `${dev}:${ino}`;
}

/** Says what a record keeps of a sandbox: enough to prove it later. */
export function seenOf({ path, identity, cookie }: Sandbox): SeenSandbox {
  const [dev = "", ino = ""] = identity.split(":");
  return { path, dev, ino, ...(cookie === undefined ? {} : { cookie }) };
}

/** Adds the cookie where the path leads to what was seen at this moment: what is written down must be provable later. */
export function withCookie(seen: SeenSandbox): SeenSandbox {
  try {
    using sandbox = Sandbox.seen(seen, { allowsOwn: true });
    return { ...seen, ...seenOf(sandbox) };
  } catch {
    // Whoever works with it says what is wrong with it.
    return seen;
  }
}

/** Closes what it made when it throws. @throws TortieError `netns-own` */
function unlessOwn({ close }: Descriptor, { allowsOwn = false }: SandboxOptions, make: () => Sandbox): Sandbox {
  try {
    const sandbox = make();
    if (!allowsOwn && isOwnIdentity(sandbox.identity)) throw new TortieError("netns-own", OWN_REFUSED);
    return sandbox;
  } catch (error) {
    close();
    throw error;
  }
}

/** @returns `undefined` for what cannot be opened, or is no namespace */
function openNamespaceOf(pid: number, fd: number): number | undefined {
  return ifReadable(() => openNamespace(`/proc/${pid}/fd/${fd}`).fd);
}

function changed(meant: SeenSandbox): TortieError {
  const cookie = meant.cookie === undefined ? "" : `, cookie ${meant.cookie}`;
  const which = `device and inode ${identityOf(meant)}${cookie}`;
  return new TortieError("netns-changed", `${meant.path} leads to another sandbox than was meant (${which}): it is left alone`);
}
