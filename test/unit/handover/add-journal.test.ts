/** What an ADD writes into its record before each of its parts. */
import { RecordingJournal } from "../../../handover/add-journal.ts";
import type { EndpointRecord } from "../../../handover/record.ts";
import { NEVER } from "../../../lib/system/waiting.ts";
import { recordOf } from "../../support/endpoint-record.ts";
import { fresh } from "../../support/fixtures.ts";
import { PodNode } from "../../support/pod-node.ts";

const HASH = "5e8f7a";
const ARGS = "IgnoreUnknown=1;K8S_POD_NAME=cart;K8S_POD_NAMESPACE=shop";

const node = fresh(PodNode.create);

/** The record after an ADD of the node's pod, the phases that were noted, in order, and which of them went to the file. */
async function recorded({ args = ARGS, isBegun = true } = {}) {
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
    signal: NEVER,
  });
  await node.add({ args, journal });
  return { record: journal.record, noted };
}

describe("The record of an ADD", () => {
  const between = ["adding:dataplane", "adding:build", "adding:endpoint", "ready written"];

  it("is written since it began and at the commit, and in memory between", async () => {
    expect((await recorded()).noted).toEqual(["adding:addresses", ...between]);
  });

  it("whose file says something else is written before the first effect", async () => {
    expect((await recorded({ isBegun: false })).noted).toEqual(["adding:addresses written", ...between]);
  });
});

describe("G4: what a pod is known by is recorded at its ADD", () => {
  it("is the UID that the runtime gives, and of a static pod not that of its mirror", async () => {
    expect((await recorded({ args: `${ARGS};K8S_POD_UID=${HASH}` })).record).toMatchObject({ podUID: "9b1c", runtimePodUID: HASH });
  });

  it("is what the mirror says where the runtime gives none", async () => {
    node.annotate({ "kubernetes.io/config.hash": HASH, "kubernetes.io/config.mirror": HASH });
    expect((await recorded()).record).toMatchObject({ podUID: "9b1c", runtimePodUID: HASH });
  });

  it("is nothing but its own UID where neither says more", async () => {
    const { podUID, runtimePodUID } = (await recorded()).record;
    expect([podUID, runtimePodUID]).toEqual(["9b1c", undefined]);
  });
});
