import type { Drop } from "../../../../agent/policy/drop.ts";
import { PolicyEvents } from "../../../../agent/policy/events.ts";
import type { PolicyStatus } from "../../../../policy/model.ts";
import { EventServer } from "../../../support/event-server.ts";
import { fresh } from "../../../support/fixtures.ts";
import { DROP as DROPPED, POLICY } from "../../../support/policy-view.ts";

const server = fresh(() => new EventServer());
const uidOf = (pod: string) => (pod === "shop/gone" ? undefined : `uid of ${pod}`);
const eventsOf = ({ writer, clock }: EventServer) => new PolicyEvents({ events: writer, uidOf, clock });
const events = fresh(() => eventsOf(server));

const DROP: Drop = {
  ...DROPPED,
  direction: "egress",
  destination: { address: "203.0.113.7", pod: undefined, identity: undefined, port: 5432 },
  explanation: "no rule of shop/close allows it",
};
const INVALID: PolicyStatus = { ...POLICY, problem: "spec.ingress[0].ports[0].port: 70000 is no port" };
const MINUTE_MS = 60_000;

describe("an event of a drop", () => {
  it("is a warning at the pod that says what was dropped and why", async () => {
    events.dropped(DROP);
    await server.clock.advance(0);
    expect(server.requests).toEqual([
      {
        method: "POST",
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
    for (let i = 0; i < 100; i++) events.dropped(DROP);
    events.dropped({ ...DROP, policies: ["shop/other"] });
    await server.clock.advance(9 * MINUTE_MS);
    events.dropped(DROP);
    await server.clock.advance(MINUTE_MS);
    expect(server.requests).toHaveLength(2);
    events.dropped(DROP);
    await server.clock.advance(MINUTE_MS);
    expect(server.requests).toHaveLength(3);
    expect(new Set(server.requests.map(({ body }) => body.metadata.name)).size).toBe(3);
  });

  it("is not written of what is no policy's doing, of no pod, and of one that is gone", async () => {
    events.dropped({ ...DROP, reason: "invalid" });
    events.dropped({ ...DROP, pod: undefined });
    events.dropped({ ...DROP, pod: "shop/gone" });
    await server.clock.advance(MINUTE_MS);
    expect(server.requests).toEqual([]);
  });

  it("has a name and a message that the server takes, whatever the pod and the policies are called", async () => {
    const name = `${"a".repeat(235)}-${"b".repeat(17)}`;
    events.dropped({ ...DROP, pod: `shop/${name}`, explanation: "ü".repeat(1000) });
    await server.clock.advance(0);
    const { metadata, message } = server.requests[0]?.body ?? { metadata: { name: "" }, message: "" };
    expect(metadata.name).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
    expect(metadata.name.length).toBeLessThanOrEqual(253);
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(1024);
  });
});

describe("an event of an invalid policy", () => {
  it("is one for each version, with the same name from every agent", async () => {
    events.invalid(INVALID);
    events.invalid(INVALID);
    events.invalid({ ...POLICY, resourceVersion: "42" });
    await server.clock.advance(MINUTE_MS);
    const other = new EventServer();
    eventsOf(other).invalid(INVALID);
    await other.clock.advance(MINUTE_MS);
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]?.body).toMatchObject({
      involvedObject: { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", namespace: "shop", name: "close", uid: "7" },
      reason: "NetworkPolicyInvalid",
      message: "it closes what it selects and opens nothing: spec.ingress[0].ports[0].port: 70000 is no port",
    });
    expect(other.requests[0]?.body.metadata).toEqual(server.requests[0]?.body.metadata);
  });
});

describe("events", () => {
  it("go to the server one a second, and a flood leaves most of them out", async () => {
    for (let i = 0; i < 500; i++) events.dropped({ ...DROP, pod: `shop/web-${i}` });
    await server.clock.advance(1000);
    expect(server.requests.length).toBeLessThanOrEqual(3);
    await server.clock.advance(10 * MINUTE_MS);
    expect(server.requests.length).toBeGreaterThanOrEqual(50);
    expect(server.requests.length).toBeLessThan(60);
  });

  it("that the account may not write are a finding until they can be written", async () => {
    server.status = () => 403;
    events.dropped(DROP);
    await server.clock.advance(2000);
    expect(server.health.document().findings).toEqual([
      "the agent's account may not create and patch events: what goes wrong is not said at the pods",
    ]);
    server.status = () => 409;
    events.invalid(INVALID);
    await server.clock.advance(2000);
    expect(server.health.document().findings).toEqual([]);
  });

  it("that the server does not take are left out, and those behind them are written", async () => {
    server.status = () => 500;
    events.dropped(DROP);
    await server.clock.advance(2000);
    server.status = () => 201;
    events.invalid(INVALID);
    await server.clock.advance(2000);
    expect(server.lines).toEqual(["an event was not written"]);
    expect(server.requests).toHaveLength(2);
    events.dropped({ ...DROP, pod: "shop/a" });
    await server.writer[Symbol.asyncDispose]();
    events.dropped({ ...DROP, pod: "shop/b" });
    expect(server.requests).toHaveLength(3);
  });
});
