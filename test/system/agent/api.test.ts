/** The API of a real agent: who may call it, what endpoints are called, what bad requests do, and that it is what its document says. */
import { execFileSync } from "node:child_process";
import Ajv from "ajv/dist/2020.js";
import { Agent, type AgentAnswer } from "../../support/agent.ts";
import { exchangeRaw, GROUP, HAS_OTHER_USERS, statusAs, watchingModes, withSocketGroup } from "../../support/agent-as-user.ts";
import { addByAgent } from "../../support/agent-calls.ts";
import { dualIpam, localConf, podArgs } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node } from "../../support/node.ts";

const node = fresh(Node.create);
const agent = fresh(() => Agent.start(node));

/** Adds the pod default/web as container cid1. @returns its addresses */
async function addWeb(): Promise<readonly string[]> {
  const conf = localConf(node, { ipam: dualIpam("46") });
  return (await addByAgent(agent, conf, { pod: await node.addPod(), args: podArgs("web") })).addresses;
}

describe("The API of the agent", () => {
  (HAS_OTHER_USERS ? it : it.skip)(
    "A-P01: root may do everything, the socket's group may read, nobody else anything; never wider rights than 0660",
    async () => {
      await using node = await Node.create();
      const start = () => Agent.start(node, withSocketGroup(node));
      const [agent, wider] = await watchingModes(`${node.dir}/run/tortie.sock`, 0o660, start);
      await using _ = agent;
      expect(wider).toEqual([]);
      const [stat] = execFileSync("stat", ["-c", "%a %u %g", agent.socket], { encoding: "utf8" }).split("\n");
      expect(stat).toBe(`660 0 ${GROUP}`);

      const body = { "container-id": "cid9", addressing: { ipv4: "192.0.2.1" } };
      const stranger = { uid: 12_345, gid: 12_345 };
      const member = { uid: 12_345, gid: 12_345, groups: [GROUP] };
      // The file's rights keep a stranger out already; with them widened the peer's credentials still do.
      expect(await statusAs(agent, stranger, "GET", "/config")).toBe(0);
      execFileSync("chmod", ["666", agent.socket]);
      expect(await statusAs(agent, stranger, "GET", "/config")).toBe(403);
      expect(await statusAs(agent, member, "GET", "/config")).toBe(200);
      expect(await statusAs(agent, member, "GET", "/openapi.json")).toBe(200);
      expect(await statusAs(agent, member, "PUT", "/endpoint/0", body)).toBe(403);
      expect(await statusAs(agent, { uid: 0, gid: 0 }, "PUT", "/endpoint/0", body)).toBe(201);
    },
  );

  it("A-P02: finds one endpoint by each of its names, and says what is wrong with others", async () => {
    const addresses = await addWeb();
    const [list] = (await agent.request("GET", "/endpoint")).json as [{ id: number }];
    const names = [
      String(list.id),
      `local:${list.id}`,
      `cilium-local:0x${list.id.toString(16)}`,
      "container-id:cid1",
      "attachment:cid1:eth0",
      "cni-attachment-id:cid1:eth0",
      "pod-name:default/web",
      "pod-name:default:web",
      ...addresses.map((address) => `${address.includes(":") ? "ipv6" : "ipv4"}:${address}`),
    ];
    for (const name of names) {
      const found = await agent.request("GET", `/endpoint/${encodeURIComponent(name)}`);
      expect([name, found.status, found.json]).toEqual([name, 200, expect.objectContaining({ id: list.id })]);
    }
    for (const name of ["cilium-global:x", "docker-endpoint:x", "65537", "nonsense", "ipv4:fd00::1"]) {
      expect([name, (await agent.request("GET", `/endpoint/${encodeURIComponent(name)}`)).status]).toEqual([name, 400]);
    }
    for (const name of ["4000", "container-id:cid2", "pod-name:default/db", "ipv4:192.0.2.1"]) {
      const found = await agent.request("GET", `/endpoint/${encodeURIComponent(name)}`);
      expect([name, found]).toEqual([
        name,
        expect.objectContaining({ status: 404, json: expect.objectContaining({ word: "endpoint-unknown" }) }),
      ]);
    }
    const text = await agent.request("GET", "/endpoint/4000", undefined, { accept: "text/plain" });
    expect([text.headers.get("content-type"), text.text]).toEqual([expect.stringContaining("text/plain"), "endpoint not found: 4000\n"]);
  });

  it("A-P08: takes the same endpoint twice, and refuses another MAC and another container with its address", async () => {
    const body = {
      attachment: { network: "net1", "container-id": "cid1", ifname: "eth0" },
      mac: "02:00:00:00:00:01",
      addressing: { ipv4: "192.0.2.1", ipv6: "2001:db8::1" },
      labels: ["k8s:app=web"],
    };
    expect(await agent.request("PUT", "/endpoint/0", body)).toMatchObject({ status: 201, json: { id: expect.any(Number) } });
    expect(await agent.request("PUT", "/endpoint/0", body)).toMatchObject({ status: 200, json: { status: { labels: ["k8s:app=web"] } } });
    const otherMac = await agent.request("PUT", "/endpoint/0", { ...body, mac: "02:00:00:00:00:02" });
    expect(otherMac).toMatchObject({ status: 409, json: { word: "endpoint-differs", msg: expect.stringContaining("mac") } });
    const other = { ...body, attachment: { ...body.attachment, "container-id": "cid2" } };
    expect(await agent.request("PUT", "/endpoint/0", other)).toMatchObject({ status: 409, json: { word: "address-taken" } });
    const moved = { addressing: { ipv4: "192.0.2.2" } };
    expect(await agent.request("PATCH", "/endpoint/container-id:cid1", moved)).toMatchObject({
      status: 409,
      json: { word: "endpoint-immutable" },
    });
    const labelled = await agent.request("PATCH", "/endpoint/container-id:cid1/labels", { user: ["k8s:app=db"] });
    expect(labelled).toMatchObject({ status: 200, json: { user: ["k8s:app=db"] } });
    expect((await agent.request("GET", "/endpoint?label=k8s:app=db")).json).toHaveLength(1);
    expect((await agent.request("GET", "/endpoint?label=k8s:app=web")).json).toEqual([]);
    expect(await agent.request("DELETE", "/endpoint/container-id:cid1")).toMatchObject({ status: 200, text: "" });
    expect(await agent.request("DELETE", "/endpoint/container-id:cid1")).toMatchObject({ status: 404 });
  });

  it("A-P09: answers bad MACs, addresses, labels, huge, cut and nested bodies with 400 or 413, and goes on", async () => {
    const put = (body: unknown) => agent.request("PUT", "/endpoint/0", body);
    const good = { "container-id": "cid1" };
    const bad: readonly unknown[] = [
      { ...good, mac: "02:00:00:00:00" },
      { ...good, addressing: { ipv4: "192.0.2.300" } },
      { ...good, addressing: { ipv4: "2001:db8::1" } },
      { ...good, labels: ["no-source"] },
      { ...good, labels: ["reserved:host"] },
      { ...good, labels: "k8s:app=web" },
      { ...good, "interface-index": "7" },
      { ...good, unknown: 1 },
      {},
      [],
      "null",
      "7",
      "{",
      '{"container-id": "cid1"',
      "[".repeat(100_000),
    ];
    for (const body of bad) {
      const answer = await put(body);
      expect([String(JSON.stringify(body)).slice(0, 80), answer.status, answer.json]).toEqual([
        expect.anything(),
        400,
        expect.objectContaining({ word: "call-invalid", code: 4, msg: expect.any(String) }),
      ]);
    }
    expect((await put({ ...good, "container-name": "x".repeat(1 << 20) })).status).toBe(413);
    expect((await agent.request("TRACE", "/config")).status).toBeGreaterThanOrEqual(400);
    expect(await agent.request("GET", "/nothing")).toMatchObject({ status: 404, json: { word: "operation-unknown" } });

    const head = "PUT /v1/endpoint/0 HTTP/1.1\r\nHost: agent\r\nContent-Type: application/json\r\n";
    expect(await exchangeRaw(agent, `${head}Content-Length: 500\r\n\r\n{"container-id"`)).not.toContain(" 201 ");
    expect(await exchangeRaw(agent, "no request at all\r\n\r\n")).not.toContain(" 200 ");
    expect(await exchangeRaw(agent, new Uint8Array(4096).fill(0xff))).not.toContain(" 200 ");
    expect(await exchangeRaw(agent, `${head}Content-Length: -1\r\n\r\n`)).not.toContain(" 201 ");
    expect((await agent.request("GET", "/endpoint")).json).toEqual([]);
    expect(agent.isRunning).toBe(true);
  });

  it("A-P11: is what its OpenAPI document says, in requests and in answers", async () => {
    const document = (await agent.request("GET", "/openapi.json")).json as OpenApi;
    expect(document.openapi).toBe("3.1.0");
    const judge = judgeOf(document);
    const addresses = await addWeb();
    const id = "container-id:cid1";
    const asked: readonly [method: string, path: string, template: string, body?: unknown][] = [
      ["GET", "/config", "/config"],
      ["PATCH", "/config", "/config", { options: { "log-level": "debug" } }],
      ["PATCH", "/config", "/config", { options: { "run-dir": "/elsewhere" } }],
      ["GET", "/healthz", "/healthz"],
      ["GET", "/controllers", "/controllers"],
      ["GET", "/metrics/", "/metrics/"],
      ["GET", "/metrics", "/metrics"],
      ["GET", "/endpoint", "/endpoint"],
      ["GET", "/endpoint?state=ready&label=a:b", "/endpoint"],
      ["GET", "/endpoint?state=unheard-of", "/endpoint"],
      ["GET", `/endpoint/${id}`, "/endpoint/{id}"],
      ["GET", "/endpoint/x:y", "/endpoint/{id}"],
      ["PUT", "/endpoint/0", "/endpoint/{id}", { "container-id": "cid2", addressing: { ipv4: "192.0.2.1" } }],
      [
        "PUT",
        "/endpoint/0",
        "/endpoint/{id}",
        { "container-id": "cid3", addressing: { ipv4: addresses[0]?.includes(":") ? addresses[1] : addresses[0] } },
      ],
      ["PATCH", "/endpoint/container-id:cid2", "/endpoint/{id}", { mac: "02:00:00:00:00:09" }],
      ["GET", `/endpoint/${id}/config`, "/endpoint/{id}/config"],
      ["PATCH", `/endpoint/${id}/config`, "/endpoint/{id}/config", {}],
      ["GET", `/endpoint/${id}/labels`, "/endpoint/{id}/labels"],
      ["PATCH", `/endpoint/${id}/labels`, "/endpoint/{id}/labels", { user: ["user:a=b"] }],
      ["GET", `/endpoint/${id}/log`, "/endpoint/{id}/log"],
      ["GET", `/endpoint/${id}/healthz`, "/endpoint/{id}/healthz"],
      ["POST", `/endpoint/${id}/build`, "/endpoint/{id}/build", { level: 1, reason: "a test" }],
      ["DELETE", "/endpoint", "/endpoint", { "container-id": "cid2" }],
      ["GET", "/ipam", "/ipam"],
      ["POST", "/ipam?owner=somebody&family=ipv4", "/ipam"],
      ["POST", "/ipam/192.0.2.9?owner=somebody", "/ipam/{ip}"],
      ["DELETE", "/ipam/192.0.2.9?owner=somebody&idempotent=true", "/ipam/{ip}"],
      ["GET", "/history", "/history"],
      ["GET", `/history?address=${addresses[0]}`, "/history"],
      ["GET", "/history?address=nowhere", "/history"],
      ["GET", "/identity", "/identity"],
      ["GET", "/identity/70000", "/identity/{id}"],
      ["GET", "/policy", "/policy"],
      ["GET", "/policy/table", "/policy/table"],
      ["POST", "/policy/table", "/policy/table"],
      ["GET", "/policy/explain?from=a/b&to=c/d&port=80", "/policy/explain"],
      ["GET", "/policy/drops", "/policy/drops"],
      ["GET", "/policy/drops/live", "/policy/drops/live"],
      ["GET", "/policy/wait", "/policy/wait"],
      ["DELETE", `/endpoint/${id}`, "/endpoint/{id}"],
    ];
    for (const [method, path, template, body] of asked) {
      const answer = await agent.request(method, path, body);
      expect(`${method} ${path}: ${judge(method, template, body, answer)}`).toBe(`${method} ${path}: fits`);
    }
    const described = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const tried = new Set(asked.map(([method, , template]) => `${method} ${template}`));
    expect(described.filter((operation) => !tried.has(operation))).toEqual([]);
    await node.expectClean();
  });
});

interface OpenApi {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
}

interface Described {
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: object }>> };
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, { readonly schema: object }>> }>>;
}

/** Judges one request and its answer by the document alone. @returns "fits", or what does not */
function judgeOf(document: OpenApi) {
  const ajv = new Ajv({ strict: false, allErrors: true });
  ajv.addSchema({ ...document, $id: "document" });
  const problemsOf = (schema: object, value: unknown): string => {
    const anchored = JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"document#/components'));
    return ajv.validate(anchored, value) ? "" : ajv.errorsText();
  };
  return (method: string, template: string, body: unknown, answer: AgentAnswer): string => {
    const described = document.paths[template]?.[method.toLowerCase()];
    if (described === undefined) return "is not described";
    const asked = described.requestBody?.content["application/json"]?.schema;
    const ofRequest = body === undefined || asked === undefined ? "" : problemsOf(asked, body);
    if (ofRequest !== "" && answer.status < 400) return `request: ${ofRequest}`;
    const { status } = answer;
    const response = described.responses[String(status)] ?? described.responses[`${Math.floor(status / 100)}XX`];
    if (response === undefined) return `status ${status} is not described: ${answer.text}`;
    const schema = Object.values(response.content ?? {})[0]?.schema;
    const isText = answer.headers.get("content-type")?.startsWith("text/plain") === true;
    const empty = template.startsWith("/cni/") || isText ? "" : null;
    const value = answer.text === "" ? empty : isText ? answer.text : answer.json;
    if (schema === undefined) return value === null || value === "" ? "fits" : `an answer without a schema: ${answer.text}`;
    const ofAnswer = problemsOf(schema, value);
    return ofAnswer === "" ? "fits" : `answer ${status} ${answer.text.slice(0, 300)}: ${ofAnswer}`;
  };
}
