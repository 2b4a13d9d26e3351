/** What the API refuses before, or instead of, doing something: over the real routes, with nothing behind them. */
import { Configuration } from "../../../../agent/process/configuration.ts";
import { resolveOptions } from "../../../../agent/process/options.ts";
import { cniHandlers } from "../../../../agent/server/routes/cni.ts";
import { endpointHandlers } from "../../../../agent/server/routes/endpoints.ts";
import { ipamHandlers } from "../../../../agent/server/routes/ipam.ts";
import { nodeHandlers } from "../../../../agent/server/routes/node.ts";
import { buildApp } from "../../../../agent/server/routes.ts";

const unused = () => {
  throw new Error("nobody asks for this");
};

/** @returns asks the API; `built` has the levels of the builds that were asked for */
async function api() {
  const built: number[] = [];
  const options = resolveOptions({}, {}, undefined);
  const parts = { options, env: {}, version: "0", bootId: "b", phase: () => "ready" as const, addressing: () => undefined };
  const configuration = new Configuration({ ...parts, setLevel: () => undefined });
  const endpoint = { id: 7, record: {}, shownState: "ready" };
  const app = await buildApp({
    version: "0",
    handlers: {
      ...cniHandlers({ serve: async () => ({ status: 200, body: "" }), isKnown: () => false }),
      ...endpointHandlers({
        endpoints: unused,
        named: () => endpoint as never,
        isConnected: unused,
        build: (_, level) => built.push(level),
        register: unused,
        change: unused,
        remove: unused,
      }),
      ...ipamHandlers(undefined),
      ...nodeHandlers({
        configuration: () => configuration.show(),
        configure: (given) => configuration.change(given),
        health: unused,
        controllers: unused,
        metrics: unused,
        metricsText: unused,
      }),
      cniStatus: unused,
    },
    callerOf: () => ({ peer: { pid: 1, uid: 0, gid: 0, groups: [] }, access: "everything" }),
    onDefect: unused,
    ending: new AbortController().signal,
  });
  const ask = async (method: "PATCH" | "POST", path: string, body: unknown) => {
    const { statusCode: status, payload } = await app.inject({ method, url: `/v1${path}`, payload: body as object });
    return { status, json: payload === "" ? undefined : JSON.parse(payload) };
  };
  return { ask, built };
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

  it.each(["add", "del", "check", "gc", "status"])("a %s of another protocol by its word, whatever else is in it", async (verb) => {
    const { ask } = await api();
    const refused = {
      status: 400,
      json: expect.objectContaining({ word: "protocol-unsupported", msg: expect.stringContaining("only 1") }),
    };
    expect(await ask("POST", `/cni/${verb}`, { protocol: 2 })).toEqual(refused);
    expect(await ask("POST", `/cni/${verb}`, { protocol: 2, plugin: 7, stdin: { name: "net1" }, netns: "/run/netns/a" })).toEqual(refused);
  });

  it.each([{}, { protocol: 1 }, { protocol: "2" }, [], { protocol: 1, plugin: "0", stdin: 7 }])(
    "the call %j as one that is not valid",
    async (body) => {
      const { ask } = await api();
      expect(await ask("POST", "/cni/add", body)).toMatchObject({ status: 400, json: { word: "call-invalid" } });
    },
  );
});
