/**
 * The controller while the API server fails: nothing is released that is in use, whatever fails, and when the server is well again the work
 * is finished. The server is real; a proxy fails its requests. The controller's minutes are the test's.
 */
import { ClusterAddresses } from "../../support/cluster-addresses.ts";
import { ControllerTerm } from "../../support/controller-term.ts";
import { fresh, shared } from "../../support/fixtures.ts";
import type { Fault } from "../../support/kubernetes/fault-proxy.ts";
import { LEGACY, startCluster } from "../../support/kubernetes/test-cluster.ts";

const cluster = shared(startCluster);
const addresses = shared(() => ClusterAddresses.open(cluster));
beforeEach(async () => {
  await addresses.clear(["node1", "node2"]);
  await cluster.createPool("pool", { cidr: "10.60.0.0/24", blockSize: 29 });
  await cluster.createPool("going", { cidr: "10.61.0.0/29", blockSize: 29, nodeSelector: "!all()" });
});
const proxy = fresh(() => cluster.proxy());

const answer = (status: number, headers: Readonly<Record<string, string>> = {}): Fault => ({ kind: "answer", status, headers });
/** The network's time is real; so short pauses, of a client that is otherwise the controller's. */
const HASTY = { least: 100, firstPause: 5, longestPause: 20, retryAfter: 20 };
/** Only where nobody answers are the limits of requests short too: a busy machine takes longer for a first connection. */
const IMPATIENT = { ...HASTY, request: 400, try: 100 };
/** What a node that is gone has in the end. */
const GONE = { addresses: [], blocks: [], affinities: [] };
const NOT_WATCHES = /^(?!.*watch=)/;

describe("while the API server fails, nothing in use is released; afterwards the work is finished", () => {
  it.each<readonly [string, Fault]>([
    ["500 to every request", answer(500)],
    ["503 to every request", answer(503)],
    ["429 to every request", answer(429, { "retry-after": "1" })],
    ["504 to every request", answer(504)],
    ["connections that break before the server hears", { kind: "cut" }],
    ["answers that are lost", { kind: "lose-answer" }],
    ["no answer at all", { kind: "hang" }],
  ])("%s", async (_, fault) => {
    await addresses.take("node1", "gone");
    await addresses.takeTunnel("node1");
    const used = await addresses.addPod("node2", "used");
    await addresses.take("node2", "leaked");
    await using controller = await ControllerTerm.begin(proxy, {}, { limits: fault.kind === "hang" ? IMPATIENT : HASTY });
    await controller.minutes(1);
    await cluster.remove("v1", "nodes", "node1");
    await cluster.api("DELETE", `/apis/${LEGACY}/ippools/going`);
    await controller.sees("the node gone", (view) => !view.hasNode("node1"));
    await controller.sees("the deletion", (view) => view.pools.some(({ pool: { deleting } }) => deleting));

    proxy.on({ path: NOT_WATCHES, times: Infinity }, fault);
    await controller.minutes(10);
    expect((await addresses.of("node2")).addresses).toContain(used);
    expect(await addresses.damage()).toEqual([]);

    proxy.clear();
    await controller.followed();
    // On a busy machine a look of the hasty client fails now and then, also when the server is well.
    const isFinished = async () =>
      JSON.stringify([await addresses.of("node1"), (await addresses.of("node2")).addresses]) === JSON.stringify([GONE, [used]]) &&
      (await cluster.get(LEGACY, "ippools", "going")) === undefined;
    await controller.minutes(20);
    for (let rounds = 0; rounds < 50 && !(await isFinished()); rounds++) await controller.minutes(2);
    expect(await addresses.of("node1")).toEqual(GONE);
    expect((await addresses.of("node2")).addresses).toEqual([used]);
    expect((await addresses.datastore.handles.list()).map(({ value }) => value.id)).toEqual(["net1.used-c"]);
    expect(await cluster.get(LEGACY, "ippools", "going")).toBeUndefined();
    expect(await addresses.damage()).toEqual([]);
  });

  it("each of its writes refused or lost once, one after the other", async () => {
    for (const fault of [answer(500), answer(409), { kind: "lose-answer" } as const]) {
      let isDone = false;
      for (let nth = 1; !isDone; nth++) {
        await addresses.take("node1", "gone");
        const used = await addresses.addPod("node2", `used${fault.kind}${nth}`);
        await using controller = await ControllerTerm.begin(proxy, { "pool-finalizer": "false" });
        proxy.clear();
        proxy.on({ method: "PUT", nth }, fault).on({ method: "DELETE", nth }, fault);
        await cluster.remove("v1", "nodes", "node1");
        await controller.sees("the node gone", (view) => !view.hasNode("node1"));
        await controller.minutes(12);
        expect({ nth, left: await addresses.of("node1") }).toEqual({ nth, left: GONE });
        expect((await addresses.of("node2")).addresses).toContain(used);
        expect(await addresses.damage()).toEqual([]);
        isDone = ["PUT", "DELETE"].every((method) => proxy.requests.filter((request) => request.method === method).length < nth);
        await cluster.createNode("node1");
        expect(nth).toBeLessThan(20);
      }
    }
  });
});
