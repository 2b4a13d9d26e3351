/**
 * Reads kubeconfig files: which context counts, and the cluster and user it names. Several files, joined by ":", are taken together: the
 * first that defines a name counts, and files that are missing are passed over, as kubectl does.
 */
import { messageOf, TortieError } from "../../errors/errors.ts";
import { isObject } from "../../json/decode.ts";
import { systemErrorCode, systemErrorText } from "../../system/errno.ts";
import { readText } from "../../system/files.ts";

/** A named entry and the folder of its file, from which relative paths in it start. */
export interface Entry {
  readonly fields: Fields;
  readonly folder: string;
}

export interface Selection {
  /** Absent where the context names none: then the server must come from elsewhere. */
  readonly cluster: Entry | undefined;
  /** Absent where the context names none: then we are anonymous. */
  readonly user: Entry | undefined;
  /** Of the context; absent where it names none. */
  readonly namespace: string | undefined;
  /** For messages: `context "x" of /root/.kube/config`. */
  readonly place: string;
}

interface File {
  readonly path: string;
  readonly folder: string;
  readonly root: Fields;
}

/**
 * @param paths one path, or several joined by ":"
 * @param wanted the context to use instead of the files' own
 * @throws TortieError `kubeconfig-unreadable`, `kubeconfig-invalid`
 */
export function readKubeconfig(paths: string, wanted: string | undefined): Selection {
  const list = paths.includes(":") ? paths.split(":").filter((path) => path !== "") : [paths];
  const files: File[] = [];
  for (const path of list) {
    const file = readKubeconfigFile(path, list.length > 1);
    if (file !== undefined) files.push(file);
  }
  if (files.length === 0) throw new TortieError("kubeconfig-unreadable", `stat ${paths}: no such file or directory`);

  const named = wanted ?? firstText(files, "current-context");
  if (named === undefined) throw new TortieError("kubeconfig-invalid", `current-context of ${paths} is missing`);
  const context = find(files, "contexts", "context", named);
  const place = `context ${JSON.stringify(named)} of ${paths}`;
  if (context === undefined) throw new TortieError("kubeconfig-invalid", `${place} does not exist`);
  return {
    cluster: referenced(files, context.fields, "clusters", "cluster"),
    user: referenced(files, context.fields, "users", "user"),
    namespace: context.fields.text("namespace"),
    place,
  };
}

function readKubeconfigFile(path: string, mayBeMissing: boolean): File | undefined {
  let text: string;
  try {
    text = readText(path);
  } catch (cause) {
    if (systemErrorCode(cause) === "ENOENT") {
      if (mayBeMissing) return undefined;
      throw new TortieError("kubeconfig-unreadable", `stat ${path}: no such file or directory`, { cause });
    }
    throw new TortieError("kubeconfig-unreadable", `error loading config file "${path}": ${systemErrorText(cause) ?? messageOf(cause)}`, {
      cause,
    });
  }
  return { path, folder: folderOf(path), root: new Fields(parse(text, path), path) };
}

/** JSON is tried first where it looks like it: it is a part of YAML, and its own parser is the faster one. */
function parse(text: string, path: string): unknown {
  if (text.startsWith("{")) {
    try {
      return JSON.parse(text);
    } catch {
      // YAML may begin like this too.
    }
  }
  try {
    return Bun.YAML.parse(text);
  } catch (cause) {
    throw new TortieError("kubeconfig-invalid", `error loading config file "${path}": yaml: ${messageOf(cause)}`, { cause });
  }
}

/** Does as `directoryOf`, but without a regular expression; a path of a file has no slash at its end. */
function folderOf(path: string): string {
  const slash = path.lastIndexOf("/");
  return slash < 0 ? "." : path.slice(0, slash);
}

function firstText(files: readonly File[], key: string): string | undefined {
  for (const file of files) {
    const text = file.root.text(key);
    if (text !== undefined) return text;
  }
  return undefined;
}

function referenced(files: readonly File[], context: Fields, list: string, key: string): Entry | undefined {
  const name = context.text(key);
  if (name === undefined) return undefined;
  const entry = find(files, list, key, name);
  if (entry === undefined) {
    throw new TortieError("kubeconfig-invalid", `${context.nameOf(key)} is ${JSON.stringify(name)}, which is not among the ${list}`);
  }
  return entry;
}

/** Finds an entry of one of the three lists: `{name: …, cluster: {…}}`. */
function find(files: readonly File[], list: string, key: string, name: string): Entry | undefined {
  for (const { root, path, folder } of files) {
    for (const entry of root.children(list)) {
      if (entry.raw("name") !== name) continue;
      return { fields: new Fields(entry.raw(key) ?? {}, `${key} ${JSON.stringify(name)} of ${path}`), folder };
    }
  }
  return undefined;
}

/** Resolves a path as it stands in a kubeconfig: a relative one starts from the folder of the file. */
export function resolvePath(path: string, folder: string): string {
  return path.startsWith("/") ? path : `${folder}/${path}`;
}

type Members = Readonly<Record<string, unknown>>;

/** Reads one mapping of a kubeconfig. A member that is null counts as absent. */
export class Fields {
  readonly #members: Members;
  /** For messages: `user "u" of /root/.kube/config`. */
  readonly place: string;

  /** @throws TortieError `kubeconfig-invalid` when `value` is no mapping */
  constructor(value: unknown, place: string) {
    if (!isObject(value)) throw new TortieError("kubeconfig-invalid", `${place} must be a mapping, not ${kindOf(value)}`);
    this.#members = value;
    this.place = place;
  }

  /** An empty text counts as absent. @throws TortieError `kubeconfig-invalid` */
  text(key: string): string | undefined {
    const value = this.#members[key] ?? undefined;
    if (value === undefined || typeof value === "string") return value || undefined;
    throw this.#wrong(key, "a string", value);
  }

  /** @throws TortieError `kubeconfig-invalid` when it is absent, empty or no string */
  requiredText(key: string): string {
    const value = this.text(key);
    if (value === undefined) throw new TortieError("kubeconfig-invalid", `${this.nameOf(key)} is missing`);
    return value;
  }

  /** @throws TortieError `kubeconfig-invalid` */
  flag(key: string): boolean {
    const value = this.#members[key] ?? false;
    if (typeof value === "boolean") return value;
    throw this.#wrong(key, "true or false", value);
  }

  /** @throws TortieError `kubeconfig-invalid` */
  texts(key: string): readonly string[] {
    const values = this.#list(key);
    const texts: string[] = [];
    for (const value of values) {
      if (typeof value !== "string") throw this.#wrong(key, "a list of strings", value);
      texts.push(value);
    }
    return texts;
  }

  /** @throws TortieError `kubeconfig-invalid` */
  child(key: string): Fields | undefined {
    const value = this.#members[key] ?? undefined;
    return value === undefined ? undefined : new Fields(value, this.nameOf(key));
  }

  /** Lists the mappings in a list. @throws TortieError `kubeconfig-invalid` */
  children(key: string): readonly Fields[] {
    return this.#list(key).map((value, index) => new Fields(value, this.nameOf(`${key}[${index}]`)));
  }

  /** Gives what stands there, of any type. */
  raw(key: string): unknown {
    return this.#members[key] ?? undefined;
  }

  keys(): readonly string[] {
    return Object.keys(this.#members);
  }

  /** Names a member in messages: `token of user "u" of /root/.kube/config`. */
  nameOf(key: string): string {
    return `${key} of ${this.place}`;
  }

  #list(key: string): readonly unknown[] {
    const value = this.#members[key] ?? [];
    if (Array.isArray(value)) return value;
    throw this.#wrong(key, "a list", value);
  }

  /** The value itself may be a secret and is left out. */
  #wrong(key: string, wanted: string, value: unknown): TortieError {
    return new TortieError("kubeconfig-invalid", `${this.nameOf(key)} must be ${wanted}, not ${kindOf(value)}`);
  }
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "a mapping" : `a ${typeof value}`;
}
