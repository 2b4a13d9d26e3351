/** Plays a recorded scenario on our executables and says how the outcome differs from the recording. */

import { existsSync } from "node:fs";
import { compareObservations, type Difference } from "../compare/compare.ts";
import { type Json, type JsonRecord, mapTexts, recordOf, without } from "../compare/json.ts";
import { readKernel } from "../compare/kernel-state.ts";
import { normalisePlayed, normaliseRecorded } from "../compare/normalise.ts";
import { type Observation, observationOf } from "../compare/observation.ts";
import { changeInWords } from "../recording/change-in-words.ts";
import type { Call, Change, Recording, Seen } from "../recording/recording.ts";
import type { StoredObject } from "../recording/stored-object.ts";
import { withoutWire } from "../recording/stored-state.ts";
import { type UnrecordedSetup, unrecordedSetupOf } from "../recording/unrecorded-setup.ts";
import { type Background, Sandbox } from "../sandbox/sandbox.ts";
import { LOCAL_STORE } from "../store/local-store.ts";
import type { ReplayStore, StoreKind } from "../store/replay-store.ts";

/** Directories whose files the recordings list; what the sandbox itself or the datastore puts there is not the plugin's. */
const WATCHED = {
  main: ["/run/calico", "/var/lib/calico", "/var/lib/cni", "/var/log/calico"],
  ipam: ["/var/run/calico", "/var/lib/calico", "/var/log/calico"],
};
const NOT_RECORDED = ["/var/lib/calico/nodename"];

/** What the recorders' machines were called. */
const HOST_NAMES = { main: "recorder", "ipam-kdd": "rec-host", "ipam-etcd": "rec-host" } as const;
const LOCK_HELD_SECONDS = 2;
/** An agent's watches bring it what a scenario changes; nothing tells from outside when they have. */
const WATCHES_MS = 200;

export interface Replay {
  /** How the play differs from a recording: its own, or another one with as many calls or more. */
  differencesFrom(recording: Recording): Difference[];
  /** Calls that an agent served. */
  readonly servedByAgent: number;
}

/** @param hasAgent a resident agent is there, and plugins hand their calls to it */
export async function replay(recording: Recording, kind: StoreKind = LOCAL_STORE, hasAgent = false): Promise<Replay> {
  const setup = unrecordedSetupOf(recording.suite, recording.name);
  await using sandbox = await Sandbox.open({
    hostname: HOST_NAMES[recording.suite],
    podNamespaces: recording.suite === "main" ? podNamespacesOf(recording) : [],
  });
  await using store = await kind.open(sandbox, recording);
  const tokens = tokensOf(sandbox, store.places);
  await build(recording, setup, sandbox, store, tokens);
  if (hasAgent) await sandbox.startAgent(store.agentFlags);

  const played: Seen[] = [];
  for (const step of recording.steps) {
    if (step.kind === "change") {
      await change(step, recording, sandbox, store);
      if (hasAgent) await Bun.sleep(WATCHES_MS);
      continue;
    }
    const unseen = setup.beforeCall?.[played.length] ?? [];
    if (unseen.length > 0)
      await store.applyChange(
        unseen.map((object) => fillObject(object, tokens)),
        [],
      );
    played.push(await call(step, sandbox, store, tokens, hasAgent));
  }
  return {
    servedByAgent: sandbox.agentLog().match(/ begins /g)?.length ?? 0,
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

async function build(recording: Recording, setup: UnrecordedSetup, sandbox: Sandbox, store: ReplayStore, tokens: Tokens): Promise<void> {
  for (const [path, content] of Object.entries({ ...recording.files, ...setup.files })) {
    if (content !== null) sandbox.writeFile(tokens.fill(path), tokens.fill(content));
  }
  await store.seed([...recording.objects, ...(setup.objects ?? [])].map((object) => fillObject(object, tokens)));
  for (const { where, command } of recording.kernel) await must(sandbox, where, command);
}

async function change(step: Change, recording: Recording, sandbox: Sandbox, store: ReplayStore): Promise<void> {
  const { put, remove } = step.words === "" ? step : changeInWords(step.words, recording.objects);
  await store.applyChange(put, remove);
  for (const { where, command } of step.kernel) await must(sandbox, where, command);
  for (const { where, command } of step.background) sandbox.startBackground(where, command);
}

async function call(step: Call, sandbox: Sandbox, store: ReplayStore, tokens: Tokens, hasAgent: boolean): Promise<Seen> {
  const env = Object.fromEntries(Object.entries(step.env).map(([key, value]) => [key, tokens.fill(value)]));
  const filled = typeof step.stdin === "string" ? tokens.fill(step.stdin) : recordOf(mapTexts(step.stdin, tokens.fill));
  const holder = step.lockIsHeld ? await holdLock(sandbox) : undefined;
  const { exit, stdout, stderr } = await sandbox.call(step.plugin, step.argv, env, store.rewriteNetconf(filled), limitOf(step));
  const waitedForLock = holder?.hasEnded();
  sandbox.endBackground();
  // An agent's watches and what it asks between calls stand in no recording; what an operation costs with it: cluster/agent/blocks.
  const requests = hasAgent ? undefined : await store.requests();
  return {
    exit,
    stdout,
    ...(step.seen.stderr === undefined ? {} : { stderr }),
    ...(step.seen.kernel === undefined ? {} : { kernel: await readNamespaces(sandbox, step.seen.kernel) }),
    state: await store.readObjects(),
    files: filesOf(sandbox, step),
    ...(requests === undefined ? {} : { requests }),
    ...(waitedForLock === undefined ? {} : { waitedForLock }),
  };
}

/** A call that had no end in the recording is given no more time here, so that it ends in the same words. */
function limitOf({ seen }: Call): number | undefined {
  const [, seconds] = /^no end after (\d+) s$/.exec(String(seen.exit)) ?? [];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

async function readNamespaces(sandbox: Sandbox, recorded: JsonRecord): Promise<JsonRecord> {
  const kernel: Record<string, Json> = {};
  for (const side of Object.keys(recorded)) kernel[side] = await readKernel(sandbox, namespaceOf(side));
  return kernel;
}

/** The lock that the IPAM plugins take (I§1.8), held by somebody else from before the call. */
async function holdLock(sandbox: Sandbox): Promise<Background> {
  const holding = `${sandbox.dir}/lock-is-held`;
  const command = `flock /run/calico/ipam.lock sh -c 'touch ${holding}; sleep ${LOCK_HELD_SECONDS}; rm ${holding}'`;
  const holder = sandbox.startBackground("host", `mkdir -p /run/calico; umask 077; exec ${command}`);
  while (!existsSync(holding)) await new Promise((done) => setTimeout(done, 5));
  return holder;
}

function filesOf(sandbox: Sandbox, step: Call): Record<string, string> {
  if (step.plugin === "calico-ipam") return Object.assign({}, ...WATCHED.ipam.map((path) => sandbox.files(path, "mode")));
  const watched = [...WATCHED.main, `${sandbox.dir}/spy`];
  return Object.assign({}, ...watched.map((path) => sandbox.files(path, "content", NOT_RECORDED)));
}

/**
 * Our observation without what the recording does not say: on etcd labels and other things of Kubernetes, and requests; pods in the
 * IPAM suites; annotations of blocks in main.
 */
function onlyRecorded(ours: Observation, { suite, store }: Recording): Observation {
  const { blocks, affinities, handles, endpoints, pods, profiles } = recordOf(ours.objects);
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
      ...(Object.keys(recordOf(profiles)).length === 0 ? {} : { profiles: recordOf(profiles) }),
    },
  };
}

function eachWithout(objects: JsonRecord, key: string): JsonRecord {
  return Object.fromEntries(Object.entries(objects).map(([name, object]) => [name, without(recordOf(object), key)]));
}

/** The namespace that a recording's `kernel` means: "pod" is the namespace pod1. */
function namespaceOf(side: string): string {
  return side === "pod" ? "pod1" : side;
}

/** Names of the pods' namespaces that a scenario speaks of. */
function podNamespacesOf(recording: Recording): string[] {
  const names = recording.steps.flatMap((step) => (step.kind === "call" ? Object.keys(step.seen.kernel ?? {}).map(namespaceOf) : []));
  return [...new Set(names)].filter((name) => name !== "host");
}

interface Tokens {
  fill(text: string): string;
  /** Values that were put in place of tokens → the tokens. */
  reversed(): ReadonlyMap<string, string>;
}

/** Places and times that recordings name by tokens. */
function tokensOf(sandbox: Sandbox, ofStore: ReadonlyMap<string, string>): Tokens {
  const places = new Map([
    ...ofStore,
    ["{{run}}", sandbox.dir],
    ["{{bin}}", sandbox.binDir],
    ["{{kubeconfig}}", `${sandbox.dir}/kubeconfig`],
  ]);
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

async function must(sandbox: Sandbox, where: string, command: string): Promise<void> {
  const { exit, stderr } = await sandbox.shell(where, command);
  if (exit !== 0) throw new Error(`${where}: ${command}: exit ${exit}: ${stderr}`);
}
