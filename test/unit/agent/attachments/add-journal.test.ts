/** What an ADD writes into its record before each of its parts. */
import { RecordingJournal } from "../../../../agent/attachments/add-journal.ts";
import type { EndpointRecord } from "../../../../agent/endpoints/record/endpoint-record.ts";
import { recordOf } from "../../../support/endpoint-record.ts";
import { PodNode } from "../../../support/pod-node.ts";

const HASH = "5e8f7a";
const ARGS = "IgnoreUnknown=1;K8S_POD_NAME=cart;K8S_POD_NAMESPACE=shop";

/** The record after an ADD of the node's pod. */
async function recordedOf(node: PodNode, args: string): Promise<EndpointRecord> {
  const journal = new RecordingJournal({
    records: { write: async (record) => record, build: async (record) => record, commit: async (record) => record },
    record: recordOf(1, { phase: "creating" }),
    grant: "block",
    cniVersion: "1.0.0",
    signal: new AbortController().signal,
  });
  await node.add({ args, residence: { journal } });
  return journal.record;
}

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
