import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { decodeNetworkConfig } from "../../../../lib/config/decode.ts";
import { openDatastore } from "../../../../lib/datastore/open.ts";
import type { JsonObject } from "../../../../lib/json/value.ts";
import { MemoryEtcd } from "../../../support/etcd/memory-etcd.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";
import { kubeconfigOf } from "../../../support/kubeconfig.ts";

const GROUP = "crd.projectcalico.org/v1";

const directory = fresh(() => new TemporaryDirectory());

function config(keys: JsonObject = {}): ReturnType<typeof decodeNetworkConfig> {
  return decodeNetworkConfig({ name: "net1", type: "tortie", datastore_path: join(directory.path, "a", "tortie.db"), ...keys });
}

describe("opening the datastore", () => {
  it("makes the local one, with its directory, where nothing speaks of another", async () => {
    await using store = await openDatastore(config(), {});
    expect(store.description).toBe(`local datastore ${join(directory.path, "a", "tortie.db")}`);
    expect(existsSync(join(directory.path, "a", "tortie.db"))).toBe(true);
    expect(await store.clusterInformation.get("default")).toBeUndefined();
  });

  it.each([
    [{ etcd_endpoints: "http://127.0.0.1:2379" }, {}],
    [{}, { DATASTORE_TYPE: "etcdv3", ETCD_ENDPOINTS: "http://127.0.0.1:2379" }],
  ])("opens etcd, and makes no file, where one of its members is named: %j %j", async (keys, env) => {
    await using store = await openDatastore(config(keys), env);
    expect(store.description).toBe("etcd http://127.0.0.1:2379");
    expect(existsSync(join(directory.path, "a"))).toBe(false);
  });

  it("refuses etcd of which nothing says where it is", async () => {
    const opening = openDatastore(config({ datastore_type: "etcdv3" }), {});
    await expect(opening).rejects.toMatchObject({ word: "netconf-value", message: expect.stringContaining("no etcd endpoints specified") });
  });

  it.each([
    [{ datastore_type: "kubernetes", kubernetes: { kubeconfig: "/nowhere/kubeconfig" } }, {}],
    [{ kubernetes: { kubeconfig: "/nowhere/kubeconfig" } }, {}],
  ])("opens Kubernetes, and makes no file, where a kubeconfig is named: %j %j", async (keys, env) => {
    await expect(openDatastore(config(keys), env)).rejects.toMatchObject({ message: expect.stringContaining("/nowhere/kubeconfig") });
    expect(existsSync(join(directory.path, "a"))).toBe(false);
  });

  it.each(["kubernetes", "etcdv3"])("tells who opens it what a list had to leave out: %s", async (type) => {
    using etcd = new MemoryEtcd();
    etcd.put("/calico/ipam/v2/handle/net.c1", '{"block":7}');
    const item = { metadata: { name: "net.c1", uid: "u1", resourceVersion: "5" }, spec: { handleID: "net.c1", block: 7 } };
    const list = { apiVersion: GROUP, kind: "IPAMHandleList", metadata: {}, items: [item] };
    etcd.intercept = ({ path }) => (path.startsWith("/apis/") ? { status: 200, body: JSON.stringify(list) } : undefined);
    const kubeconfig = join(directory.path, "kubeconfig");
    writeFileSync(kubeconfig, JSON.stringify(kubeconfigOf({ server: etcd.url })));
    const told: string[] = [];
    const where: JsonObject = type === "etcdv3" ? { etcd_endpoints: etcd.url } : { kubernetes: { kubeconfig } };
    await using store = await openDatastore(config({ datastore_type: type, calico_api_group: GROUP, ...where }), {}, ({ message }) =>
      told.push(message),
    );
    expect(await store.handles.list()).toEqual([]);
    expect(told).toEqual([expect.stringMatching(/^IPAMHandle\(.*net\.c1\) cannot be read/)]);
  });

  it("refuses a type that nobody knows in Calico's words", async () => {
    await expect(openDatastore(config({ datastore_type: "redis" }), {})).rejects.toThrow("unknown datastore type: redis");
  });
});
