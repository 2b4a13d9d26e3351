/** `tortiectl datastore migrate` between real stores: SQLite, etcd and an API server. */

import { type ChildProcess, spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import type { Datastore } from "../../../lib/datastore/datastore.ts";
import { openKubernetesDatastore } from "../../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import { openLocalDatastore } from "../../../lib/datastore/local/local-datastore.ts";
import { startEtcd } from "../../support/etcd/etcd.ts";
import { EtcdFaultProxy } from "../../support/etcd/fault-proxy.ts";
import { fresh, shared, TemporaryDirectory } from "../../support/fixtures.ts";
import { type EndedProgram, runProgram } from "../../support/kubernetes/process.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR } from "../../support/node.ts";
import { samplePool } from "../../support/samples.ts";
import { openDatastoreAt } from "../etcd/open-datastore.ts";
import { endpointValues, fill, forgetPod, ipamValues, NODES, nodeOf, podName, recordValues, removePod } from "./stores.ts";

type Place = "local" | "etcdv3" | "kubernetes";

const PODS = 40;
/** Requests to the API server under way together. */
const AT_ONCE = 8;

const cluster = shared(startCluster);
const etcd = shared(startEtcd);
const dir = fresh(() => new TemporaryDirectory());
let kubeconfig: string;

beforeAll(async () => {
  kubeconfig = await cluster.kubeconfigFor("admin");
});
beforeEach(async () => {
  await Promise.all([cluster.reset(), etcd.clear()]);
});

const environment = (servers = etcd.endpoints) => ({ ETCD_ENDPOINTS: servers, PATH: process.env.PATH ?? "" });
const file = () => join(dir.path, "store.db");

function tortiectl(args: readonly string[], env: Readonly<Record<string, string>> = environment()): Promise<EndedProgram> {
  return runProgram(join(BIN_DIR, "tortiectl"), args, env);
}

function migrateArgs(from: Place, to: Place, config = kubeconfig): readonly string[] {
  const record = join(dir.path, "migration.json");
  const places = ["--from", from, "--to", to, "--datastore", file(), "--kubeconfig", config];
  return ["datastore", "migrate", ...places, "--settle", "0.1", "--record", record];
}

function migrate(from: Place, to: Place, ...options: readonly string[]): Promise<EndedProgram> {
  return tortiectl([...migrateArgs(from, to), ...options]);
}

function check(place: Place): Promise<EndedProgram> {
  const where = { local: ["--datastore", file()], etcdv3: ["--datastore", "etcdv3"], kubernetes: ["--kubeconfig", kubeconfig] }[place];
  return tortiectl(["ipam", "check", ...where, "--settle", "0", "--json"]);
}

function open(place: Place): Datastore {
  if (place === "local") return openLocalDatastore(file());
  if (place === "etcdv3") return openDatastoreAt(etcd.endpoints);
  return openKubernetesDatastore(decodeNetworkConfig({ name: "net1", datastore_type: "kubernetes", kubernetes: { kubeconfig } }), {});
}

async function at<T>(place: Place, work: (store: Datastore) => Promise<T>): Promise<T> {
  await using store = open(place);
  return await work(store);
}

async function empty(place: Place): Promise<void> {
  if (place === "local") for (const suffix of ["", "-wal", "-shm"]) rmSync(file() + suffix, { force: true });
  else if (place === "etcdv3") await etcd.clear();
  else await preparePods();
}

/** Nodes and pods of an API server, without annotations. */
async function preparePods(count = PODS): Promise<void> {
  await cluster.reset();
  for (const node of NODES) await cluster.createNode(node);
  const create = async (first: number) => {
    for (let number = first; number < count; number += AT_ONCE) await cluster.createPod(podName(number), { node: nodeOf(number) });
  };
  await Promise.all(Array.from({ length: AT_ONCE }, (_, first) => create(first)));
}

const readyOf = (place: Place) => at(place, async (store) => (await store.clusterInformation.get("default"))?.value.datastoreReady);
const isSame = (one: readonly string[], other: readonly string[]) => JSON.stringify(one) === JSON.stringify(other);
const exists = (child: ChildProcess) => child.exitCode === null && child.signalCode === null;

describe("tortiectl datastore migrate", () => {
  it("goes all six ways, and ends with the values that it began with", async () => {
    await at("local", (store) => fill(store, PODS));
    const before = await at("local", async (store) => ({ ipam: await ipamValues(store), records: await recordValues(store) }));
    const ways: readonly (readonly [Place, Place])[] = [
      ["local", "etcdv3"],
      ["etcdv3", "kubernetes"],
      ["kubernetes", "local"],
      ["local", "kubernetes"],
      ["kubernetes", "etcdv3"],
      ["etcdv3", "local"],
    ];
    for (const [from, to] of ways) {
      await empty(to);
      const dry = await migrate(from, to, "--dry-run", "--json");
      expect(dry).toMatchObject({ exit: 0, stderr: "" });
      expect(JSON.parse(dry.stdout)).toMatchObject({
        dryRun: true,
        kinds: expect.arrayContaining([expect.objectContaining({ missing: 2 })]),
      });

      expect(await migrate(from, to)).toMatchObject({ exit: 0, stdout: expect.stringContaining("ok both hold the same") });

      const after = await at(to, async (store) => ({ ipam: await ipamValues(store), records: await recordValues(store) }));
      expect({ from, to, ...after }).toEqual({ from, to, ...before });
      const checked = await check(to);
      expect({ to, exit: checked.exit, ...JSON.parse(checked.stdout) }).toMatchObject({ exit: 0, problems: [], notes: [], unreadable: [] });
    }
    expect(await readyOf("etcdv3")).toBe(true);
  });

  it("takes 5,000 allocations to etcd and back, all values equal and nothing found by ipam check", async () => {
    const count = 5_000;
    await at("local", (store) => fill(store, count));
    const before = await at("local", async (store) => [...(await ipamValues(store)), ...(await endpointValues(store))]);
    expect(before.length).toBeGreaterThan(2 * (count - 1));

    expect(await migrate("local", "etcdv3")).toMatchObject({ exit: 0 });
    expect(JSON.parse((await check("etcdv3")).stdout)).toMatchObject({ problems: [], notes: [] });
    await empty("local");
    expect(await migrate("etcdv3", "local")).toMatchObject({ exit: 0 });

    expect(JSON.parse((await check("local")).stdout)).toMatchObject({ problems: [], notes: [] });
    expect(await at("local", async (store) => [...(await ipamValues(store)), ...(await endpointValues(store))])).toEqual(before);
  });

  it("takes 1,000 allocations to an API server, on to etcd and back, all addresses equal and nothing found by ipam check", async () => {
    // With 5,000, which passes too, this takes two minutes, and the next test half a minute to empty the server.
    const count = 1_000;
    await Promise.all([preparePods(count), at("local", (store) => fill(store, count))]);
    const before = await at("local", async (store) => ({ ipam: await ipamValues(store), records: await recordValues(store) }));
    expect(before.records.length).toBe(count - 1);
    for (const [from, to] of [
      ["local", "kubernetes"],
      ["kubernetes", "etcdv3"],
      ["etcdv3", "local"],
    ] as const) {
      if (to === "local") await empty(to);
      expect({ from, to, ...(await migrate(from, to)) }).toMatchObject({ exit: 0 });
      // Texts of 10,000 values differ faster than Jest can say where.
      const after = await at(to, async (store) => ({ ipam: await ipamValues(store), records: await recordValues(store) }));
      expect({ to, ipam: isSame(after.ipam, before.ipam), records: isSame(after.records, before.records) }).toEqual({
        to,
        ipam: true,
        records: true,
      });
      expect(JSON.parse((await check(to)).stdout)).toMatchObject({ problems: [], notes: [], unreadable: [] });
    }
  });

  it("keeps what Calico's objects have beyond the model, and says what the local store has no place for", async () => {
    await preparePods();
    await cluster.setReady(true);
    await cluster.createPool("tunnelled", { cidr: "10.99.0.0/24", vxlanMode: "Always", disableBGPExport: true });

    expect(await migrate("kubernetes", "etcdv3")).toMatchObject({ exit: 0 });
    const key = "/calico/resources/v3/projectcalico.org/ippools/tunnelled";
    expect(JSON.parse((await etcd.contents()).get(key) ?? "")).toMatchObject({
      kind: "IPPool",
      apiVersion: "projectcalico.org/v3",
      metadata: { name: "tunnelled", uid: expect.any(String), creationTimestamp: expect.any(String) },
      spec: { cidr: "10.99.0.0/24", vxlanMode: "Always", disableBGPExport: true },
    });
    const back = await migrate("etcdv3", "local");
    expect(back).toMatchObject({ exit: 0, stdout: expect.stringMatching(/note: left behind of pools: tunnelled: .*spec\.vxlanMode/) });
  });

  it("is killed in the middle, leaves both stores paused, and is finished by the same command", async () => {
    await at("local", (store) => fill(store, 1_500));
    const before = await at("local", ipamValues);
    const child = spawn(join(BIN_DIR, "tortiectl"), migrateArgs("local", "etcdv3"), { env: environment(), stdio: "ignore" });
    await until("some handles in etcd", async () => (await etcd.contents("/calico/ipam/v2/handle/")).size > 100);
    child.kill("SIGKILL");
    await until("the end of the process", () => !exists(child));
    expect((await etcd.contents("/calico/resources/v3/projectcalico.org/workloadendpoints/")).size).toBeLessThan(1_499);
    expect([await readyOf("local"), await readyOf("etcdv3")]).toEqual([false, false]);
    // A DEL that had begun before.
    await at("local", (store) => removePod(store, 7));

    expect(await migrate("local", "etcdv3")).toMatchObject({ exit: 0 });

    expect(await at("etcdv3", ipamValues)).toEqual(await at("local", ipamValues));
    expect(await at("local", ipamValues)).not.toEqual(before);
    expect([await readyOf("local"), await readyOf("etcdv3")]).toEqual([undefined, true]);
    expect(JSON.parse((await check("etcdv3")).stdout)).toMatchObject({ problems: [], notes: [] });
  });

  it("is refused while an ADD runs, and waits for one that ends", async () => {
    await at("local", (store) => fill(store, 10));
    const unfinished = await at("local", (store) => forgetPod(store, 5));
    const refused = await migrate("local", "etcdv3", "--wait", "0");
    expect(refused).toMatchObject({
      exit: 1,
      stderr: expect.stringMatching(/a pod is being added: address 10\.64\..*migration-add-running/s),
    });
    expect((await etcd.contents("/calico/ipam/")).size).toBe(0);
    expect([await readyOf("local"), await readyOf("etcdv3")]).toEqual([undefined, undefined]);

    const waiting = migrate("local", "etcdv3", "--wait", "240");
    await until("the pause", async () => (await readyOf("local")) === false);
    await at("local", (store) => store.endpoints.create({ namespace: unfinished.namespace, name: unfinished.name }, unfinished));
    expect(await waiting).toMatchObject({ exit: 0 });
  });

  it("never overwrites what differs without being told to", async () => {
    await at("local", (store) => fill(store, 10));
    await at("etcdv3", (store) => store.pools.create("four", samplePool("four", "10.1.0.0/16")));
    await at("etcdv3", (store) => store.pools.create("theirs", samplePool("theirs", "10.2.0.0/16")));
    const contents = await etcd.contents("/calico/ipam/");
    for (const options of [[], ["--dry-run"]]) {
      const refused = await migrate("local", "etcdv3", ...options);
      expect(refused.exit).toBe(1);
      if (options.length === 0)
        expect(refused.stderr).toMatch(/pools four differs; pools theirs is in the target alone.*migration-target-differs/s);
      else expect(refused.stdout).toMatch(/pools .*1 to copy .*1 differ .*1 in the target alone/);
    }
    expect(await etcd.contents("/calico/ipam/")).toEqual(contents);

    expect(await migrate("local", "etcdv3", "--overwrite")).toMatchObject({ exit: 0 });
    expect(await at("etcdv3", ipamValues)).toEqual(await at("local", ipamValues));
  });

  it("makes the stores ready again when the API server refuses on the way, and goes on from there", async () => {
    await preparePods();
    await cluster.setReady(true);
    await at("local", (store) => fill(store, PODS));
    const proxy = await cluster.proxy();
    const config = await proxy.kubeconfigFor("admin");
    proxy.on(
      { method: "POST", path: "ipamhandles", nth: 20, times: Number.POSITIVE_INFINITY },
      { kind: "answer", status: 403, message: "no more" },
    );
    const failed = await tortiectl(migrateArgs("local", "kubernetes", config));
    expect(failed).toMatchObject({ exit: 1, stderr: expect.stringContaining("datastore-forbidden") });
    expect([await readyOf("local"), await readyOf("kubernetes")]).toEqual([undefined, true]);
    expect((await at("kubernetes", (store) => store.handles.list())).length).toBeGreaterThan(0);

    proxy.clear();
    proxy.on({ method: "POST", path: "ipamblocks", nth: 2 }, { kind: "lose-answer" });
    expect(await tortiectl(migrateArgs("local", "kubernetes", config))).toMatchObject({ exit: 0 });
    expect(await at("kubernetes", ipamValues)).toEqual(await at("local", ipamValues));
  });

  it("survives connections to etcd that break before and after a write", async () => {
    await at("local", (store) => fill(store, 20));
    await using proxy = await EtcdFaultProxy.start(etcd);
    for (const [request, fault] of [
      [30, "cut"],
      [60, "lose-answer"],
    ] as const) {
      await etcd.clear();
      proxy.set(request, fault);
      const run = await tortiectl(migrateArgs("local", "etcdv3"), environment(`http://127.0.0.1:${proxy.port}`));
      expect(run).toMatchObject({ exit: 0 });
      expect(proxy.seen).toBeGreaterThan(request);
      expect(await at("etcdv3", ipamValues)).toEqual(await at("local", ipamValues));
    }
  });

  it("names endpoints that have no pod, and a target that is the source", async () => {
    await preparePods(5);
    await at("local", (store) => fill(store, 10));
    const run = await migrate("local", "kubernetes");
    expect(run).toMatchObject({ exit: 0, stdout: expect.stringMatching(/note: no place in the target for endpoints default\/\S+, /) });
    expect(await at("kubernetes", recordValues)).toHaveLength(4);
    expect(await migrate("local", "local")).toMatchObject({ exit: 2, stderr: expect.stringContaining("option-invalid") });
  });
});
