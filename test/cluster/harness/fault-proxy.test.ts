/** The faults that tests put between a plugin and the API server; curl is the caller. */
import { execFile } from "node:child_process";
import { shared } from "../../support/fixtures.ts";
import { pathOf } from "../../support/kubernetes/resources.ts";
import { LEGACY, startCluster } from "../../support/kubernetes/test-cluster.ts";

let token: string;
const cluster = shared(startCluster);
const proxy = shared(() => cluster.proxy());
beforeEach(async () => {
  token = await cluster.tokenFor("cni");
  proxy.clear();
  await cluster.reset();
});

const HANDLES = pathOf(LEGACY, "ipamhandles");
const handle = JSON.stringify({ apiVersion: LEGACY, kind: "IPAMHandle", metadata: { name: "h" }, spec: { handleID: "h", block: {} } });
/** curl(1), EXIT CODES. */
const CONNECT_FAILED = 7;
const GOT_NOTHING = 52;
const TIMED_OUT = 28;

interface Curl {
  readonly exit: number;
  readonly status: number;
  readonly stdout: string;
  readonly ms: number;
}

function curl(...args: string[]): Promise<Curl> {
  const started = performance.now();
  const common = ["--silent", "--include", "--http1.1", "--cacert", cluster.caPath, "--header", `Authorization: Bearer ${token}`];
  return new Promise((done) => {
    execFile("curl", [...common, ...args], (error, stdout) => {
      const status = Number(/^HTTP\/1.1 (\d+)/.exec(stdout)?.[1] ?? 0);
      done({ exit: error === null ? 0 : Number(error.code), status, stdout, ms: performance.now() - started });
    });
  });
}

const url = (path: string) => `${proxy.server}${path}`;
const create = () => curl("--json", handle, url(HANDLES));

describe("the fault proxy", () => {
  it("passes on what no rule is for, with its account, and says what it saw", async () => {
    const mark = await cluster.mark();
    expect((await create()).status).toBe(201);
    expect(await cluster.get(LEGACY, "ipamhandles", "h")).toMatchObject({ metadata: { name: "h" } });
    expect(proxy.requests).toMatchObject([{ method: "POST", path: HANDLES, body: handle, status: 201 }]);
    expect(await cluster.requests(mark)).toMatchObject([
      { verb: "create", user: "system:serviceaccount:kube-system:calico-cni-plugin", status: 201 },
    ]);
  });

  it("loses the answer of a request that was carried out", async () => {
    proxy.on({ method: "POST" }, { kind: "lose-answer" });
    expect((await create()).exit).toBe(GOT_NOTHING);
    expect(await cluster.get(LEGACY, "ipamhandles", "h")).toMatchObject({ metadata: { name: "h" } });
    expect(proxy.requests).toMatchObject([{ method: "POST", status: undefined }]);
    expect((await create()).status).toBe(409);
  });

  it("asks twice for what is asked once, and answers what came second", async () => {
    proxy.on({ method: "POST" }, { kind: "twice" });
    expect((await create()).status).toBe(409);
    expect(await cluster.get(LEGACY, "ipamhandles", "h")).toMatchObject({ metadata: { name: "h" } });
  });

  it("keeps back what watches say, and nothing else, until it lets them go on", async () => {
    // Plugins may not watch.
    token = await cluster.tokenFor("admin");
    const watch = curl("--no-buffer", "--max-time", "3", url(`${HANDLES}?watch=true`));
    while (proxy.requests[0]?.status === undefined) await Bun.sleep(5);
    proxy.freezeWatches();
    const frozen = curl("--max-time", "1", url(`${HANDLES}?watch=true&second=true`));
    expect((await create()).status).toBe(201);
    expect((await frozen).stdout).not.toContain("ADDED");
    proxy.thawWatches();
    expect((await watch).stdout).toContain("ADDED");
  });

  it("cuts the connection before a request is carried out", async () => {
    proxy.on({ method: "POST" }, { kind: "cut" });
    expect((await create()).exit).toBe(GOT_NOTHING);
    expect(await cluster.get(LEGACY, "ipamhandles", "h")).toBeUndefined();
    expect((await create()).status).toBe(201);
  });

  it("picks the n-th matching request, and as many as it is told", async () => {
    proxy.on({ method: "GET", path: "ipamhandles/h", nth: 2, times: 2 }, { kind: "answer", status: 503 });
    const one = url(`${HANDLES}/h`);
    // One curl, one connection: its answers follow each other.
    const { stdout } = await curl(one, url(`${HANDLES}/other`), one, one, one);
    expect([...stdout.matchAll(/HTTP\/1.1 (\d+)/g)].map(([, status]) => Number(status))).toEqual([404, 404, 503, 503, 404]);
    expect(proxy.connections).toBe(1);
    expect(proxy.requests.map(({ connection }) => connection)).toEqual([1, 1, 1, 1, 1]);
  });

  it("answers as the API server would, with the headers it is given", async () => {
    proxy.on({ path: /ipamhandles$/ }, { kind: "answer", status: 429, headers: { "Retry-After": "2" }, message: "too many requests" });
    const { status, stdout } = await create();
    expect(status).toBe(429);
    expect(stdout).toMatch(/^retry-after: 2\r$/im);
    expect(stdout).toContain('"message":"too many requests","reason":"TooManyRequests","code":429');
    expect(await cluster.get(LEGACY, "ipamhandles", "h")).toBeUndefined();
  });

  it("waits, and answers then", async () => {
    proxy.on({}, { kind: "delay", ms: 400 });
    const { status, ms } = await create();
    expect(status).toBe(201);
    expect(ms).toBeGreaterThan(399);
  });

  it("says nothing at all", async () => {
    proxy.on({ times: Number.POSITIVE_INFINITY }, { kind: "hang" });
    expect((await curl("--max-time", "0.5", url(HANDLES))).exit).toBe(TIMED_OUT);
    expect((await curl("--max-time", "0.5", url(HANDLES))).exit).toBe(TIMED_OUT);
    expect(proxy.requests.map(({ status }) => status)).toEqual([undefined, undefined]);
  });

  it("lets the test act between the request and the server", async () => {
    const spec = { handleID: "h", block: {} };
    proxy.on(
      { method: "POST" },
      { kind: "before", action: () => cluster.apply({ apiVersion: LEGACY, kind: "IPAMHandle", metadata: { name: "h" }, spec }) },
    );
    expect((await create()).status).toBe(409);
  });

  it("refuses connections until it accepts them again, at the same port", async () => {
    const { port } = proxy;
    await proxy.refuse();
    expect((await curl(url(HANDLES))).exit).toBe(CONNECT_FAILED);
    await proxy.accept();
    expect(proxy.port).toBe(port);
    expect((await curl(url(HANDLES))).status).toBe(200);
  });

  it("looks like a broken connection when the server behind it is gone", async () => {
    await cluster.stopApiServer();
    expect((await curl(url(HANDLES))).exit).toBe(GOT_NOTHING);
    await cluster.startApiServer();
    expect((await curl(url(HANDLES))).status).toBe(200);
  });
});
