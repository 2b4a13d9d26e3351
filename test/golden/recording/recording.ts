/**
 * The recordings as one type, whichever of the three forms a file has (test/golden/recordings, docs/project/recordings.md):
 * `main` lists API objects, `ipam-kdd` maps "plural/name" to them, `ipam-etcd` maps keys to values.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { isRecord, type Json, type JsonRecord, listOf, parseJson, recordOf, textOf, textsOf } from "../compare/json.ts";
import { objectsFromApi, objectsFromEtcd, objectsFromPlurals, type StoredObject } from "./stored-object.ts";
import { type StoredState, stateFromEtcd, stateFromMain, stateFromPlurals } from "./stored-state.ts";

export const SUITES = ["main", "ipam-kdd", "ipam-etcd"] as const;
export type Suite = (typeof SUITES)[number];

/** Where ("host", "pod1", …) and what is run by a shell before or between the calls. */
interface KernelCommand {
  readonly where: string;
  readonly command: string;
}

export interface Change {
  readonly kind: "change";
  /** Said in words only by the ipam recordings; `change-in-words.ts` says what is done. */
  readonly words: string;
  readonly put: readonly StoredObject[];
  readonly remove: readonly { readonly kind: string; readonly name: string }[];
  readonly kernel: readonly KernelCommand[];
  /** Started here and ended after the next call. */
  readonly background: readonly KernelCommand[];
}

export interface Call {
  readonly kind: "call";
  /** CNI_COMMAND in words for messages. */
  readonly command: string;
  readonly plugin: "calico" | "calico-ipam";
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** An object, or the exact text. */
  readonly stdin: JsonRecord | string;
  /** Somebody else holds the node's lock when the call begins. */
  readonly lockIsHeld: boolean;
  readonly seen: Seen;
}

/** What was seen after a call, tokens and all. Absent members were not recorded. */
export interface Seen {
  /** A number, or the recording's words for a call that had no end. */
  readonly exit: Json;
  readonly stdout: string;
  readonly stderr?: string;
  /** Namespace → links, addresses, routes, sysctls, neighbours as iproute2 prints them; null for a namespace that is gone. */
  readonly kernel?: JsonRecord;
  readonly state: StoredState;
  /** Path → content (main) or octal mode (ipam). */
  readonly files?: Readonly<Record<string, string>>;
  /** "GET /api/v1/namespaces/rec 200", in order; absent where nobody counts them. */
  readonly requests?: readonly string[];
  /** The call did not end before somebody else gave the lock back. */
  readonly waitedForLock?: boolean;
}

export interface Recording {
  readonly suite: Suite;
  readonly name: string;
  readonly title: string;
  readonly store: "kubernetes" | "etcdv3";
  readonly objects: readonly StoredObject[];
  readonly kernel: readonly KernelCommand[];
  /** Path → content; null: the file is not there. */
  readonly files: Readonly<Record<string, string | null>>;
  readonly steps: readonly (Call | Change)[];
  /** The file itself: what stands in it literally is no volatile value. */
  readonly text: string;
}

const RECORDINGS = resolve("test/golden/recordings");

/** Names of a suite's scenarios, in order. */
export function recordingNames(suite: Suite): string[] {
  return readdirSync(join(RECORDINGS, suite))
    .filter((file) => file.endsWith(".json"))
    .map((file) => file.slice(0, -".json".length))
    .sort();
}

export function loadRecording(suite: Suite, name: string): Recording {
  return readRecording(suite, name, recordingText(suite, name));
}

export function recordingText(suite: Suite, name: string): string {
  return readFileSync(join(RECORDINGS, suite, `${name}.json`), "utf8");
}

/** Suite and name of "suite/name". */
export function suiteOf(scenario: string): [Suite, string] {
  const suite = SUITES.find((each) => scenario.startsWith(`${each}/`));
  if (suite === undefined) throw new Error(`no such suite: ${scenario}`);
  return [suite, scenario.slice(suite.length + 1)];
}

/** @param text the recording's file */
export function readRecording(suite: Suite, name: string, text: string): Recording {
  const file = recordOf(parseJson(text));
  const before = recordOf(file.before);
  const etcd = textOf(file.store) === "etcdv3";
  let files: Readonly<Record<string, string>> = {};
  const steps = listOf(file.steps).map((step) => {
    const read = suite === "main" ? readMainStep(recordOf(step), etcd) : readIpamStep(recordOf(step), etcd, files);
    if (read.kind === "call") files = read.seen.files ?? files;
    return read;
  });
  return {
    suite,
    name,
    title: textOf(file.scenario),
    store: etcd ? "etcdv3" : "kubernetes",
    objects: suite !== "main" ? (etcd ? objectsFromEtcd(before) : objectsFromPlurals(before)) : objectsFromApi(listOf(before.objects)),
    kernel: suite === "main" ? readCommands(before.kernel) : [],
    files: suite === "main" ? contentsOf(recordOf(before.files)) : {},
    steps,
    text,
  };
}

function readMainStep(step: JsonRecord, etcd: boolean): Call | Change {
  if (step.command === "change") {
    return {
      kind: "change",
      words: "",
      put: objectsFromApi(listOf(step.objects)),
      remove: listOf(step.delete).map((entry) => ({ kind: textOf(listOf(entry)[0]), name: textOf(listOf(entry)[1]) })),
      kernel: readCommands(step.kernel),
      background: readCommands(step.background),
    };
  }
  const objects = recordOf(step.objects);
  return {
    kind: "call",
    command: textOf(step.command),
    plugin: "calico",
    argv: listOf(step.argv).map(textOf),
    env: textsOf(step.env),
    stdin: stdinOf(step.stdin),
    lockIsHeld: false,
    seen: {
      exit: step.exit ?? null,
      stdout: textOf(step.stdout),
      kernel: recordOf(step.kernel),
      state: etcd ? stateFromEtcd(recordOf(objects.etcd)) : stateFromMain(objects),
      files: textsOf(step.files),
      requests: listOf(step.requests).map(textOf),
    },
  };
}

/** @param files those seen after the step before: a step names them only when they changed */
function readIpamStep(step: JsonRecord, etcd: boolean, files: Readonly<Record<string, string>>): Call | Change {
  if (step.command === "change") return { kind: "change", words: textOf(step.what), put: [], remove: [], kernel: [], background: [] };
  const objects = recordOf(step.objects);
  return {
    kind: "call",
    command: textOf(step.command),
    plugin: "calico-ipam",
    argv: listOf(step.flags).map(textOf),
    env: textsOf(step.env),
    stdin: stdinOf(step.stdin),
    lockIsHeld: step.waited_for_lock === true,
    seen: {
      exit: step.exit ?? null,
      stdout: textOf(step.stdout),
      ...(step.waited_for_lock === true ? { waitedForLock: true } : {}),
      ...(typeof step.stderr === "string" ? { stderr: step.stderr } : {}),
      state: etcd ? stateFromEtcd(objects) : stateFromPlurals(objects),
      files: step.files === undefined ? files : textsOf(step.files),
      requests: listOf(step.requests).map(textOf),
    },
  };
}

function stdinOf(value: Json | undefined): JsonRecord | string {
  return isRecord(value) ? value : textOf(value);
}

function readCommands(value: Json | undefined): KernelCommand[] {
  return listOf(value).map((entry) => ({ where: textOf(listOf(entry)[0]), command: textOf(listOf(entry)[1]) }));
}

function contentsOf(files: JsonRecord): Record<string, string | null> {
  return Object.fromEntries(Object.entries(files).map(([path, content]) => [path, typeof content === "string" ? content : null]));
}
