import { reportFailedAdd } from "../../../../agent/attachments/failure-event.ts";
import { type EventText, EventWriter } from "../../../../agent/observe/events.ts";
import { ForeignCniError, TortieError } from "../../../../lib/errors/errors.ts";
import { Secrets } from "../../../../lib/log/secrets.ts";
import { Health } from "../../../../lib/resident/health.ts";
import { withIgnoreUnknown } from "../../../../lib/workload/requested.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

const POD = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=u1";
const FULL = new TortieError("addresses-exhausted", "no address is free in pool4");

const failed = (args = POD) => ({ args: withIgnoreUnknown(args), secrets: new Secrets("hunter2hunter2") });

function world() {
  const clock = new FakeClock();
  const health = new Health(() => "ready", clock);
  const requests: { method: string; path: string; body: Record<string, unknown> }[] = [];
  const state = { status: (_method: string) => 201 };
  const events = new EventWriter({
    connection: {
      async exchange({ method, path, body = "" }) {
        requests.push({ method, path, body: JSON.parse(body) });
        return { status: state.status(method), body: "", contentType: "", retryAfter: "", mayBeSecond: false };
      },
    },
    ...{ node: "node-a", clock, log: { debug: () => {} }, health },
  });
  const pods = new Map([["shop/web", { uid: "u1", annotations: {} }]]);
  const fail = (error: unknown, args?: string) => reportFailedAdd(failed(args), error, { events, podOf: (key) => pods.get(key), clock });
  return { clock, health, requests, state, fail };
}

const MINUTE_MS = 60_000;

describe("an ADD that fails", () => {
  it("is a warning at the pod with word and next step", async () => {
    const { clock, requests, fail } = world();
    fail(FULL);
    await clock.advance(0);
    expect(requests).toEqual([
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
    const { clock, requests, fail } = world();
    fail(FULL);
    await clock.advance(MINUTE_MS);
    fail(FULL);
    fail(FULL);
    await clock.advance(9 * MINUTE_MS);
    fail(new TortieError("addresses-exhausted", "no address is free in pool6"));
    await clock.advance(10 * MINUTE_MS);
    fail(FULL);
    await clock.advance(MINUTE_MS);
    expect(requests.map(({ method, body }) => [method, body.count])).toEqual([
      ["POST", 1],
      ["PATCH", 2],
      ["PATCH", 3],
      ["PATCH", 4],
      ["POST", 1],
    ]);
    expect(requests[0]?.body).toMatchObject({ metadata: { name: requests[1]?.path.split("/").at(-1) } });
    expect(requests[3]?.body).toEqual({
      ...{ count: 4, lastTimestamp: "2030-01-01T00:10:00.000Z" },
      message: expect.stringContaining("pool6"),
    });
    expect(requests[4]?.body.metadata).not.toEqual(requests[0]?.body.metadata);
  });

  it("is another event for another cause, and makes one again that has expired", async () => {
    const { clock, requests, state, fail } = world();
    fail(FULL);
    fail(new ForeignCniError(11, "try again later"));
    await clock.advance(MINUTE_MS);
    expect(requests.map(({ body }) => body.message)).toEqual([
      expect.stringContaining("(addresses-exhausted)"),
      "try again later (code 11)",
    ]);
    state.status = (method) => (method === "PATCH" ? 404 : 201);
    fail(FULL);
    await clock.advance(MINUTE_MS);
    expect(requests.slice(2).map(({ method, body }) => [method, body.count])).toEqual([
      ["PATCH", 2],
      ["POST", 2],
    ]);
  });

  it("goes on counting when the answer to its first request was lost", async () => {
    const { clock, requests, state, fail } = world();
    state.status = () => 500;
    fail(FULL);
    await clock.advance(MINUTE_MS);
    state.status = (method) => (method === "POST" ? 409 : 200);
    fail(FULL);
    await clock.advance(MINUTE_MS);
    expect(requests.map(({ method, body }) => [method, body.count])).toEqual([
      ["POST", 1],
      ["POST", 2],
      ["PATCH", 2],
    ]);
  });

  it("is not written of no pod, of a pod that is gone or was made again, and of a call that nobody waits for", async () => {
    const { clock, requests, fail } = world();
    fail(FULL, "");
    fail(FULL, POD.replace("web", "gone"));
    fail(FULL, POD.replace("u1", "u0"));
    fail(new TortieError("caller-gone", "the caller is gone"));
    await clock.advance(MINUTE_MS);
    expect(requests).toEqual([]);
  });

  it("shows no secret, and keeps the next step when the message is long", async () => {
    const { clock, requests, fail } = world();
    fail(new TortieError("datastore-unavailable", `token hunter2hunter2 ${"é".repeat(2_000)}`));
    await clock.advance(0);
    const message = String(requests[0]?.body.message);
    expect(message).not.toContain("hunter2");
    expect(message).toContain("(datastore-unavailable); next: make the datastore");
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(1024);
  });

  it("says once that the right is missing", async () => {
    const { clock, health, state, fail } = world();
    state.status = () => 403;
    for (let round = 0; round < 3; round++) {
      fail(FULL);
      await clock.advance(MINUTE_MS);
    }
    expect(health.document().findings).toEqual([expect.stringContaining("may not create and patch events")]);
  });
});

it("an event's text tells who writes it", () => {
  const texts: EventText[] = [];
  const events = { report: (text: EventText) => void texts.push(text) };
  reportFailedAdd(failed(), new Error("unforeseen"), { events, podOf: () => ({ uid: "u1", annotations: {} }), clock: new FakeClock() });
  expect(texts.map(({ cause, whenRepeated }) => [cause, whenRepeated])).toEqual([["u1 internal", "count"]]);
});
