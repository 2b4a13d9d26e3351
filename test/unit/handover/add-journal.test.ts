/** What an ADD writes into its record before each of its parts. */
import { RecordingJournal } from "../../../handover/add-journal.ts";
import type { EndpointRecord } from "../../../handover/record.ts";
import { recordOf } from "../../support/endpoint-record.ts";
import { PodNode } from "../../support/pod-node.ts";

const HASH = "5e8f7a";
const ARGS = "IgnoreUnknown=1;K8S_POD_NAME=cart;K8S_POD_NAMESPACE=shop";

/** The record after an ADD of the node's pod. */
async function recordedOf(node: PodNode, args: string): Promise<EndpointRecord> {
  const journal = new RecordingJournal({
    records: {
      write: async (record) => record,
      keep: (record) => record,
      build: async (record) => record,
      commit: async (record) => record,
    },
    record: recordOf(1, { phase: "creating" }),
    isBegun: true,
    grant: "block",
    cniVersion: "1.0.0",
    signal: new AbortController().signal,
  });
  await node.add({ args, journal });
  return journal.record;
}

/** The phases that were noted, in order, and which of them went to the file. */
async function notes(isBegun: boolean): Promise<readonly string[]> {
  await using node = await PodNode.create();
  const noted: string[] = [];
  const note = (how: string) => (record: EndpointRecord) => {
    noted.push(record.phase + how);
    return record;
  };
  const written = note(" written");
  const journal = new RecordingJournal({
    records: { write: async (one) => written(one), keep: note(""), build: async (one) => one, commit: async (one) => written(one) },
    record: recordOf(1, { phase: "creating" }),
    isBegun,
    grant: "block",
    cniVersion: "1.0.0",
    signal: new AbortController().signal,
  });
  await node.add({ args: ARGS, journal });
  return noted;
}

describe("The record of an ADD", () => {
  const between = ["adding:dataplane", "adding:build", "adding:endpoint", "ready written"];

  it("is written since it began and at the commit, and in memory between", async () => {
    expect(await notes(true)).toEqual(["adding:addresses", ...between]);
  });

  it("whose file says something else is written before the first effect", async () => {
    expect(await notes(false)).toEqual(["adding:addresses written", ...between]);
  });
});

describe("G4: what a pod is known by is recorded at its ADD", () => {
  it("is the UID that the runtime gives, and of a static pod not that of its mirror", async () => {
    await using node = await PodNode.create();
    expect(await recordedOf(node, `${ARGS};K8S_POD_UID=${HASH}`)).toMatchObject({ podUID: "9b1c", runtimePodUID: HASH });
  });

  it("is what the mirror says where the runtime gives none", async () => {
    await using node = await PodNode.create();
    node.annotate({ "kubernetes.io/config.hash": HASH, "kubernetes.io/config.mirror": HASH });
    expect(await recordedOf(node, ARGS)).toMatchObject({ podUID: "9b1c", runtimePodUID: HASH });
  });

  it("is nothing but its own UID where neither says more", async () => {
    await using node = await PodNode.create();
    const { podUID, runtimePodUID } = await recordedOf(node, ARGS);
    expect([podUID, runtimePodUID]).toEqual(["9b1c", undefined]);
  });
});
