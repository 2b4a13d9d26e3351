/** The explanation that is made of facts, and the repair that follows from them; what looks them up is tested on real nodes. */
import { explain } from "../../../../doctor/explain/explain.ts";
import type { ExplainedAttachment } from "../../../../doctor/explain/explanation.ts";
import type { AttachmentFacts, ExplainFacts } from "../../../../doctor/explain/facts.ts";
import { judgeAttachment } from "../../../../doctor/explain/judge.ts";
import { planRepair } from "../../../../doctor/repair/plan.ts";
import { failed, warned } from "../../../../doctor/report.ts";

const SHOWN: ExplainedAttachment = {
  network: "net1",
  containerId: "aa11",
  ifname: "eth0",
  pod: "default/web",
  state: "ready",
  addresses: ["10.0.0.1"],
  hostEnd: { name: "cali1", state: "up" },
  routes: [],
  sysctls: [],
  rules: [],
  annotations: {},
  chained: [],
};

function attached(changes: Partial<AttachmentFacts> = {}): AttachmentFacts {
  return { shown: SHOWN, differences: [], sandbox: "there", recordDifferences: [], ...changes };
}

function facts(changes: Partial<ExplainFacts> = {}): ExplainFacts {
  const about = { time: "2026-01-01T00:00:00Z", host: "h", version: "1", subject: { kind: "pod", name: "default/web" } } as const;
  return { ...about, attachments: [], addresses: [], history: [], surroundings: [], leftovers: [], ...changes };
}

const ROUTE = { side: "host", object: "route 10.0.0.1/32", wanted: "dev cali1 scope link", found: "missing" } as const;

it("puts what failed before what warns, and takes the next step of the gravest", () => {
  const surroundings = [
    { group: "agent", check: "health", ...warned("agent", "is old", { next: "restart it" }) },
    { group: "datastore", check: "reachable", ...failed("datastore", "is away", { next: "start it" }) },
  ];

  const { results, next } = explain(facts({ attachments: [attached()], surroundings }));

  expect(results.map(({ status }) => status)).toEqual(["failed", "warning", "ok"]);
  expect(next).toBe("start it");
});

it.each([
  ["a pod that is as it should be", facts({ attachments: [attached()] }), "present", "nothing: all is as it should be"],
  ["a pod that nobody knows", facts(), "absent", expect.stringContaining("on its own node")],
  ["a word", facts({ subject: { kind: "word", name: "addresses-exhausted" } }), "word", expect.stringContaining("add a pool")],
] as const)("says of %s how it stands and what to do", (_, given, standing, next) => {
  expect(explain(given)).toMatchObject({ standing, next });
});

it("tells the error of the last operation of a pod that has no network, and not of one that has", () => {
  const history = [
    {
      time: "2026-01-01T00:00:00Z",
      event: "add",
      outcome: "failed",
      addresses: [],
      steps: [],
      message: "no room",
      word: "addresses-exhausted",
    } as const,
  ];

  expect(explain(facts({ history })).results).toMatchObject([
    { check: "last-operation", message: "no room", next: expect.stringContaining("add a pool") },
  ]);
  expect(explain(facts({ history, attachments: [attached()] })).results.map(({ status }) => status)).toEqual(["ok"]);
});

const CLOSED = { isKnown: false, differences: ["map to-endpoint lacks cali1"], isServed: true } as const;
const OTHERWISE = { ...CLOSED, isKnown: true } as const;

describe("a repair", () => {
  it.each([
    ["of what differs on the host mends it", attached({ differences: [ROUTE] }), ["mend"], 0],
    ["of a record that is wrong writes it", attached({ recordDifferences: ["it says 10.0.0.2"] }), ["record"], 0],
    ["of a container that is gone removes it", attached({ sandbox: "gone", differences: undefined }), ["remove"], 0],
    ["of a pod that the policy's table does not know has the agent open it", attached({ policy: CLOSED }), ["policy"], 0],
    ["of a pod that the table judges otherwise has the agent mend it", attached({ policy: OTHERWISE }), ["policy"], 0],
    ["of a table that is missing has the agent make it", attached({ policy: { ...CLOSED, isKnown: undefined } }), ["policy"], 0],
    ["of a closed pod leaves it to an agent where there is none", attached({ policy: { ...CLOSED, isServed: false } }), [], 2],
    ["of a pod that policy judges as it should does nothing", attached({ policy: { ...OTHERWISE, differences: [] } }), [], 0],
    ["of a link whose sandbox nobody can prove does nothing", attached({ sandbox: "lost", differences: undefined }), [], 1],
    ["of what differs inside the container does nothing", attached({ differences: [{ ...ROUTE, side: "pod" }] }), [], 1],
    ["of what waits for its DEL does nothing", attached({ differences: [ROUTE], deletionWaitsSince: "2026-01-01T00:00:00Z" }), [], 1],
  ] as const)("%s", (_, given, kinds, left) => {
    const plan = planRepair(given);

    expect(plan.actions.map(({ kind }) => kind)).toEqual(kinds);
    expect(plan.left).toHaveLength(left);
  });
});

it("gives each thing that is wrong its next step", () => {
  const everything = attached({
    differences: [
      ROUTE,
      { ...ROUTE, side: "pod" },
      { side: "host", object: "setting net/ipv4/conf/cali1/rp_filter", wanted: "1", found: "0" },
    ],
    recordDifferences: ["it says 10.0.0.2"],
    deletionWaitsSince: "2026-01-01T00:00:00Z",
    policy: { isKnown: false, differences: [], isServed: true },
    shown: { ...SHOWN, mtu: { hostEnd: 1500, podEnd: 1400, uplink: { name: "eth0", mtu: 1300 } } },
  });

  const wrong = judgeAttachment(everything).filter(({ status }) => status === "failed" || status === "warning");

  expect(wrong.map(({ check }) => check)).toEqual(["route", "route", "sysctl", "record", "mtu", "mtu", "endpoint", "deletion"]);
  expect(wrong.filter(({ next }) => next === undefined || next === "")).toEqual([]);
});
