import { readFileSync } from "node:fs";
import { compareObservations } from "../../golden/compare/compare.ts";
import { areEquivalent, withoutNextStep } from "../../golden/compare/equivalent-messages.ts";
import { normaliseRecorded } from "../../golden/compare/normalise.ts";
import { type Observation, observationOf } from "../../golden/compare/observation.ts";
import { readRecording, type Suite } from "../../golden/recording/recording.ts";

/** Differences between a recording and itself with one text of its file changed, the first or the last one like it. */
function differencesAfter(suite: Suite, name: string, from: string, to: string, which: "first" | "last" = "first"): string[] {
  const text = readFileSync(`test/golden/recordings/${suite}/${name}.json`, "utf8");
  const at = which === "first" ? text.indexOf(from) : text.lastIndexOf(from);
  expect(at).toBeGreaterThan(0);
  const [recorded, changed] = [text, text.slice(0, at) + to + text.slice(at + from.length)].map((file) =>
    normaliseRecorded(observations(suite, name, file)),
  );
  return compareObservations(recorded ?? [], changed ?? []).map(({ path }) => path.join(" > "));
}

function observations(suite: Suite, name: string, text: string): Observation[] {
  return readRecording(suite, name, text).steps.flatMap((step) => (step.kind === "call" ? [observationOf(step.seen)] : []));
}

describe("a recording that was changed", () => {
  it("differs in the exit status", () => {
    expect(differencesAfter("ipam-kdd", "add-twice", '"exit": 0', '"exit": 1')).toEqual(["call 0 > exit"]);
  });

  it("differs in the member of the result", () => {
    expect(differencesAfter("main", "version-1.0.0", String.raw`\"dst\": \"10.60.0.0/26\"`, String.raw`\"dst\": \"10.60.0.0/27\"`)).toEqual(
      ["call 0 > stdout > value > routes > 0 > dst"],
    );
  });

  it("differs in the text of the result when only its layout changed", () => {
    expect(differencesAfter("main", "version-1.0.0", String.raw`{\n    \"cniVersion\"`, String.raw`{\n  \"cniVersion\"`)).toEqual([
      "call 0 > stdout > text",
    ]);
  });

  it("differs when the call did not wait for the lock", () => {
    expect(differencesAfter("ipam-kdd", "lock-held", '"waited_for_lock": true', '"waited_for_lock": false')).toEqual([
      "call 0 > waitedForLock",
    ]);
  });

  it("differs when a log is there or not, and not by what is in it", () => {
    const files = '"/run/calico/ipam.lock": ""';
    const [first, other, none] = ["one line", "another line", undefined].map((line) =>
      observations(
        "main",
        "version-1.0.0",
        readFileSync("test/golden/recordings/main/version-1.0.0.json", "utf8").replace(
          files,
          line === undefined ? files : `${files}, "/var/log/calico/cni/cni.log": "${line}"`,
        ),
      ),
    );
    expect(compareObservations(first ?? [], other ?? [])).toEqual([]);
    expect(compareObservations(first ?? [], none ?? []).map(({ path }) => path.join(" > "))).toEqual([
      "call 0 > files > /var/log/calico/cni/cni.log",
    ]);
  });

  it("differs in the setting of the link", () => {
    expect(differencesAfter("main", "dual-1.0.0", '/proxy_ndp": "1"', '/proxy_ndp": "0"')).toEqual([
      "call 0 > kernel > host > sysctls > ipv6/conf/calif3c3d6a083e/proxy_ndp",
    ]);
  });

  it("differs in the MAC when a link has not the one that the result names", () => {
    expect(differencesAfter("main", "version-1.0.0", '"address": "{{mac1}}"', '"address": "{{mac2}}"')).toEqual([
      "call 0 > stdout > value > interfaces > 1 > mac",
    ]);
  });

  it("differs in the sequence number when an update is missing", () => {
    expect(differencesAfter("ipam-kdd", "three-adds", '"sequenceNumber": "T1+3"', '"sequenceNumber": "T1+2"', "last")).toEqual([
      "call 2 > objects > blocks > 10.40.0.128/26 > sequenceNumber",
    ]);
  });

  it("differs in the state of the affinity", () => {
    expect(differencesAfter("main", "version-1.0.0", '"state": "confirmed"', '"state": "pending"')).toEqual([
      "call 0 > objects > affinities > node1 10.60.0.0/26 > state",
    ]);
  });
});

describe("error texts", () => {
  it("are the same when they are equal, and not otherwise", () => {
    expect(areEquivalent("file exists", "file exists")).toBe(true);
    expect(areEquivalent("file exists", "no such file")).toBe(false);
  });

  it("lose our word and next step, and nothing else", () => {
    expect(withoutNextStep("config is x; version-unsupported: set cniVersion")).toBe("config is x");
    expect(withoutNextStep("version-unsupported: set cniVersion")).toBe("");
    expect(withoutNextStep("dial tcp: connection refused")).toBe("dial tcp: connection refused");
  });
});
