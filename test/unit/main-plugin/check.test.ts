/** CNI CHECK: what it compares with what, and what counts as right because it cannot be compared (F4). */
import { formatPrefix } from "../../../lib/addresses/address.ts";
import { DatastoreError } from "../../../lib/datastore/errors.ts";
import type { JsonObject } from "../../../lib/json/value.ts";
import { fresh } from "../../support/fixtures.ts";
import { type PodCall, PodNode } from "../../support/pod-node.ts";

const node = fresh(PodNode.create);

/** The result of an ADD as the runtime hands it to CHECK. */
async function added(call: PodCall = {}): Promise<JsonObject> {
  return JSON.parse(JSON.stringify(await node.add(call)));
}

function hostRoutes(): readonly string[] | undefined {
  return node.inspected?.desired.host.routes.map(({ destination }) => formatPrefix(destination));
}

describe("CHECK of a pod", () => {
  it("is silent after its ADD, and asks the IPAM plugin too", async () => {
    const prevResult = await added();
    node.effects.length = 0;
    await node.check({ conf: { prevResult } });
    expect(node.effects).toContain("get handle net1.c1");
    expect(hostRoutes()).toEqual(["10.60.0.0/32"]);
  });

  it("wants no host routes of the target of a migration, whose result has none", async () => {
    const prevResult = { ...(await added()), routes: [] };
    await node.check({ conf: { prevResult } });
    expect(hostRoutes()).toEqual([]);
  });

  it("wants the host routes of addresses that an annotation asks for, though the result has none", async () => {
    node.annotate({ "cni.projectcalico.org/ipAddrs": '["10.60.0.9"]' });
    const prevResult = { ...(await added()), routes: [] };
    await node.check({ conf: { prevResult } });
    expect(hostRoutes()).toEqual(["10.60.0.9/32"]);
  });

  it("does not ask the IPAM plugin about addresses that it never gave", async () => {
    node.annotate({ "cni.projectcalico.org/ipAddrsNoIpam": '["10.60.0.9"]' });
    const conf = { feature_control: { ip_addrs_no_ipam: true } };
    const prevResult = await added({ conf });
    node.effects.length = 0;
    await node.check({ conf: { ...conf, prevResult } });
    expect(node.effects).not.toContain("get handle net1.c1");
  });

  it("F4: compares the pod end with the result's own entry for it, not with other interfaces of the chain", async () => {
    const result = await added();
    const sandbox = "/proc/self/ns/net";
    const interfaces: readonly JsonObject[] = [
      { name: "eth0", mac: "02:00:00:00:00:0a" },
      { name: "net1", mac: "02:00:00:00:00:0b", sandbox },
      { name: "eth0", mac: "02:00:00:00:00:0c", sandbox },
    ];
    await node.check({ conf: { prevResult: { ...result, interfaces } } });
    expect(node.inspected?.recorded).toEqual({ mac: "02:00:00:00:00:0c" });
  });

  it.each([
    ["does not answer", "unavailable"],
    ["refuses the token", "unauthorized"],
  ] as const)("F4: of a cluster that %s compares the kernel with the result, and says what it left out", async (_, kind) => {
    const prevResult = await added();
    node.failure = { effect: "pod", error: new DatastoreError(kind, "arranged") };
    await node.check({ conf: { prevResult } });
    expect(node.errors).toEqual(["not compared: record and addresses: arranged"]);
    expect(hostRoutes()).toEqual(["10.60.0.0/32"]);
    node.podEnds.clear();
    await expect(node.check({ conf: { prevResult } })).rejects.toMatchObject({ word: "check-failed" });
  });

  it("fails of a record that cannot be read for another reason", async () => {
    const prevResult = await added();
    node.failure = { effect: "pod", error: new DatastoreError("invalid", "arranged") };
    await expect(node.check({ conf: { prevResult } })).rejects.toMatchObject({ message: "arranged" });
  });

  it("fails of addresses that the IPAM plugin cannot tell of, unless the datastore does not answer", async () => {
    const prevResult = await added();
    const effect = "get handle net1.c1";
    node.failure = { effect, error: new DatastoreError("invalid", "arranged") };
    await expect(node.check({ conf: { prevResult } })).rejects.toMatchObject({ message: expect.stringContaining("arranged") });
    expect(node.errors).toEqual([]);
    node.failure = { effect, error: new DatastoreError("unavailable", "arranged") };
    await node.check({ conf: { prevResult } });
    expect(node.errors).toEqual([expect.stringContaining("not compared: addresses: ")]);
  });

  it("names a record that is gone, and addresses that differ from it", async () => {
    const prevResult = await added();
    node.annotate({ "cni.projectcalico.org/podIP": "10.60.0.7/32", "cni.projectcalico.org/podIPs": "10.60.0.7/32" });
    const differ = "endpoint record: wanted addresses 10.60.0.0/32, found 10.60.0.7/32";
    await expect(node.check({ conf: { prevResult } })).rejects.toMatchObject({ message: expect.stringContaining(differ) });
    node.annotate({ "cni.projectcalico.org/podIP": "", "cni.projectcalico.org/podIPs": "" });
    const gone = "endpoint record: wanted container c1, found none";
    await expect(node.check({ conf: { prevResult } })).rejects.toMatchObject({ message: expect.stringContaining(gone) });
  });

  it("without a result goes by the record, if it is this container's", async () => {
    await node.add();
    await node.check();
    expect(node.inspected?.desired.pod.addresses.map(formatPrefix)).toEqual(["10.60.0.0/32"]);
    node.annotate({ "cni.projectcalico.org/containerID": "c2" });
    await expect(node.check()).rejects.toMatchObject({ word: "container-unknown" });
  });

  it.each(["unavailable", "unauthorized"] as const)(
    "N11: without a result says that the datastore is %s, not that it knows no container",
    async (failure) => {
      await added();
      node.failure = { effect: "pod", error: new DatastoreError(failure, "arranged") };
      await expect(node.check()).rejects.toMatchObject({ message: "arranged", word: `datastore-${failure}` });
    },
  );

  it("names the container that the record says instead", async () => {
    const prevResult = await added();
    node.annotate({ "cni.projectcalico.org/containerID": "c2" });

    await expect(node.check({ conf: { prevResult } })).rejects.toMatchObject({
      word: "check-failed",
      message: expect.stringContaining("endpoint record: wanted container c1, found container c2"),
    });
  });
});
