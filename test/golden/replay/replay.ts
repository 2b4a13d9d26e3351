/** Plays a recorded scenario on our executables and says how the outcome differs from the recording. */

import { compareObservations, type Difference } from "../compare/compare.ts";
import { type Json, type JsonRecord, mapTexts, recordOf, without } from "../compare/json.ts";
import { readKernel } from "../compare/kernel-state.ts";
import { normalisePlayed, normaliseRecorded } from "../compare/normalise.ts";
import { type Observation, observationOf } from "../compare/observation.ts";
import type { Call, Change, Recording, Seen } from "../recording.ts";
import { LOCAL_STORE } from "./local-store.ts";
import type { ReplayStore, StoreKind } from "./replay-store.ts";
import { Stage } from "./stage.ts";
import type { StoredObject } from "./stored-object.ts";
import { withoutWire } from "./stored-state.ts";
import { type Supplement, supplementOf } from "./supplements.ts";

/** Directories whose files the recordings list; what the stage itself or the datastore puts there is not the plugin's. */
const WATCHED = { main: ["/run/calico", "/var/lib/calico", "/var/lib/cni"], ipam: ["/var/run/calico", "/var/lib/calico"] };
const NOT_RECORDED = ["/var/lib/calico/nodename"];

export interface Replay {
  /** How the play differs from a recording: its own, or another one with as many calls or more. */
  differencesFrom(recording: Recording): Difference[];
}

export async function replay(recording: Recording, kind: StoreKind = LOCAL_STORE): Promise<Replay> {
  const supplement = supplementOf(recording.suite, recording.name);
  await using stage = await Stage.open({
    hostname: supplement.hostname ?? "recorder",
    sandboxes: recording.suite === "main" ? sandboxesOf(recording) : [],
  });
  await using store = await kind.open(stage, recording);
  const tokens = tokensOf(stage, store.places);
  await build(recording, supplement, stage, store, tokens);

  const played: Seen[] = [];
  for (const step of recording.steps) {
    if (step.kind === "change") {
      await change(step, supplement, stage, store);
      continue;
    }
    const unseen = supplement.beforeCall?.[played.length] ?? [];
    if (unseen.length > 0)
      await store.applyChange(
        unseen.map((object) => fillObject(object, tokens)),
        [],
      );
    played.push(await call(step, supplement, stage, store, tokens));
  }
  return {
    differencesFrom: (other) => {
      const seeded = new Map([...tokens.reversed(), ...store.volatile]);
      const ours = normalisePlayed(played.map(observationOf), recording.text + other.text, seeded);
      const seen = other.steps.flatMap((step) => (step.kind === "call" ? [comparableSeen(step.seen, kind, played)] : []));
      return compareObservations(
        normaliseRecorded(seen.slice(0, ours.length).map(observationOf)),
        ours.map((step) => onlyRecorded(step, other)),
      );
    },
  };
}

/** The part of what was recorded that this play can be held to. */
function comparableSeen({ requests, ...seen }: Seen, kind: StoreKind, played: readonly Seen[]): Seen {
  const isCounted = requests !== undefined && played.some((call) => call.requests !== undefined);
  return { ...seen, state: kind.comparable(seen.state), ...(isCounted ? { requests } : {}) };
}

async function build(recording: Recording, supplement: Supplement, stage: Stage, store: ReplayStore, tokens: Tokens): Promise<void> {
  for (const [path, content] of Object.entries({ ...recording.files, ...supplement.files })) {
    if (content !== null) stage.writeFile(tokens.fill(path), tokens.fill(content));
  }
  await store.seed([...recording.objects, ...(supplement.objects ?? [])].map((object) => fillObject(object, tokens)));
  for (const { where, command } of recording.kernel) await must(stage, where, command);
}

async function change(step: Change, supplement: Supplement, stage: Stage, store: ReplayStore): Promise<void> {
  await store.applyChange([...step.put, ...(supplement.put ?? [])], [...step.remove, ...(supplement.remove ?? [])]);
  for (const { where, command } of step.kernel) await must(stage, where, command);
  for (const { where, command } of step.background) stage.startBackground(where, command);
}

async function call(step: Call, supplement: Supplement, stage: Stage, store: ReplayStore, tokens: Tokens): Promise<Seen> {
  const env = Object.fromEntries(Object.entries(step.env).map(([key, value]) => [key, tokens.fill(value)]));
  const filled = typeof step.stdin === "string" ? tokens.fill(step.stdin) : recordOf(mapTexts(step.stdin, tokens.fill));
  if (supplement.lockHeldSeconds !== undefined) await holdLock(stage, supplement.lockHeldSeconds);
  const { exit, stdout, stderr } = await stage.call(step.plugin, step.argv, env, store.rewriteNetconf(filled));
  stage.endBackground();
  const requests = await store.requests();
  return {
    exit,
    stdout,
    ...(step.seen.stderr === undefined ? {} : { stderr }),
    ...(step.seen.kernel === undefined ? {} : { kernel: await readNamespaces(stage, step.seen.kernel) }),
    state: await store.readObjects(),
    files: filesOf(stage, step),
    ...(requests === undefined ? {} : { requests }),
  };
}

async function readNamespaces(stage: Stage, recorded: JsonRecord): Promise<JsonRecord> {
  const kernel: Record<string, Json> = {};
  for (const side of Object.keys(recorded)) kernel[side] = await readKernel(stage, namespaceOf(side));
  return kernel;
}

/** The lock that the IPAM plugins take (I§1.8), held by somebody else from before the call. */
async function holdLock(stage: Stage, seconds: number): Promise<void> {
  stage.startBackground("host", `mkdir -p /run/calico; umask 077; exec flock /run/calico/ipam.lock sleep ${seconds}`);
  await new Promise((done) => setTimeout(done, 200));
}

function filesOf(stage: Stage, step: Call): Record<string, string> {
  if (step.plugin === "calico-ipam") return Object.assign({}, ...WATCHED.ipam.map((path) => stage.files(path, "mode")));
  const watched = [...WATCHED.main, `${stage.dir}/spy`];
  return Object.assign({}, ...watched.map((path) => stage.files(path, "content", NOT_RECORDED)));
}

/**
 * Our observation without what the recording does not say: on etcd labels and other things of Kubernetes, and requests; pods in the
 * IPAM suites; annotations of blocks in main.
 */
function onlyRecorded(ours: Observation, { suite, store }: Recording): Observation {
  const { blocks, affinities, handles, endpoints, pods } = recordOf(ours.objects);
  const isMain = suite === "main";
  const isEtcd = store === "etcdv3";
  const calico = { blocks: recordOf(blocks), affinities: recordOf(affinities), handles: recordOf(handles) };
  const objects = isEtcd ? withoutWire(calico) : isMain ? withoutWire(calico, "annotations") : calico;
  const { requests, ...uncounted } = ours;
  return {
    ...(isEtcd ? uncounted : ours),
    objects: {
      ...objects,
      affinities: isEtcd ? eachWithout(objects.affinities, "labels") : objects.affinities,
      endpoints: isMain ? (endpoints ?? {}) : {},
      pods: isMain ? (pods ?? {}) : {},
    },
  };
}

function eachWithout(objects: JsonRecord, key: string): JsonRecord {
  return Object.fromEntries(Object.entries(objects).map(([name, object]) => [name, without(recordOf(object), key)]));
}

/** The namespace that a recording's `kernel` means: "pod" is the sandbox pod1. */
function namespaceOf(side: string): string {
  return side === "pod" ? "pod1" : side;
}

/** Names of the sandboxes that a scenario speaks of. */
function sandboxesOf(recording: Recording): string[] {
  const names = recording.steps.flatMap((step) => (step.kind === "call" ? Object.keys(step.seen.kernel ?? {}).map(namespaceOf) : []));
  return [...new Set(names)].filter((name) => name !== "host");
}

interface Tokens {
  fill(text: string): string;
  /** Values that were put in place of tokens → the tokens. */
  reversed(): ReadonlyMap<string, string>;
}

/** Places and times that recordings name by tokens. */
function tokensOf(stage: Stage, ofStore: ReadonlyMap<string, string>): Tokens {
  const places = new Map([...ofStore, ["{{run}}", stage.dir], ["{{bin}}", stage.binDir], ["{{kubeconfig}}", `${stage.dir}/kubeconfig`]]);
  const times = new Map<string, string>();
  const now = Date.now();
  const fill = (text: string) => {
    const filled = text.replace(/\{\{set:\w+ (-?\d+) s ago\}\}/g, (token, seconds: string) => {
      const time = new Date(now - Number(seconds) * 1000).toISOString().replace(/\.\d+Z$/, "Z");
      times.set(time, token);
      return time;
    });
    return [...places].reduce((result, [token, place]) => result.replaceAll(token, place), filled);
  };
  return {
    fill,
    // The longer place first: {{bin}} lies below {{run}}.
    reversed: () =>
      new Map([...[...places].map(([token, place]) => [place, token] as const).sort(([a], [b]) => b.length - a.length), ...times]),
  };
}

function fillObject(object: StoredObject, tokens: Tokens): StoredObject {
  return { ...object, spec: recordOf(mapTexts(object.spec, tokens.fill)) };
}

async function must(stage: Stage, where: string, command: string): Promise<void> {
  const { exit, stderr } = await stage.shell(where, command);
  if (exit !== 0) throw new Error(`${where}: ${command}: exit ${exit}: ${stderr}`);
}
