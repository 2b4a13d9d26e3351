import { compareObservations } from "../../golden/compare/compare.ts";
import { type Json, type JsonRecord, mapTexts, recordOf, textOf } from "../../golden/compare/json.ts";
import { normalisePlayed, normaliseRecorded } from "../../golden/compare/normalise.ts";
import { type Observation, observationOf } from "../../golden/compare/observation.ts";
import { LOCAL_DIFFERENCES } from "../../golden/differences/differences.ts";
import { ETCD_DIFFERENCES } from "../../golden/differences/differences-etcd.ts";
import { KUBERNETES_DIFFERENCES } from "../../golden/differences/differences-kubernetes.ts";
import { loadRecording, type Recording, recordingNames, type Seen, SUITES } from "../../golden/recording/recording.ts";
import { UNRECORDED_SETUPS } from "../../golden/recording/unrecorded-setup.ts";
import { BY_NAME, needOf } from "../../golden/runner/applicability.ts";
import { isPlayedOnEtcd, isPlayedOnKubernetes } from "../../golden/runner/runner.ts";

const ALL = SUITES.flatMap((suite) => recordingNames(suite).map((name) => ({ suite, name })));
const CREATED = 1_793_000_000_123_456_789n;

function seenOf(recording: Recording): Seen[] {
  return recording.steps.flatMap((step) => (step.kind === "call" ? [step.seen] : []));
}

/** A machine's view of what was recorded: real addresses, times and sequence numbers in place of tokens. */
function asPlayed(seen: Seen, isMain: boolean): Observation {
  const observation = mapTexts(observationOf(seen), (text) =>
    text
      .replace(/\{\{mac(\d)\}\}/g, "0a:00:00:00:00:0$1")
      .replace(/\{\{linklocal(\d)\}\}/g, "fe80::800:ff:fe00:$1")
      .replace(/\{\{linklocal-other(\d)\}\}/g, "fe80::abc:$1"),
  );
  const record = recordOf(observation);
  const objects = recordOf(record.objects);
  const blocks = Object.entries(recordOf(objects.blocks)).map(([cidr, block]) => [cidr, blockAsPlayed(recordOf(block), isMain)] as const);
  return { ...record, exit: record.exit ?? null, objects: { ...objects, blocks: Object.fromEntries(blocks) } };
}

function blockAsPlayed(block: JsonRecord, isMain: boolean): JsonRecord {
  const number = (value: Json | undefined) => {
    const [, clock, offset] = /^T(\d+)\+(\d+)$/.exec(textOf(value)) ?? [];
    if (clock !== undefined) return String(CREATED + BigInt(clock) * 5_000_000n + BigInt(offset ?? 0));
    return isMain ? String(CREATED + BigInt(String(value))) : (value ?? 0);
  };
  const time = (value: JsonRecord) =>
    mapTexts(value, (text, path) => {
      if (!/^\{\{(time|timestamp|affinityClaimTime)\}\}$/.test(text)) return text;
      return path.includes("timestamp") ? "2026-11-21 09:00:00.12 +0000 UTC" : "2026-11-21T09:00:00Z";
    });
  return {
    ...recordOf(time(block)),
    sequenceNumber: number(block.sequenceNumber),
    sequenceNumberForAllocation: Object.fromEntries(
      Object.entries(recordOf(block.sequenceNumberForAllocation)).map(([ordinal, value]) => [ordinal, number(value)]),
    ),
  };
}

describe("the recordings", () => {
  it("are all there", () => {
    expect(SUITES.map((suite) => recordingNames(suite).length)).toEqual([249, 239, 56]);
  });

  it("are each equal to themselves, and to a machine's view of the same", () => {
    for (const { suite, name } of ALL) {
      const recording = loadRecording(suite, name);
      const recorded = normaliseRecorded(seenOf(recording).map(observationOf));
      expect(recorded.length).toBeGreaterThan(0);
      const played = normalisePlayed(
        seenOf(recording).map((seen) => asPlayed(seen, suite === "main")),
        recording.text,
        new Map(),
      );
      expect({ name, differences: compareObservations(recorded, played) }).toEqual({ name, differences: [] });
    }
  });

  it("are named in lists only when they exist", () => {
    const names = ALL.map(({ suite, name }) => `${suite}/${name}`);
    const listed = [BY_NAME, LOCAL_DIFFERENCES, KUBERNETES_DIFFERENCES, ETCD_DIFFERENCES, UNRECORDED_SETUPS].flatMap((list) =>
      Object.keys(list),
    );
    expect(listed.filter((name) => !names.includes(name))).toEqual([]);
  });

  it("have lists of differences only where they are played", () => {
    const played = ALL.map(({ suite, name }) => loadRecording(suite, name));
    const idle = played.filter((recording) => {
      const name = `${recording.suite}/${recording.name}`;
      return (
        (LOCAL_DIFFERENCES[name] !== undefined && needOf(recording) !== undefined) ||
        (KUBERNETES_DIFFERENCES[name] !== undefined && !isPlayedOnKubernetes(recording)) ||
        (ETCD_DIFFERENCES[name] !== undefined && !isPlayedOnEtcd(recording))
      );
    });
    expect(idle.map(({ name }) => name)).toEqual([]);
  });

  it("are played somewhere", () => {
    const waiting = ALL.map(({ suite, name }) => loadRecording(suite, name)).filter(
      (recording) => needOf(recording) !== undefined && !isPlayedOnKubernetes(recording) && !isPlayedOnEtcd(recording),
    );
    expect(waiting).toEqual([]);
  });
});
