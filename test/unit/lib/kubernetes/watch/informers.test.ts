/** Watches over a connection: how lists and watches are asked for, and what becomes of a server's refusals. */
import { text } from "../../../../../lib/json/decode.ts";
import { ApiConnection } from "../../../../../lib/kubernetes/client/connection.ts";
import { Informers } from "../../../../../lib/kubernetes/watch/informers.ts";
import { apiConfigFor, serve } from "../../../../support/api-behind-tls.ts";
import { closing } from "../../../../support/closing.ts";
import { FakeClock, settled } from "../../../../support/fake-clock.ts";
import { ending } from "../../../../support/fixtures.ts";
import type { Answering } from "../../../../support/tls-server.ts";

const PODS = { name: "pods", path: "/api/v1/pods", decode: (object: Readonly<Record<string, unknown>>) => text(object, "is") };

const refusal = (status: number, message: string) => ({
  status,
  body: JSON.stringify({ kind: "Status", status: "Failure", message, code: status }),
});
const list = {
  status: 200,
  body: JSON.stringify({ metadata: { resourceVersion: "7" }, items: [{ metadata: { name: "a" }, is: "there" }] }),
};
const HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
const chunk = (line: string) => `${(line.length + 1).toString(16)}\r\n${line}\n\r\n`;

function watchPods(answer: Answering) {
  const server = serve(answer);
  const connection = closing(new ApiConnection(apiConfigFor(server, { identity: { authorization: "Bearer very-secret" } })));
  const problems: string[] = [];
  const clock = new FakeClock();
  const informers = ending(new Informers(connection, { clock, onProblem: (problem) => problems.push(problem) }));
  return { server, informers, problems, clock, pods: informers.watch(PODS) };
}

/** Answers come over a real socket, pauses pass on the clock of the test. */
async function until(clock: FakeClock, holds: () => boolean, end = performance.now() + 30_000): Promise<void> {
  while (!holds() && performance.now() < end) {
    await Bun.sleep(5);
    await settled();
    if (!holds()) await clock.advance(100);
  }
}

describe("watches over a connection", () => {
  it("have what the list has and follow from its version, until they are ended together", async () => {
    const added = JSON.stringify({ type: "ADDED", object: { metadata: { name: "b", resourceVersion: "8" }, is: "new" } });
    const { server, informers, problems, clock, pods } = watchPods(({ target }) =>
      target.includes("watch=true") ? { raw: HEAD + chunk(added) } : list,
    );
    expect(informers.states()).toMatchObject([{ name: "pods", isSynced: false }]);
    await pods.untilSynced();
    await until(clock, () => pods.get("b") !== undefined);
    expect([pods.get("a"), pods.get("b"), pods.isUsable]).toEqual(["there", "new", true]);
    expect(server.asked[0]).toBe("GET /api/v1/pods?resourceVersion=0");
    expect(server.asked[1]).toMatch(/^GET \/api\/v1\/pods\?watch=true&.*resourceVersion=7$/);
    await informers[Symbol.asyncDispose]();
    expect([informers.states(), problems]).toEqual([[], []]);
  });

  it("ask for metadata alone, and for pages from the first list on, where a selection says so", async () => {
    const { server, informers, clock } = watchPods(({ target }) => (target.includes("watch=true") ? { raw: HEAD } : list));
    const cache = informers.watch({ ...PODS, path: "/api/v1/all", isMetadataOnly: true, isLarge: true });
    await cache.untilSynced();
    const ofAll = () => server.requests.filter(({ target }) => target.startsWith("/api/v1/all"));
    await until(clock, () => ofAll().length >= 2);
    const [listed, watched] = ofAll();
    expect(listed).toMatchObject({
      target: "/api/v1/all?limit=500",
      headers: { accept: "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json" },
    });
    expect(watched?.headers.accept).toBe("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json");
    const others = server.requests.filter(({ target }) => target.startsWith("/api/v1/pods")).map(({ headers }) => headers.accept);
    expect(new Set(others)).toEqual(new Set(["application/json"]));
  });

  it("say in the server's words why a list is refused, without what is secret", async () => {
    const { server, problems, clock } = watchPods(() => refusal(403, "no pods for very-secret"));
    await until(clock, () => problems.length > 0);
    expect(problems).toEqual([`pods: list https://127.0.0.1:${server.port}/api/v1/pods?resourceVersion=0: no pods for [hidden]`]);
  });

  it("say in the server's words why a watch is refused, and list anew where the version is gone", async () => {
    let refused = 0;
    const { server, problems, clock } = watchPods(({ target }) => {
      if (!target.includes("watch=true")) return list;
      refused++;
      return refused === 1 ? refusal(410, "too old") : refusal(403, "no watches");
    });
    await until(clock, () => problems.length > 0);
    expect(problems).toEqual([expect.stringMatching(/^pods: watch https:\/\/127\.0\.0\.1:\d+\/api\/v1\/pods\?watch=true&.*: no watches$/)]);
    const [first, second, third] = server.asked.map((asked) => asked.includes("watch=true"));
    expect([first, second, third]).toEqual([false, true, false]);
  });
});
