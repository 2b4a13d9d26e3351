/** What the API refuses before, or instead of, doing something: over the real routes, with nothing behind them. */

import { endpointHandlers } from "../../../../agent/api/endpoint.ts";
import { identityHandlers } from "../../../../agent/api/identity.ts";
import { ipamHandlers } from "../../../../agent/api/ipam-service.ts";
import { READS } from "../../../../agent/api/lanes.ts";
import { nodeHandlers } from "../../../../agent/api/node.ts";
import { policyHandlers } from "../../../../agent/api/policy.ts";
import { buildApp } from "../../../../agent/api/routes.ts";
import type { Access } from "../../../../agent/api/socket.ts";
import { Configuration } from "../../../../agent/start/configuration.ts";
import { resolveOptions } from "../../../../agent/start/options.ts";

const unused = () => {
  throw new Error("nobody asks for this");
};

/** @returns asks the API; `built` has the levels of the builds that were asked for */
async function api(access: Access = "everything") {
  const built: number[] = [];
  const options = resolveOptions({}, {}, undefined);
  const parts = { options, env: {}, version: "0", bootId: "b", phase: () => "ready" as const };
  const configuration = new Configuration({ ...parts, setLevel: () => undefined });
  const mending = { trigger: ({ level }: { level: number }) => built.push(level) };
  const endpoint = { id: 7, record: {}, shownState: "ready", mending };
  const app = await buildApp({
    version: "0",
    handlers: {
      ...endpointHandlers({
        manager: {
          endpoints: unused,
          all: unused,
          get: unused,
          named: () => endpoint as never,
        },
        registration: { register: unused, change: unused },
        isConnected: unused,
        removal: unused,
        identityOf: unused,
        log: { error: unused },
      }),
      getHistory: unused,
      ...identityHandlers(unused),
      ...ipamHandlers(undefined),
      ...nodeHandlers({
        configuration: () => configuration.show(undefined),
        configure: (given) => configuration.change(given),
        health: unused,
        controllers: unused,
        metrics: unused,
        metricsText: unused,
      }),
      ...policyHandlers({ view: unused, ending: new AbortController().signal }),
    },
    callerOf: () => ({ peer: { pid: 1, uid: 0, gid: 0, groups: [] }, access }),
    onDefect: unused,
  });
  const ask = async (method: "PATCH" | "POST", path: string, body: unknown) => {
    const { statusCode: status, payload } = await app.inject({ method, url: `/v1${path}`, payload: body as object });
    return { status, json: payload === "" ? undefined : JSON.parse(payload) };
  };
  const get = (url: string) => app.inject({ method: "GET", url });
  return { ask, get, built };
}

describe("The API refuses", () => {
  it.each([
    ["/endpoint/7/config", { Debug: "true" }, /Debug: an endpoint has no such option/],
    ["/config", { "log-levle": "debug" }, /log-levle: there is no such option/],
    ["/config", { "log-level": "debug", mtu: "1400" }, /mtu: there is no such option/],
    ["/config", { "run-dir": "/elsewhere" }, /run-dir: cannot be changed while the agent runs/],
  ])("PATCH %s of %j, and does nothing", async (path, options, message) => {
    const { ask, built } = await api();
    expect(await ask("PATCH", path, { options })).toEqual({
      status: 400,
      json: expect.objectContaining({ word: "option-invalid", msg: expect.stringMatching(message) }),
    });
    expect(built).toEqual([]);
  });

  it("no PATCH of an endpoint's options without any: it is a build", async () => {
    const { ask, built } = await api();
    expect(await ask("PATCH", "/endpoint/7/config", {})).toMatchObject({ status: 200 });
    expect(await ask("PATCH", "/endpoint/7/config", { options: {} })).toMatchObject({ status: 200 });
    expect(built).toEqual([4, 3]);
  });

  it.each(["add", "del", "check", "gc", "status"])(
    "a %s of an earlier version's plugin with the word that makes it serve the call",
    async (verb) => {
      const { ask } = await api();
      expect(await ask("POST", `/cni/${verb}`, { protocol: 1, plugin: "0", stdin: "{}" })).toEqual({
        status: 400,
        json: expect.objectContaining({ word: "protocol-unsupported" }),
      });
    },
  );
});

describe("The API", () => {
  it.each(["/v1/endpoint/%", "/v1/%c3%28", `/v1/endpoint/${"7".repeat(7_000)}`])(
    "Hardening 4: answers a URL that no route can take in its own form of errors: %.40s",
    async (url) => {
      const { get } = await api();
      const { statusCode, payload } = await get(url);
      expect(statusCode).toBe(400);
      expect(JSON.parse(payload)).toEqual({
        code: expect.any(Number),
        word: "call-invalid",
        msg: expect.any(String),
        details: expect.any(String),
      });
    },
  );

  it("S16: limits reads of its document as it limits all others", async () => {
    const { get } = await api("read");
    const answers = await Promise.all(Array.from({ length: READS + 1 }, () => get("/v1/openapi.json")));
    expect(answers.map(({ statusCode }) => statusCode).sort()).toEqual([...Array(READS).fill(200), 429]);
    expect(new Set(answers.filter(({ statusCode }) => statusCode === 200).map(({ payload }) => payload)).size).toBe(1);
    expect(JSON.parse((await get("/v1/openapi.json")).payload)).toMatchObject({ openapi: "3.1.0" });
  });
});
