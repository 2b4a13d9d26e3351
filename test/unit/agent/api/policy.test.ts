/** What the API answers about policy: over the real routes, with a view that the test makes. */
import Ajv from "ajv";
import { DropStream } from "../../../../agent/api/drop-stream.ts";
import { MODELS } from "../../../../agent/api/operation.ts";
import { OPERATIONS } from "../../../../agent/api/operations.ts";
import { policyHandlers } from "../../../../agent/api/policy.ts";
import type { Drop } from "../../../../agent/policy/drop.ts";
import type { PolicyView } from "../../../../agent/policy/view.ts";
import { TortieError } from "../../../../lib/errors/errors.ts";
import { NEVER } from "../../../../lib/system/waiting.ts";
import { DROP, POLICY, policyView } from "../../../support/policy-view.ts";

const VIEW = policyView({
  enforcement: "always",
  gaps: () => ["a gap"],
  unread: () => [{ kind: "AdminNetworkPolicy", atLeast: 3 }],
  conflicts: () => [{ address: "10.0.0.9", pods: ["a/x", "b/y"] }],
  policies: () => [POLICY, { key: "shop/bad", uid: "8", resourceVersion: "40", directions: [], endpoints: [], problem: "no" }],
  realisation: (policy) => ({
    resourceVersion: "41",
    pending: policy === "shop/bad" ? [{ hostInterface: "caliweb", reason: "later" }] : [],
  }),
  drops: {
    recent: (name) => (name === undefined || name === "caliweb" ? [DROP] : []),
    missed: 3,
    shown: () => [{ direction: "ingress", reason: "denied", packets: 7 }],
    follow: () => () => undefined,
  },
  counters: async () => [
    { direction: "ingress", reason: "denied", packets: 12n, bytes: 700n },
    { direction: "egress", reason: "invalid", packets: 0n, bytes: 0n },
  ],
});

/** Holds an answer to the schema that the document shows. */
function conforms(name: "getPolicy" | "explainPolicy" | "getPolicyDrops" | "waitForPolicy", body: unknown): unknown {
  const ajv = new Ajv({ strict: false });
  for (const schema of MODELS.values()) ajv.addSchema(schema);
  const sent: unknown = JSON.parse(JSON.stringify(body));
  const isValid = ajv.compile(OPERATIONS[name].answers[200]);
  expect(isValid(sent) || isValid.errors).toBe(true);
  return sent;
}

const handlers = (given: Partial<PolicyView> = {}) => policyHandlers({ view: () => ({ ...VIEW, ...given }), ending: NEVER });
const request = { params: undefined, body: undefined, headers: {} };

describe("the API of policy", () => {
  it("lists policies with their state, and what is not enforced", async () => {
    const { body } = await handlers().getPolicy({ ...request, query: undefined });
    expect(conforms("getPolicy", body)).toEqual({
      enforcement: "always",
      gaps: ["a gap"],
      unread: [{ kind: "AdminNetworkPolicy", "at-least": 3 }],
      conflicts: [{ address: "10.0.0.9", pods: ["a/x", "b/y"] }],
      policies: [
        {
          namespace: "shop",
          name: "close",
          uid: "7",
          "resource-version": "41",
          directions: ["ingress"],
          endpoints: [{ "host-interface": "caliweb", pod: "shop/web" }],
          realised: true,
          "realised-version": "41",
          pending: [],
        },
        expect.objectContaining({
          name: "bad",
          problem: "no",
          realised: false,
          pending: [{ "host-interface": "caliweb", pod: "shop/web", reason: "later" }],
        }),
      ],
    });
  });

  it("explains a connection", async () => {
    const { body } = await handlers().explainPolicy({ ...request, query: { from: "shop/db", to: "shop/web", port: 8081 } });
    expect(conforms("explainPolicy", body)).toMatchObject({
      from: { pod: "shop/db", "host-interface": "calidb", addresses: ["10.0.0.1", "fd00::1"] },
      to: { identity: 4711 },
      protocol: "TCP",
      port: 8081,
      verdicts: [
        { family: "ipv4", verdict: "deny", ingress: { "decided-by": { rule: 0 }, "peer-class": "0123456789ab" }, notes: [] },
        { family: "ipv6" },
      ],
    });
  });

  it("shows drops with the kernel's counters, of one endpoint or all, and without them where the table is being made", async () => {
    const ask = async (endpoint?: string, given: Partial<PolicyView> = {}) =>
      conforms("getPolicyDrops", (await handlers(given).getPolicyDrops({ ...request, query: { endpoint } })).body);
    expect(await ask()).toEqual({
      drops: [expect.objectContaining({ "host-interface": "caliweb", "decided-by": DROP.decidedBy, source: DROP.source })],
      counts: [
        { direction: "ingress", reason: "denied", dropped: 12, shown: 7 },
        { direction: "egress", reason: "invalid", dropped: 0, shown: 0 },
      ],
      missed: 3,
    });
    expect(await ask("shop/db")).toMatchObject({ drops: [] });
    await expect(ask("nobody")).rejects.toMatchObject({ word: "endpoint-unknown" });
    const refused = () => Promise.reject(new TortieError("policy-failed", "no table"));
    expect(await ask(undefined, { counters: refused })).toMatchObject({ drops: [{}], counts: [] });
    await expect(ask(undefined, { counters: () => Promise.reject(new Error("a defect")) })).rejects.toThrow("a defect");
  });

  it("waits until the time is over, or the agent ends", async () => {
    const pending = () => [{ hostInterface: "caliweb", reason: "later" }];
    const changed = (signal: AbortSignal) => new Promise<void>((_, no) => signal.addEventListener("abort", () => no(signal.reason)));
    const ending = new AbortController();
    const slow = policyHandlers({ view: () => ({ ...VIEW, gaps: () => [], pending, changed }), ending: ending.signal });
    const ask = (timeout: number) => slow.waitForPolicy({ ...request, query: { timeout } });
    const expected = { realised: false, pending: [{ "host-interface": "caliweb", pod: "shop/web", reason: "later" }], reasons: [] };
    expect(conforms("waitForPolicy", (await ask(0.02)).body)).toEqual(expected);
    const waiting = ask(300);
    ending.abort();
    expect((await waiting).body).toEqual(expected);
  });
});

/** Followers of a history, and what they are told. */
function history() {
  const followers = new Set<(drop: Drop) => void>();
  const follow = (listener: (drop: Drop) => void) => {
    followers.add(listener);
    return () => followers.delete(listener);
  };
  const drop = (change: Partial<Drop> = {}) => {
    for (const follower of followers) follower({ ...DROP, ...change });
  };
  return { followers, follow, drop };
}

const text = ({ explanation }: Drop) => JSON.stringify({ explanation });

describe("drops as they come", () => {
  it("are a line each, of one endpoint, until the reader goes", async () => {
    const { followers, follow, drop } = history();
    const stream = new DropStream({ follow }, "caliweb", NEVER, text);
    drop({ explanation: "first" });
    drop({ hostInterface: "calidb", explanation: "another's" });
    const lines: string[] = [];
    stream.on("data", (chunk: string) => lines.push(...chunk.split("\n").filter((line) => line !== "")));
    await Bun.sleep(1);
    drop({ explanation: "second" });
    await Bun.sleep(1);
    expect(lines).toEqual(['{"explanation":"first"}', '{"explanation":"second"}']);
    stream.destroy();
    await Bun.sleep(1);
    expect(followers.size).toBe(0);
  });

  it("are lost to a reader that is too slow, which is told how many", async () => {
    const { follow, drop } = history();
    const stream = new DropStream({ follow }, undefined, NEVER, text);
    for (let i = 0; i < 1_000; i++) drop();
    const lines: string[] = [];
    stream.on("data", (chunk: string) => lines.push(...chunk.split("\n").filter((line) => line !== "")));
    await Bun.sleep(5);
    drop();
    await Bun.sleep(5);
    const missed = lines.flatMap((line) => JSON.parse(line).missed ?? []);
    expect(missed).toHaveLength(1);
    expect(lines.length - 1 + missed[0]).toBe(1_001);
    expect(lines.length).toBeLessThan(500);
    stream.destroy();
  });

  it("end in order with the agent", async () => {
    const { followers, follow, drop } = history();
    const ending = new AbortController();
    const stream = new DropStream({ follow }, undefined, ending.signal, text);
    drop();
    ending.abort();
    const chunks: string[] = [];
    for await (const chunk of stream) chunks.push(String(chunk));
    expect(chunks.join("")).toContain(DROP.explanation);
    expect(followers.size).toBe(0);
    const late = new DropStream({ follow }, undefined, ending.signal, text);
    for await (const chunk of late) expect(String(chunk)).toBe("\n");
    expect(followers.size).toBe(0);
  });
});
