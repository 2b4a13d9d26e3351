/** Peers from the endpoints in a real etcd, and policies from files beside it where there is no API server. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { openSources } from "../../../agent/policy/sources/open.ts";
import { resolveOptions } from "../../../agent/start/options.ts";
import { parseAddress } from "../../../lib/addresses/address.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { openEtcdDatastore } from "../../../lib/datastore/etcd/etcd-datastore.ts";
import { Tasks } from "../../../lib/resident/tasks.ts";
import type { WorkloadEndpoint } from "../../../lib/workload/endpoint.ts";
import { startEtcd } from "../../support/etcd/etcd.ts";
import { fresh, shared, TemporaryDirectory } from "../../support/fixtures.ts";
import { until } from "../../support/kubernetes/until.ts";
import { ToldSink } from "../../support/told-sink.ts";
import { workloadEndpointOf } from "../../support/workload-endpoint.ts";

const etcd = shared(startEtcd);
const directory = fresh(() => new TemporaryDirectory());
beforeEach(() => etcd.clear());

const env = () => ({ ETCD_ENDPOINTS: etcd.urls.join() });

function open(from = directory.path) {
  const options = resolveOptions({ "datastore-type": "etcdv3" }, {}, undefined);
  const log = { error: () => {} };
  return openSources({ options, env: env(), node: "node1", cluster: undefined, controllers: new Tasks(), log }, from);
}

function endpointOf(pod: string, node: string, ...addresses: readonly string[]): WorkloadEndpoint {
  const plain = workloadEndpointOf({ node, containerId: `c-${pod}`, network: "net1", addresses });
  return { ...plain, name: `${node}-k8s-${pod}-eth0`, namespace: "shop", orchestrator: "k8s", pod, labels: { app: pod } };
}

describe("The sources of policy of an etcd without an API server", () => {
  it("are none where there is no directory of policies either", () => {
    expect(open(join(directory.path, "nowhere"))).toBeUndefined();
  });

  it("tell of pods that endpoints name, with their labels and addresses, and of policies of the directory", async () => {
    const { endpoints } = openEtcdDatastore(decodeNetworkConfig({ name: "net1" }), env(), {});
    const web = endpointOf("web", "node2", "10.1.0.5", "fd00::5");
    const { revision } = await endpoints.create(web, web);
    const plain = workloadEndpointOf({ node: "node2", containerId: "plain", network: "net1", addresses: ["10.1.0.6"] });
    await endpoints.create(plain, plain);
    writeFileSync(
      join(directory.path, "a.yaml"),
      "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: one}\nspec: {}\n",
    );
    const sink = new ToldSink();
    await using sources = open();
    sources?.start(sink, () => {});
    expect([sources?.isComplete, sources?.gap === undefined]).toEqual([false, false]);
    await sources?.untilSynced(AbortSignal.timeout(30_000));
    expect(sources?.isComplete).toBe(true);
    expect([...sink.policies.keys()]).toEqual(["default/one"]);
    expect([...sink.peers]).toEqual([
      [
        "shop/web",
        {
          namespace: "shop",
          name: "web",
          labels: expect.objectContaining({ app: "web" }),
          addresses: [parseAddress("10.1.0.5"), parseAddress("fd00::5")],
          ports: undefined,
        },
      ],
    ]);

    const db = endpointOf("db", "node3", "10.1.0.7");
    await endpoints.create(db, db);
    await until("a new endpoint", () => sink.peers.has("shop/db"));
    await endpoints.update(web, { ...web, labels: { app: "other" } }, revision);
    await until("new labels", () => sink.peers.get("shop/web")?.labels.app === "other");
    // Whoever takes the address of a record that is left shares it with nobody.
    const thief = endpointOf("thief", "node3", "10.1.0.7");
    await endpoints.create(thief, thief);
    await until("the conflict", () => sources?.conflicts().length === 1);
    expect(sources?.conflicts()).toEqual([{ address: "10.1.0.7", pods: ["shop/db", "shop/thief"] }]);
    expect(Object.keys(sink.addresses)).toEqual(["shop/web"]);
  });

  it("keep what they know, and say so, while etcd is away", async () => {
    const { endpoints } = openEtcdDatastore(decodeNetworkConfig({ name: "net1" }), env(), {});
    const web = endpointOf("web", "node2", "10.1.0.5");
    await endpoints.create(web, web);
    const sink = new ToldSink();
    await using sources = open();
    sources?.start(sink, () => {});
    await sources?.untilSynced(AbortSignal.timeout(30_000));
    await etcd.stopMember(0);
    await until("the gap", () => sources?.gap?.startsWith("changes of workload endpoints are not being heard of") === true);
    expect(sink.addresses).toEqual({ "shop/web": ["10.1.0.5"] });
    await etcd.startMember(0);
    await until("no gap", () => sources?.gap === undefined);
  });
});
