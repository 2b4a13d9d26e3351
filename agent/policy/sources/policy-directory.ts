/**
 * Reads policies, and labels of namespaces, from a directory of YAML files, for nodes without a cluster. A file counts when it has not
 * changed for a moment: a write in place shows every piece of it, and half a file may be a whole, shorter list of policies. One that cannot
 * be read keeps what it said before; what it never said is a gap, because nobody knows what it closes.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../../../lib/errors/errors.ts";
import { excerpt } from "../../../lib/log/format.ts";
import { DirectoryWatch } from "../../../lib/system/directory-events.ts";
import { systemErrorCode } from "../../../lib/system/errno.ts";
import { sha256 } from "../../../lib/system/hash.ts";
import { type Clock, SYSTEM_CLOCK } from "../../../lib/system/waiting.ts";
import type { Labels, LocalEndpoint, PolicyObject } from "../../../policy/model.ts";
import type { UnreadKind } from "./model.ts";
import { type PolicyFile, parsePolicyFile, readPolicyFile } from "./policy-files.ts";
import type { SourcePart, Telling } from "./sources.ts";

/** How long a file must stay as it is; one that looks cut off, or says less than before, for longer. */
const PATIENCE: Patience = { settledMs: 250, suspectMs: 2_000 };
/** For what inotify(7) misses, such as a file behind a symbolic link. */
const LOOK_MS = 10_000;
const MOST_FILES = 1_000;
const SHOWN_OF_PROBLEM = 300;

/** Editors' and package managers' own files are left alone: names that begin with a dot or end otherwise. */
const CANDIDATE = /^[^.].*\.(ya?ml|json)$/s;

/** Every namespace of a cluster has this label with its name. */
const NAME_LABEL = "kubernetes.io/metadata.name";

interface Patience {
  readonly settledMs: number;
  readonly suspectMs: number;
}

/** What was last seen of a file, which is not believed yet; `undefined` as a file: it was not there. */
interface Pending {
  readonly print: string;
  readonly file: PolicyFile | undefined;
  readonly sinceMs: number;
}

export class PolicyDirectory implements SourcePart {
  readonly #directory: string;
  readonly #clock: Pick<Clock, "now">;
  readonly #patience: Patience;
  readonly #watch: DirectoryWatch;
  /** What each file says, by its name. */
  readonly #known = new Map<string, PolicyFile>();
  readonly #pending = new Map<string, Pending>();
  /** What is wrong with a file, by its name. */
  readonly #broken = new Map<string, string>();
  /** Why the directory itself cannot be read. */
  #problem: string | undefined;
  #hasLooked = false;
  #duplicates: readonly string[] = [];
  #to: Telling | undefined;
  #policies: ReadonlyMap<string, PolicyObject> = new Map();
  #namespaces: ReadonlyMap<string, Labels> = new Map();
  /** Namespace of each own endpoint, by its host end. */
  readonly #own = new Map<string, string>();

  constructor(directory: string, clock: Pick<Clock, "now">, patience = PATIENCE) {
    this.#directory = directory;
    this.#clock = clock;
    this.#patience = patience;
    this.#watch = new DirectoryWatch(directory);
  }

  start(to: Telling): void {
    this.#to = to;
    this.#watch.start({
      look: async () => this.#look(),
      onError: (error) => {
        this.#problem = `${this.#directory} cannot be read: ${messageOf(error)}`;
      },
      pauseMs: () => this.#pauseMs(),
    });
  }

  get gap(): string | undefined {
    if (!this.#hasLooked || this.#problem !== undefined) return this.#problem ?? `${this.#directory} has not been read yet`;
    const [unknown] = [...this.#broken.keys(), ...this.#pending.keys()].filter((name) => !this.#known.has(name)).sort();
    if (unknown === undefined) return undefined;
    return this.#problemOf(unknown) ?? `${this.#pathOf(unknown)} is being read`;
  }

  get isComplete(): boolean {
    return this.gap === undefined;
  }

  async caughtUp(signal: AbortSignal): Promise<void> {
    this.#look();
    while (this.#pending.size > 0) {
      signal.throwIfAborted();
      await SYSTEM_CLOCK.sleep(this.#pauseMs(), signal);
      this.#look();
    }
  }

  problems(): readonly string[] {
    const ofFiles = [...this.#broken.keys()].sort().flatMap((name) => this.#problemOf(name) ?? []);
    return [...(this.#problem === undefined ? [] : [this.#problem]), ...ofFiles, ...this.#duplicates];
  }

  unread(): readonly UnreadKind[] {
    const counts = new Map<string, number>();
    for (const { others } of this.#known.values()) for (const kind of others) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    return [...counts].sort(([one], [other]) => (one < other ? -1 : 1)).map(([kind, atLeast]) => ({ kind, atLeast }));
  }

  /** A namespace that no file describes exists all the same, with the label that each has. */
  setOwn(hostInterface: string, endpoint: LocalEndpoint | undefined): void {
    const namespace = endpoint?.pod?.namespace;
    const before = this.#own.get(hostInterface);
    if (namespace === undefined) this.#own.delete(hostInterface);
    else this.#own.set(hostInterface, namespace);
    const isNew = namespace !== undefined && !this.#namespaces.has(namespace);
    if (isNew || (before !== undefined && before !== namespace)) this.#tellNamespaces();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#watch.stop();
  }

  #look(): void {
    const names = this.#names();
    if (names === undefined) return;
    for (const name of names) this.#lookAt(name);
    const there = new Set(names);
    for (const name of [...this.#broken.keys()]) if (!there.has(name)) this.#broken.delete(name);
    for (const name of new Set([...this.#known.keys(), ...this.#pending.keys()])) if (!there.has(name)) this.#await(name, "", undefined);
    const isFirst = !this.#hasLooked;
    this.#problem = undefined;
    this.#hasLooked = true;
    if (this.#settle() || isFirst) this.#tell();
  }

  /** @returns `undefined` where the directory cannot be read; without one there are no policies, unless there have been some */
  #names(): readonly string[] | undefined {
    try {
      const names = readdirSync(this.#directory).filter((name) => CANDIDATE.test(name));
      if (names.length > MOST_FILES) throw new Error(`it has ${names.length} files, and ${MOST_FILES} at most are read`);
      return names.sort();
    } catch (error) {
      if (systemErrorCode(error) === "ENOENT" && this.#known.size === 0) return [];
      this.#problem = `${this.#directory} cannot be read: ${messageOf(error)}`;
      return undefined;
    }
  }

  #lookAt(name: string): void {
    try {
      const bytes = readPolicyFile(join(this.#directory, name));
      const print = sha256(bytes);
      if (this.#known.get(name)?.print === print) {
        this.#pending.delete(name);
      } else if (this.#pending.get(name)?.print !== print) {
        this.#await(name, print, parsePolicyFile(bytes));
      }
      this.#broken.delete(name);
    } catch (error) {
      this.#pending.delete(name);
      this.#broken.set(name, excerpt(messageOf(error), SHOWN_OF_PROBLEM));
    }
  }

  #await(name: string, print: string, file: PolicyFile | undefined): void {
    if (this.#pending.get(name)?.print === print) return;
    this.#pending.set(name, { print, file, sinceMs: this.#clock.now() });
  }

  /** Believes what has stayed for long enough. @returns whether that changes anything */
  #settle(): boolean {
    const settled = [...this.#pending].filter(([name]) => this.#leftMs(name) <= 0);
    for (const [name, { file }] of settled) {
      this.#pending.delete(name);
      if (file === undefined) this.#known.delete(name);
      else this.#known.set(name, file);
    }
    return settled.length > 0;
  }

  #leftMs(name: string): number {
    const pending = this.#pending.get(name);
    if (pending === undefined) return 0;
    const { file, sinceMs } = pending;
    const isSuspect = file !== undefined && (!file.hasEnd || sizeOf(file) < sizeOf(this.#known.get(name)));
    return sinceMs + (isSuspect ? this.#patience.suspectMs : this.#patience.settledMs) - this.#clock.now();
  }

  #pauseMs(): number {
    // A timer may come up to a millisecond early.
    return Math.max(1, Math.min(LOOK_MS, ...[...this.#pending.keys()].map((name) => this.#leftMs(name) + 1)));
  }

  #tell(): void {
    const policies = new Map<string, PolicyObject>();
    const duplicates: string[] = [];
    for (const [name, file] of this.#inOrder()) {
      for (const policy of file.policies) {
        const key = `${policy.namespace}/${policy.name}`;
        if (policies.has(key))
          duplicates.push(`${this.#pathOf(name)} has NetworkPolicy ${key}, which an earlier file or document has already`);
        else policies.set(key, policy);
      }
    }
    this.#duplicates = duplicates;
    const before = this.#policies;
    this.#policies = policies;
    for (const key of before.keys()) if (!policies.has(key)) this.#to?.sink.setPolicy(key, undefined);
    for (const [key, policy] of policies) if (!Bun.deepEquals(before.get(key), policy)) this.#to?.sink.setPolicy(key, policy);
    this.#tellNamespaces();
    this.#to?.changed();
  }

  #tellNamespaces(): void {
    if (this.#to === undefined) return;
    const namespaces = new Map<string, Labels>();
    for (const name of [...this.#own.values(), ...[...this.#policies.values()].map(({ namespace }) => namespace)]) namespaces.set(name, {});
    for (const [, file] of this.#inOrder().reverse()) for (const { name, labels } of file.namespaces) namespaces.set(name, labels);
    for (const [name, labels] of namespaces) namespaces.set(name, { ...labels, [NAME_LABEL]: name });
    const before = this.#namespaces;
    this.#namespaces = namespaces;
    for (const name of before.keys()) if (!namespaces.has(name)) this.#to.sink.setNamespace(name, undefined);
    for (const [name, labels] of namespaces) if (!Bun.deepEquals(before.get(name), labels)) this.#to.sink.setNamespace(name, labels);
  }

  #inOrder(): [string, PolicyFile][] {
    return [...this.#known].sort(([one], [other]) => (one < other ? -1 : 1));
  }

  #problemOf(name: string): string | undefined {
    const problem = this.#broken.get(name);
    if (problem === undefined) return undefined;
    const rest = this.#known.has(name) ? "what it said before still counts" : "what it closes is not known";
    return `${this.#pathOf(name)} cannot be read: ${problem}; ${rest}`;
  }

  /** Names may have any byte but a slash in them. */
  #pathOf(name: string): string {
    return join(this.#directory, /^[\w.-]+$/.test(name) ? name : excerpt(quoted(name), SHOWN_OF_PROBLEM));
  }
}

/** Escapes what is not of ASCII too: a name could turn the direction of a line. */
function quoted(name: string): string {
  return JSON.stringify(name).replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function sizeOf(file: PolicyFile | undefined): number {
  return file === undefined ? 0 : file.policies.length + file.namespaces.length;
}
