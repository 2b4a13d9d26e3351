import { EventWriter } from "../../../../agent/observe/events.ts";
import type { Drop } from "../../../../agent/policy/drop.ts";
import { PolicyEvents } from "../../../../agent/policy/events.ts";
import { Health } from "../../../../lib/resident/health.ts";
import type { PolicyStatus } from "../../../../policy/model.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

interface Written {
  readonly path: string;
  readonly body: Record<string, unknown> & { readonly message: string; readonly metadata: { readonly name: string } };
}

function world() {
  const clock = new FakeClock();
  const health = new Health(() => "ready", clock);
  const written: Written[] = [];
  const lines: string[] = [];
  const state = { status: 201 };
  const writer = new EventWriter({
    connection: {
      async exchange({ path, body = "" }) {
        written.push({ path, body: JSON.parse(body) });
        return { status: state.status, body: "", contentType: "", retryAfter: "", mayBeSecond: false };
      },
    },
    node: "node-a",
    clock,
    log: { debug: (text) => void lines.push(text) },
    health,
  });
  const uidOf = (pod: string) => (pod === "shop/gone" ? undefined : `uid of ${pod}`);
  const events = new PolicyEvents({ events: writer, uidOf, clock });
  return { clock, health, written, lines, state, events, writer };
}

const DROP: Drop = {
  time: "2026-01-02T03:04:05.678Z",
  hostInterface: "caliweb",
  pod: "shop/web",
  direction: "egress",
  reason: "denied",
  source: { address: "10.0.0.2", pod: "shop/web", identity: 70_000, port: 40_000 },
  destination: { address: "203.0.113.7", pod: undefined, identity: undefined, port: 5432 },
  protocol: "TCP",
  policies: ["shop/close"],
  decidedBy: undefined,
  explanation: "no rule of shop/close allows it",
};
const POLICY: PolicyStatus = {
  key: "shop/close",
  uid: "7",
  resourceVersion: "41",
  directions: ["ingress"],
  endpoints: [],
  problem: "spec.ingress[0].ports[0].port: 70000 is no port",
};
const MINUTE_MS = 60_000;

describe("an event of a drop", () => {
  it("is a warning at the pod that says what was dropped and why", async () => {
    const { clock, written, events } = world();
    events.dropped(DROP);
    await clock.advance(0);
    expect(written).toEqual([
      {
        path: "/api/v1/namespaces/shop/events",
        body: expect.objectContaining({
          involvedObject: { apiVersion: "v1", kind: "Pod", namespace: "shop", name: "web", uid: "uid of shop/web" },
          type: "Warning",
          reason: "NetworkPolicyDrop",
          message: "TCP port 5432 to 203.0.113.7 was dropped: no rule of shop/close allows it",
          source: { component: "tortie-node", host: "node-a" },
        }),
      },
    ]);
  });

  it("comes once in ten minutes for a pod and its policies", async () => {
    const { clock, written, events } = world();
    for (let i = 0; i < 100; i++) events.dropped(DROP);
    events.dropped({ ...DROP, policies: ["shop/other"] });
    await clock.advance(9 * MINUTE_MS);
    events.dropped(DROP);
    await clock.advance(MINUTE_MS);
    expect(written).toHaveLength(2);
    events.dropped(DROP);
    await clock.advance(MINUTE_MS);
    expect(written).toHaveLength(3);
    expect(new Set(written.map(({ body }) => body.metadata.name)).size).toBe(3);
  });

  it("is not written of what is no policy's doing, of no pod, and of one that is gone", async () => {
    const { clock, written, events } = world();
    events.dropped({ ...DROP, reason: "invalid" });
    events.dropped({ ...DROP, pod: undefined });
    events.dropped({ ...DROP, pod: "shop/gone" });
    await clock.advance(MINUTE_MS);
    expect(written).toEqual([]);
  });

  it("has a name and a message that the server takes, whatever the pod and the policies are called", async () => {
    const { clock, written, events } = world();
    const name = `${"a".repeat(235)}-${"b".repeat(17)}`;
    events.dropped({ ...DROP, pod: `shop/${name}`, explanation: "ü".repeat(1000) });
    await clock.advance(0);
    const { metadata, message } = written[0]?.body ?? { metadata: { name: "" }, message: "" };
    expect(metadata.name).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
    expect(metadata.name.length).toBeLessThanOrEqual(253);
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(1024);
  });
});

describe("an event of an invalid policy", () => {
  it("is one for each version, with the same name from every agent", async () => {
    const { clock, written, events } = world();
    events.invalid(POLICY);
    events.invalid(POLICY);
    events.invalid({ ...POLICY, problem: undefined, resourceVersion: "42" });
    await clock.advance(MINUTE_MS);
    const other = world();
    other.events.invalid(POLICY);
    await other.clock.advance(MINUTE_MS);
    expect(written).toHaveLength(1);
    expect(written[0]?.body).toMatchObject({
      involvedObject: { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", namespace: "shop", name: "close", uid: "7" },
      reason: "NetworkPolicyInvalid",
      message: "it closes what it selects and opens nothing: spec.ingress[0].ports[0].port: 70000 is no port",
    });
    expect(other.written[0]?.body.metadata).toEqual(written[0]?.body.metadata);
  });
});

describe("events", () => {
  it("go to the server one a second, and a flood leaves most of them out", async () => {
    const { clock, written, events } = world();
    for (let i = 0; i < 500; i++) events.dropped({ ...DROP, pod: `shop/web-${i}` });
    await clock.advance(1000);
    expect(written.length).toBeLessThanOrEqual(3);
    await clock.advance(10 * MINUTE_MS);
    expect(written.length).toBeGreaterThanOrEqual(50);
    expect(written.length).toBeLessThan(60);
  });

  it("that the account may not write are a finding until they can be written", async () => {
    const { clock, health, state, events } = world();
    state.status = 403;
    events.dropped(DROP);
    await clock.advance(2000);
    expect(health.document().findings).toEqual([
      "the agent's account may not create and patch events: what goes wrong is not said at the pods",
    ]);
    state.status = 409;
    events.invalid(POLICY);
    await clock.advance(2000);
    expect(health.document().findings).toEqual([]);
  });

  it("that the server does not take are left out, and those behind them are written", async () => {
    const { clock, written, lines, state, events, writer } = world();
    state.status = 500;
    events.dropped(DROP);
    await clock.advance(2000);
    state.status = 201;
    events.invalid(POLICY);
    await clock.advance(2000);
    expect(lines).toEqual(["an event was not written"]);
    expect(written).toHaveLength(2);
    events.dropped({ ...DROP, pod: "shop/a" });
    await writer[Symbol.asyncDispose]();
    events.dropped({ ...DROP, pod: "shop/b" });
    expect(written).toHaveLength(3);
  });
});
