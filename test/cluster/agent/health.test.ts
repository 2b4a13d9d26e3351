/** The agent's health while a real API server is away (A§8.3): the watches say so, and the clock of the test passes the time. */

import { decodePod } from "../../../lib/kubernetes/objects.ts";
import { Informers } from "../../../lib/kubernetes/watch/informers.ts";
import { apiServerCheck, CredentialsCheck, Health } from "../../../lib/resident/health.ts";
import { startHealthServer } from "../../../lib/resident/health-server.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { shared } from "../../support/fixtures.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { openConnection } from "./open-connection.ts";

const cluster = shared(startCluster);
beforeEach(() => cluster.reset());

describe("A-G04: the datastore is away for ten minutes", () => {
  it("is alive all the time, and not ready after 60 s with the reason", async () => {
    await using proxy = await cluster.proxy();
    const clock = new FakeClock();
    const connection = await openConnection(proxy, "agent");
    await using informers = new Informers(connection, { clock });
    const health = new Health(() => "ready", clock);
    health.add(apiServerCheck(() => informers.states(), clock));
    await using server = await startHealthServer({ port: 0, health, metrics: { contentType: "text/plain", text: async () => "" } });
    const ask = async (path: string) => (await fetch(`http://127.0.0.1:${server.port}${path}`)).status;
    const pods = informers.watch({ name: "pods", path: "/api/v1/pods", fieldSelector: "spec.nodeName=a", decode: decodePod });
    await until("the watch", () => pods.state.followedSince !== undefined);
    expect([await ask("/livez"), await ask("/readyz"), health.notReady()]).toEqual([200, 200, []]);

    await proxy.refuse();
    await until("the loss to be noticed", () => pods.state.lostSince !== undefined);
    await clock.advance(59_000);
    expect([await ask("/livez"), await ask("/readyz")]).toEqual([200, 200]);
    await clock.advance(2_000);
    expect([await ask("/livez"), await ask("/readyz")]).toEqual([200, 503]);
    await until("the reason", () => health.notReady().join().includes("has not been heard of"));
    for (let minute = 0; minute < 9; minute++) await clock.advance(60_000);
    expect([await ask("/livez"), await ask("/readyz")]).toEqual([200, 503]);
    const document = health.document();
    expect(document.checks.find(({ name }) => name === "datastore")).toMatchObject({ state: "failure", next: expect.any(String) });

    await proxy.accept();
    await until("the watch again", async () => {
      await clock.advance(10_000);
      return pods.state.followedSince !== undefined;
    });
    expect([await ask("/readyz"), health.notReady()]).toEqual([200, []]);
    connection.close();
  });

  it("is not ready while the API server refuses its credentials", async () => {
    await using proxy = await cluster.proxy();
    const credentials = new CredentialsCheck();
    const connection = await openConnection(proxy, "agent", (_call, status, _ms, fault) => credentials.note(status, fault));
    proxy.on({ path: "/api/v1/nodes", times: 2 }, { kind: "answer", status: 401 });
    expect((await connection.exchange({ method: "GET", path: "/api/v1/nodes" })).status).toBe(401);
    expect(credentials.check.look().state).toBe("failure");
    expect((await connection.exchange({ method: "GET", path: "/api/v1/nodes" })).status).toBe(200);
    expect(credentials.check.look().state).toBe("ok");
    connection.close();
  });
});
