import { writeFileSync } from "node:fs";
import { formatPrefix } from "../../../lib/addresses/address.ts";
import { DatastoreError } from "../../../lib/datastore/errors.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { Sandbox } from "../../../lib/system/sandbox.ts";
import { add } from "../../../main-plugin/add.ts";
import { resolveAddCall } from "../../../main-plugin/call.ts";
import { fresh, TemporaryDirectory } from "../../support/fixtures.ts";
import { type PodCall, PodNode } from "../../support/pod-node.ts";
import { samplePool } from "../../support/samples.ts";
import { phrases } from "../../support/words.ts";

const node = fresh(PodNode.create);
/** Without a cluster. */
const plain = fresh(PodNode.forContainers);

async function nothingLeft(): Promise<void> {
  expect(await node.handles()).toEqual({});
  expect([...node.links]).toEqual([]);
  expect(node.annotations()["cni.projectcalico.org/podIP"] ?? "").toBe("");
}

const WARM = phrases`
  get cluster-information default, pod, namespace, list pool, list affinity, list reservation, get block 10-60-0-0-26,
  create handle, update block, apply, write record
`;

describe("ADD of a pod", () => {
  it("asks each question once, and writes the record last", async () => {
    await node.add({ container: "first" });
    node.effects.length = 0;

    await node.add();

    expect(node.effects).toEqual(WARM);
  });

  it("annotates the pod with the container and its addresses", async () => {
    const { ips } = await node.add();

    expect(node.annotations()).toEqual({
      "cni.projectcalico.org/containerID": "c1",
      "cni.projectcalico.org/podIP": ips[0]?.address,
      "cni.projectcalico.org/podIPs": ips[0]?.address,
    });
  });

  it("hands on the IPAM plugin's routes beside the addresses", async () => {
    const { ips, routes } = await node.add();

    expect(ips).toEqual([{ address: "10.60.0.0/32", interface: 1 }]);
    expect(routes).toEqual([{ dst: "10.60.0.0/26" }]);
  });

  it("does not masquerade, which is Felix's to do", async () => {
    await node.add();

    expect(node.effects).not.toContain("node");
  });

  it.each([
    ["is not ready", false, "Calico is currently not ready to process requests"],
    ["does not say whether it is ready", undefined, "Calico is currently not ready to process requests: datastoreReady"],
  ])("takes nothing when the cluster %s", async (_, ready, message) => {
    await node.setReady(ready);

    await expect(node.add()).rejects.toMatchObject({ word: "cluster-not-ready", message: expect.stringContaining(message) });

    expect(node.effects).toEqual(["get cluster-information default"]);
  });

  it("names the namespace rather than the pod when neither is there", async () => {
    node.pod = undefined;
    await expect(node.add()).rejects.toMatchObject({
      word: "datastore-object-missing",
      message: expect.stringContaining('pods "cart" not found'),
    });

    node.namespace = undefined;
    await expect(node.add()).rejects.toMatchObject({ message: expect.stringContaining('namespaces "shop" not found') });
  });

  it("reads no namespace under another policy type, whose annotations are inert", async () => {
    node.annotate({ "cni.projectcalico.org/hwAddr": "nonsense" });

    await node.add({ conf: { policy: { type: "other" } } });

    expect(node.effects).not.toContain("namespace");
  });

  it("goes by the network configuration alone without a policy type", async () => {
    await node.add({ conf: { policy: {} } });
    expect(node.effects).not.toContain("namespace");
  });

  describe("W11: where the file with the node's name is missing", () => {
    const conf = { nodename_file_optional: false, nodename_file: "/nonexistent/nodename" };

    it.each<[string, DatastoreError]>([
      ["a server that is away", new DatastoreError("unavailable", "arranged")],
      ["a refused certificate", new DatastoreError("unavailable", "arranged", undefined, "datastore-untrusted")],
      ["a page of a proxy", new DatastoreError("unavailable", "arranged", undefined, "datastore-answer-foreign")],
      ["a refused token", new DatastoreError("unauthorized", "arranged")],
      ["a missing right", new DatastoreError("unauthorized", "arranged", undefined, "datastore-forbidden")],
    ])("names %s first", async (_, error) => {
      node.failure = { effect: "get cluster-information default", error };
      await expect(node.add({ conf })).rejects.toMatchObject({ word: error.word, next: error.next });
    });

    it("names a cluster without pools first", async () => {
      for (const { value, revision } of await node.datastore.pools.list()) await node.datastore.pools.delete(value.name, revision);
      await expect(node.add({ conf })).rejects.toMatchObject({ word: "pool-none" });
    });

    it("names the file when nothing else is wrong, and has changed nothing", async () => {
      await expect(node.add({ conf })).rejects.toMatchObject({ word: "nodename-file-missing" });
      await nothingLeft();
    });
  });

  it("refuses a name that a damaged file gives to the node", async () => {
    using directory = new TemporaryDirectory();
    const file = `${directory.path}/nodename`;
    for (const text of ["\0\0\0\0\0", "node1\nnode2\n"]) {
      writeFileSync(file, text);
      const conf = { nodename: null, nodename_file: file };
      await expect(node.add({ conf })).rejects.toMatchObject({ word: "nodename-invalid" });
      await expect(plain.add({ conf })).rejects.toMatchObject({ word: "nodename-invalid" });
    }
    await nothingLeft();
  });

  it.each<[string, PodCall, string]>([
    ["without a sandbox before anything is asked", { netns: "/run/netns/tortie-no-such-namespace" }, "netns-missing"],
    ["for a container that is no pod before anything is asked", { args: "IgnoreUnknown=1" }, "arguments-invalid"],
  ])("is refused %s", async (_, call, word) => {
    await expect(node.add(call)).rejects.toMatchObject({ word });
    expect(node.effects).toEqual([]);
  });

  it("says that there is no way to its cluster", async () => {
    const { call, host: own } = node.parts();
    const datastore = () => Promise.reject(new TortieError("kubeconfig-missing", "arranged"));
    await expect(add(resolveAddCall(call), { ...own, datastore })).rejects.toMatchObject({
      message: "error creating calico client: arranged",
    });
  });

  it("is refused for a pod that no node has", async () => {
    if (node.pod !== undefined) node.pod = { ...node.pod, nodeName: "" };
    await expect(node.add()).rejects.toMatchObject({
      message: expect.stringContaining("error with field node (field should be assigned)"),
    });
    await nothingLeft();
  });

  it("takes no address for a pod whose annotation cannot be read", async () => {
    node.annotate({ "cni.projectcalico.org/ipv4pools": "nonsense" });

    await expect(node.add()).rejects.toMatchObject({ word: "annotation-invalid" });
    expect(node.effects).not.toContain("list pool");
  });

  it("takes the pod's pool", async () => {
    await node.datastore.pools.create("other", samplePool("other", "10.61.0.0/26"));
    node.annotate({ "cni.projectcalico.org/ipv4pools": '["other"]' });

    const { ips } = await node.add();

    expect(ips[0]?.address).toMatch(/^10\.61\.0\.\d+\/32$/);
  });
});

describe("ADD of a pod of an etcd", () => {
  it("takes the host end over from the pod's older sandbox, which its record names", async () => {
    await using node = await PodNode.forEtcd();
    const args = "IgnoreUnknown=1;K8S_POD_NAME=cart;K8S_POD_NAMESPACE=shop";
    await node.add({ args, container: "old" });
    await node.add({ args, container: "new" });
    expect([...node.links.values()]).toEqual([expect.stringContaining("new")]);
  });
});

describe("ADD of a pod without a cluster", () => {
  it("makes a profile that all of a network's pods may use, and containers that carry its label", async () => {
    await plain.add({ container: "c1" });
    await plain.add({ container: "c2", args: "IgnoreUnknown=1;K8S_POD_NAME=cart;K8S_POD_NAMESPACE=shop" });
    expect(plain.ingressSelectors).toEqual(["has(net1)", ""]);
  });

  it("of the node's own ranges returns addresses and routes", async () => {
    const { ips, routes } = await plain.add({ conf: { ipam: { type: "tortie-host-scope" } } });
    expect(ips.length).toBeGreaterThan(0);
    expect(routes.map(({ dst }) => dst)).toEqual(
      ips.map(({ address }) => address.replace(/\/\d+$/, address.includes(":") ? "/128" : "/32")),
    );
  });
});

describe("ADD with a sandbox that the serving process has proven", () => {
  it("does not look at the path that the request names", async () => {
    using sandbox = Sandbox.named("/proc/self/ns/net", { allowsOwn: true });
    await node.add({ netns: "/nonexistent", sandbox });
    expect(node.links.size).toBe(1);
    node.effects.length = 0;
    await node.del({ netns: "", sandbox });
    expect(node.effects).toContain("remove link");
  });
});

describe("ADD of a pod that names its own address", () => {
  it("has a route of the host to it, though no IPAM plugin gave it", async () => {
    node.annotate({ "cni.projectcalico.org/ipAddrsNoIpam": '["10.60.0.9"]' });
    await node.add({ conf: { feature_control: { ip_addrs_no_ipam: true } } });
    expect(node.applied?.host.routes.map(({ destination }) => formatPrefix(destination))).toEqual(["10.60.0.9/32"]);
  });
});

describe("ADD of a pod that fails", () => {
  it.each(["update block", "apply", "write record"])("leaves nothing behind when it fails at: %s", async (effect) => {
    await node.add({ container: "other" });
    await node.del({ container: "other" });
    node.failure = { effect, error: new DatastoreError("invalid", "arranged") };

    await expect(node.add()).rejects.toBeInstanceOf(Error);

    await nothingLeft();
  });

  it("keeps the address and the record of the same container's earlier ADD", async () => {
    await node.add();
    const before = node.annotations();
    node.failure = { effect: "apply", error: new TortieError("interface-exists", "file exists") };

    await expect(node.add()).rejects.toMatchObject({ message: "file exists" });

    expect(await node.handles()).toEqual({ "net1.c1": 1 });
    expect(node.annotations()).toEqual(before);
  });
});

describe("ADD of a pod again", () => {
  it.each([
    ["without a cluster", () => PodNode.forContainers()],
    ["of an etcd", () => PodNode.forEtcd()],
  ])("finds the record of its earlier ADD in a store %s, and keeps its address when it fails", async (_, make) => {
    await using node = await make();
    const args = "IgnoreUnknown=1;K8S_POD_NAME=cart;K8S_POD_NAMESPACE=shop";
    await node.add({ args });
    node.failure = { effect: "apply", error: new Error("arranged") };
    await expect(node.add({ args })).rejects.toMatchObject({ message: "arranged" });
    expect(await node.handles()).toEqual({ "net1.c1": 1 });
    expect(node.links.size).toBe(1);
  });

  it("takes a new address for a new container, and the old container's DEL leaves the new one alone", async () => {
    const first = await node.add({ container: "old" });
    const second = await node.add({ container: "new" });
    expect(second.ips).not.toEqual(first.ips);
    const link = [...node.links];

    await node.del({ container: "old" });

    expect(await node.handles()).toEqual({ "net1.new": 1 });
    expect(node.annotations()["cni.projectcalico.org/podIP"]).toBe(second.ips[0]?.address);
    expect([...node.links]).toEqual(link);
  });

  it("takes another address for the same container, and one DEL frees both", async () => {
    await node.add();
    await node.add();
    expect(await node.handles()).toEqual({ "net1.c1": 2 });

    await node.del();

    await nothingLeft();
  });
});

describe("an interrupted ADD of a container whose pod's record names an older one", () => {
  it("is undone by the next ADD, which takes one address and no second", async () => {
    await node.add({ container: "c2" });
    // As if it had been killed before it wrote its record over that of the pod's last container.
    node.links.clear();
    node.podEnds.clear();
    node.annotate({ "cni.projectcalico.org/containerID": "c1", "cni.projectcalico.org/podIPs": "10.60.0.9/32" });

    await node.add({ container: "c2" });

    expect(await node.handles()).toEqual({ "net1.c2": 1 });
    expect(node.effects).toContain("remove link");
  });
});
