import { reportFailedAdd } from "../../../../agent/attachments/failure-event.ts";
import type { EventText } from "../../../../agent/observe/events.ts";
import { ForeignCniError, TortieError } from "../../../../lib/errors/errors.ts";
import { Secrets } from "../../../../lib/log/secrets.ts";
import { withIgnoreUnknown } from "../../../../lib/workload/requested.ts";
import { EventServer } from "../../../support/event-server.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { fresh } from "../../../support/fixtures.ts";

const POD = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=u1";
const FULL = new TortieError("addresses-exhausted", "no address is free in pool4");

const failed = (args = POD) => ({ args: withIgnoreUnknown(args), secrets: new Secrets("hunter2hunter2") });

const server = fresh(() => new EventServer());

function fail(error: unknown, args?: string): void {
  const { writer: events, clock } = server;
  const podOf = (key: string) => (key === "shop/web" ? { uid: "u1", annotations: {} } : undefined);
  reportFailedAdd(failed(args), error, { events, podOf, clock });
}

const MINUTE_MS = 60_000;

describe("an ADD that fails", () => {
  it("is a warning at the pod with word and next step", async () => {
    fail(FULL);
    await server.clock.advance(0);
    expect(server.requests).toEqual([
      {
        ...{ method: "POST", path: "/api/v1/namespaces/shop/events" },
        body: expect.objectContaining({
          ...{ type: "Warning", reason: "NetworkAttachFailed", count: 1 },
          involvedObject: { apiVersion: "v1", kind: "Pod", namespace: "shop", name: "web", uid: "u1" },
          message: `no address is free in pool4 (addresses-exhausted); next: ${FULL.next}`,
        }),
      },
    ]);
  });

  it("raises the count of its event while the cause is the same, and is another event after ten quiet minutes", async () => {
    fail(FULL);
    await server.clock.advance(MINUTE_MS);
    fail(FULL);
    fail(FULL);
    await server.clock.advance(9 * MINUTE_MS);
    fail(new TortieError("addresses-exhausted", "no address is free in pool6"));
    await server.clock.advance(10 * MINUTE_MS);
    fail(FULL);
    await server.clock.advance(MINUTE_MS);
    expect(server.requests.map(({ method, body }) => [method, body.count])).toEqual([
      ["POST", 1],
      ["PATCH", 2],
      ["PATCH", 3],
      ["PATCH", 4],
      ["POST", 1],
    ]);
    expect(server.requests[0]?.body).toMatchObject({ metadata: { name: server.requests[1]?.path.split("/").at(-1) } });
    expect(server.requests[3]?.body).toEqual({
      ...{ count: 4, lastTimestamp: "2030-01-01T00:10:00.000Z" },
      message: expect.stringContaining("pool6"),
    });
    expect(server.requests[4]?.body.metadata).not.toEqual(server.requests[0]?.body.metadata);
  });

  it("is another event for another cause, and makes one again that has expired", async () => {
    fail(FULL);
    fail(new ForeignCniError(11, "try again later"));
    await server.clock.advance(MINUTE_MS);
    expect(server.requests.map(({ body }) => body.message)).toEqual([
      expect.stringContaining("(addresses-exhausted)"),
      "try again later (code 11)",
    ]);
    server.status = (method) => (method === "PATCH" ? 404 : 201);
    fail(FULL);
    await server.clock.advance(MINUTE_MS);
    expect(server.requests.slice(2).map(({ method, body }) => [method, body.count])).toEqual([
      ["PATCH", 2],
      ["POST", 2],
    ]);
  });

  it("goes on counting when the answer to its first request was lost", async () => {
    server.status = () => 500;
    fail(FULL);
    await server.clock.advance(MINUTE_MS);
    server.status = (method) => (method === "POST" ? 409 : 200);
    fail(FULL);
    await server.clock.advance(MINUTE_MS);
    expect(server.requests.map(({ method, body }) => [method, body.count])).toEqual([
      ["POST", 1],
      ["POST", 2],
      ["PATCH", 2],
    ]);
  });

  it("is not written of no pod, of a pod that is gone or was made again, and of a call that nobody waits for", async () => {
    fail(FULL, "");
    fail(FULL, POD.replace("web", "gone"));
    fail(FULL, POD.replace("u1", "u0"));
    fail(new TortieError("caller-gone", "the caller is gone"));
    await server.clock.advance(MINUTE_MS);
    expect(server.requests).toEqual([]);
  });

  it("shows no secret, and keeps the next step when the message is long", async () => {
    fail(new TortieError("datastore-unavailable", `token hunter2hunter2 ${"é".repeat(2_000)}`));
    await server.clock.advance(0);
    const message = String(server.requests[0]?.body.message);
    expect(message).not.toContain("hunter2");
    expect(message).toContain("(datastore-unavailable); next: make the datastore");
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(1024);
  });

  it("says once that the right is missing", async () => {
    server.status = () => 403;
    for (let round = 0; round < 3; round++) {
      fail(FULL);
      await server.clock.advance(MINUTE_MS);
    }
    expect(server.health.document().findings).toEqual([expect.stringContaining("may not create and patch events")]);
  });
});

it("an event's text tells who writes it", () => {
  const texts: EventText[] = [];
  const events = { report: (text: EventText) => void texts.push(text) };
  reportFailedAdd(failed(), new Error("unforeseen"), { events, podOf: () => ({ uid: "u1", annotations: {} }), clock: new FakeClock() });
  expect(texts.map(({ cause, whenRepeated }) => [cause, whenRepeated])).toEqual([["u1 internal", "count"]]);
});
