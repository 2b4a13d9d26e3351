/** The agent's caches on a real API server: what they show, and what becomes of them when watches break, servers end, history is lost. */

import { section, text } from "../../../lib/json/decode.ts";
import { metadataOf } from "../../../lib/kubernetes/objects.ts";
import { Informers } from "../../../lib/kubernetes/watch/informers.ts";
import type { Selection } from "../../../lib/kubernetes/watch/kubernetes-feed.ts";
import type { CacheChange } from "../../../lib/kubernetes/watch/resource-cache.ts";
import { fresh, shared } from "../../support/fixtures.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { openConnection } from "./open-connection.ts";

interface SeenPod {
  readonly name: string;
  readonly node: string;
  readonly labels: Readonly<Record<string, string>>;
}

const PODS_OF_NODE_A: Selection<SeenPod> = {
  name: "pods of node-a",
  path: "/api/v1/pods",
  fieldSelector: "spec.nodeName=node-a",
  decode: (object) => ({
    name: metadataOf(object).name,
    node: text(section(object, "spec"), "nodeName"),
    labels: metadataOf(object).labels,
  }),
};

let changes: CacheChange<SeenPod>[];
let problems: string[];

const cluster = shared(startCluster);
beforeEach(() => cluster.reset());
const proxy = fresh(() => cluster.proxy());
const connection = fresh(() => openConnection(proxy, "agent"));
beforeEach(() => {
  problems = [];
  changes = [];
});
const informers = fresh(() => new Informers(connection, { onProblem: (message) => problems.push(message) }));
beforeEach(async () => {
  await cluster.createPod("web", { node: "node-a", labels: { step: "1" } });
  await cluster.createPod("foreign", { node: "node-b" });
});
const pods = fresh(() => informers.watch(PODS_OF_NODE_A));
beforeEach(async () => {
  await pods.untilSynced();
  pods.onChange((change) => changes.push(change));
});

const names = () =>
  pods
    .list()
    .map(({ name }) => name)
    .sort();
const isFollowing = () => pods.state.lostSince === undefined;
const watchesAsked = () => proxy.requests.filter(({ path }) => path.includes("watch=true")).length;
const listsAsked = () => proxy.requests.filter(({ path }) => !path.includes("watch=true")).length;

describe("a cache of this node's pods", () => {
  it("shows what the list had, then what is made, changed and removed, and nothing of other nodes", async () => {
    expect(pods.list()).toEqual([{ name: "web", node: "node-a", labels: { step: "1" } }]);
    await until("the watch", isFollowing);

    await cluster.createPod("db", { node: "node-a" });
    await cluster.createPod("other", { node: "node-b" });
    await cluster.createPod("web", { node: "node-a", labels: { step: "2" } });
    await until("both changes", () => pods.get("default/web")?.labels.step === "2" && pods.get("default/db") !== undefined);
    await cluster.remove("v1", "pods", "db", "default");
    await until("the removal", () => pods.get("default/db") === undefined);

    expect(names()).toEqual(["web"]);
    expect(changes.filter(({ before, after }) => before === undefined && after !== undefined).map(({ key }) => key)).toEqual([
      "default/db",
    ]);
    expect(changes.filter(({ after }) => after === undefined).map(({ key }) => key)).toEqual(["default/db"]);
    expect(problems).toEqual([]);
  });

  it("goes on where it was when its connection is cut: no second list, nothing missed", async () => {
    await until("the watch", isFollowing);
    await proxy.refuse();
    await until("the loss to be noticed", () => !isFollowing());
    await until("the copy to be out of use", () => !pods.isUsable);
    await cluster.createPod("made-meanwhile", { node: "node-a" });
    await cluster.remove("v1", "pods", "web", "default");
    await proxy.accept();

    await until("what happened meanwhile", () => names().join() === "made-meanwhile");
    expect(isFollowing()).toBe(true);
    expect(listsAsked()).toBe(1);
    expect(watchesAsked()).toBeGreaterThanOrEqual(2);
  });

  it("reads the list anew when the server no longer knows where the watch was, and removes what is gone", async () => {
    await until("the watch", isFollowing);
    proxy.on({ path: "watch=true", times: 1 }, { kind: "answer", status: 410 });
    await cluster.createPod("db", { node: "node-a" });
    await until("the pod", () => pods.get("default/db") !== undefined);
    await proxy.refuse();
    await until("the loss to be noticed", () => !isFollowing());
    await cluster.remove("v1", "pods", "web", "default");
    await proxy.accept();

    await until("the new list", () => names().join() === "db" && isFollowing());
    expect(listsAsked()).toBe(2);
    expect(changes.at(-1)).toMatchObject({ key: "default/web", after: undefined });
  });

  it("survives a restart of the API server", async () => {
    await until("the watch", isFollowing);
    await cluster.stopApiServer();
    await until("the loss to be noticed", () => !isFollowing());
    expect(pods.state.followedSince).toBeUndefined();
    await until("the reason", () => pods.state.problem !== undefined);
    expect(names()).toEqual(["web"]);

    await cluster.startApiServer();
    await cluster.createPod("after-restart", { node: "node-a" });
    await until("the pod made after the restart", () => names().join() === "after-restart,web");
    expect(pods.state).toMatchObject({ isSynced: true, lostSince: undefined, problem: undefined });
  });

  it("reads the list anew after the history was compacted away during an outage", async () => {
    await until("the watch", isFollowing);
    await proxy.refuse();
    await until("the loss to be noticed", () => !isFollowing());
    await cluster.remove("v1", "pods", "web", "default");
    await cluster.createPod("db", { node: "node-a" });
    // A new API server remembers no events, and etcd no longer has those before the compaction.
    await cluster.compact();
    await cluster.restartApiServer();
    await proxy.accept();

    await until("the new list", () => names().join() === "db" && isFollowing());
    expect(listsAsked()).toBeGreaterThanOrEqual(2);
  });

  it("keeps what it has when lists and watches are refused, and says why", async () => {
    await until("the watch", isFollowing);
    proxy.on(
      { path: "/api/v1/pods", times: Number.POSITIVE_INFINITY },
      { kind: "answer", status: 403, message: "no rights (made by the test)" },
    );
    proxy.breakConnections();
    await until("the refusal", () => pods.state.problem?.includes("no rights") === true);
    expect(names()).toEqual(["web"]);
    proxy.clear();
    proxy.breakConnections();
    await until("the watch again", isFollowing);
    expect(pods.state.problem).toBeUndefined();
  });
});

describe("a heartbeat that fails", () => {
  it("ends watches that look alive and are dead", async () => {
    await until("the watch", isFollowing);
    const heartbeat = informers.watch({ ...PODS_OF_NODE_A, name: "heartbeat", heartbeatSeconds: 1 });
    await heartbeat.untilSynced();
    await until("the heartbeat", () => heartbeat.state.lostSince === undefined);
    const before = pods.state.followedSince;
    proxy.on({ path: "timeoutSeconds=1&", times: Number.POSITIVE_INFINITY }, { kind: "cut" });
    await until("another watch", () => isFollowing() && pods.state.followedSince !== before);
    expect(names()).toEqual(["web"]);
  });
});
