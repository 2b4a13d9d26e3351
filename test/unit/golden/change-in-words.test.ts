import { changeInWords } from "../../golden/recording/change-in-words.ts";
import { loadRecording, recordingNames } from "../../golden/recording/recording.ts";

const { objects } = loadRecording("ipam-kdd", "vm-deleting-two");

describe("a change that a recording says in words", () => {
  it.each(["ipam-kdd", "ipam-etcd"] as const)("is understood wherever %s has one", (suite) => {
    const recordings = recordingNames(suite).map((name) => loadRecording(suite, name));
    const changes = recordings.flatMap((recording) =>
      recording.steps.flatMap((step) => (step.kind === "change" ? [changeInWords(step.words, recording.objects)] : [])),
    );
    expect(changes.length).toBeGreaterThan(2);
  });

  it.each([
    ["VM gets a deletionTimestamp", ["VirtualMachine"]],
    ["VMI gets a deletionTimestamp", ["VirtualMachineInstance"]],
    ["VM and VMI get a deletionTimestamp", ["VirtualMachine", "VirtualMachineInstance"]],
  ])("marks what is deleted between the calls: %s", (words, kinds) => {
    const { put, remove } = changeInWords(words, objects);
    expect(put.map(({ kind, name, deleting, finalizers }) => ({ kind, name, deleting, finalizers }))).toEqual(
      kinds.map((kind) => ({ kind, name: "shop/vm1", deleting: true, finalizers: ["example.org/hold"] })),
    );
    expect(remove).toEqual([]);
  });

  it("is an error when nobody knows how to make it, or what it names is not there", () => {
    expect(() => changeInWords("the node is cordoned", objects)).toThrow('cannot make the change "the node is cordoned"');
    expect(() => changeInWords("delete the VM", [])).toThrow('cannot make the change "delete the VM"');
  });
});
