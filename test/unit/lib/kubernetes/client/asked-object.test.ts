import type { ApiRequest } from "../../../../../lib/kubernetes/api-client.ts";
import { connect, serve } from "../../../../support/api-behind-tls.ts";
import type { Reply } from "../../../../support/tls-server.ts";

const LEGACY = "crd.projectcalico.org/v1";
const POD = { apiVersion: "v1", kind: "Pod", metadata: { name: "a", namespace: "default", uid: "u-a" } };
const BLOCK = { apiVersion: LEGACY, kind: "IPAMBlock", metadata: { name: "10-0-0-0-26" } };
const POOLS = { apiVersion: LEGACY, kind: "IPPoolList", items: [] };
const AFFINITIES = { apiVersion: "projectcalico.org/v3", kind: "BlockAffinityList", items: [] };

const get = (path: string): ApiRequest => ({ method: "GET", path });
const PUT: ApiRequest = {
  method: "PUT",
  path: `/apis/${LEGACY}/ipamblocks/10-0-0-0-26`,
  body: JSON.stringify({ ...BLOCK, metadata: { ...BLOCK.metadata, resourceVersion: "7" } }),
};

describe("L3: an answer about something else than was asked for", () => {
  function start(...replies: readonly object[]) {
    const answers = replies.map((body): Reply => ({ status: 200, body: JSON.stringify(body) }));
    const server = serve((_request, index) => answers[Math.min(index, answers.length - 1)] ?? "close");
    return { server, client: connect(server, {}, { repetitions: 3 }) };
  }

  it.each<[string, ApiRequest, object, object]>([
    ["another pod", get("/api/v1/namespaces/default/pods/a"), POD, { ...POD, metadata: { ...POD.metadata, name: "b" } }],
    [
      "a pod of another namespace",
      get("/api/v1/namespaces/default/pods/a"),
      POD,
      { ...POD, metadata: { ...POD.metadata, namespace: "x" } },
    ],
    ["no name", get("/api/v1/namespaces/default/pods/a"), POD, { ...POD, metadata: {} }],
    ["another kind", get("/api/v1/namespaces/default/pods/a"), POD, { ...POD, kind: "Service" }],
    ["another version", get("/api/v1/namespaces/default/pods/a"), POD, { ...POD, apiVersion: "v2" }],
    ["nothing", get("/api/v1/namespaces/default"), { ...POD, kind: "Namespace", metadata: { name: "default" } }, {}],
    ["another node", get("/api/v1/nodes/n"), { apiVersion: "v1", kind: "Node", metadata: { name: "n" } }, POD],
    ["another block, for a write", PUT, BLOCK, { ...BLOCK, metadata: { name: "10-0-0-64-26" } }],
    ["another list", get(`/apis/${LEGACY}/ippools?limit=500`), POOLS, { ...POOLS, kind: "IPReservationList" }],
    ["a list of another group", get("/apis/projectcalico.org/v3/blockaffinities"), AFFINITIES, { ...AFFINITIES, apiVersion: LEGACY }],
    ["an object where a list is meant", get(`/apis/${LEGACY}/ippools`), POOLS, { ...POOLS, kind: "IPPool" }],
    [
      "another pod, for a patch",
      { method: "PATCH", path: "/api/v1/namespaces/default/pods/a/status", body: "[]" },
      POD,
      { ...POD, metadata: { ...POD.metadata, name: "b" } },
    ],
    [
      "another kind, for what is made",
      { method: "POST", path: `/apis/${LEGACY}/ipamblocks`, body: JSON.stringify(BLOCK) },
      BLOCK,
      { ...BLOCK, kind: "IPAMHandle" },
    ],
  ])("(%s) ends the connection, and the question is asked once more", async (_what, request, right, wrong) => {
    const { server, client } = start(wrong, right);

    expect(await client.request(request)).toBe(JSON.stringify(right));
    expect(server.requests.map(({ connection }) => connection)).toEqual([1, 2]);
  });

  it("is never data: when it does not get better, the request fails, and may have been carried out", async () => {
    const { client } = start({ ...BLOCK, metadata: { name: "10-0-0-64-26" } });

    const error: unknown = await client.request(PUT).catch((thrown: unknown) => thrown);

    expect(error).toMatchObject({ name: "ApiError", status: 0, isRepetition: true });
    expect(error).toMatchObject({ message: expect.stringContaining("the answer is about something else than was asked for") });
    expect(Bun.inspect(error)).not.toContain("10-0-0-64-26");
  });

  it.each([
    ["what is no object of the API", get("/version"), { gitVersion: "v1.30" }],
    ["the list of groups", get("/apis"), { kind: "APIGroupList" }],
    [
      "what a DELETE answers",
      { method: "DELETE", path: `/apis/${LEGACY}/ippools/a`, body: "{}" } as const,
      { kind: "Status", apiVersion: "v1" },
    ],
  ])("is not looked for in %s", async (_what, request, answer) => {
    const { client } = start(answer);

    expect(await client.request(request)).toBe(JSON.stringify(answer));
  });
});
