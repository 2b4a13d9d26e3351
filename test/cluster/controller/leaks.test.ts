/** Leaked addresses of nodes that exist, and when the controller must not believe what it sees. Its minutes are the test's. */
import { ClusterAddresses, NAMESPACE } from "../../support/cluster-addresses.ts";
import { ControllerTerm } from "../../support/controller-term.ts";
import { fresh, shared } from "../../support/fixtures.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

const cluster = shared(startCluster);
const addresses = shared(() => ClusterAddresses.open(cluster));
beforeEach(async () => {
  await addresses.clear(["node1", "node2"]);
  await cluster.createPool("pool", { cidr: "10.60.0.0/24", blockSize: 29 });
});
const proxy = fresh(() => cluster.proxy());

const removeNode = (name: string) => cluster.remove("v1", "nodes", name);

describe("a leaked address", () => {
  it("is released after fifteen minutes, with its handle; addresses of pods and tunnels stay", async () => {
    const leaked = await addresses.take("node1", "never-was");
    const used = await addresses.addPod("node1", "web");
    const tunnel = await addresses.takeTunnel("node1");
    await using controller = await ControllerTerm.begin(proxy);
    await controller.minutes(14);
    expect((await addresses.of("node1")).addresses).toEqual([leaked, used, tunnel].sort());
    await controller.minutes(2);
    expect((await addresses.of("node1")).addresses).toEqual([used, tunnel].sort());
    expect((await addresses.datastore.handles.list()).map(({ value }) => value.id).sort()).toEqual([
      "net1.web-c",
      "vxlan-tunnel-addr-node1",
    ]);
    expect(await addresses.damage()).toEqual([]);
  });

  it("stays when its pod turns up meanwhile", async () => {
    const slow = await addresses.take("node1", "slow");
    await using controller = await ControllerTerm.begin(proxy);
    await controller.minutes(10);
    await cluster.createPod("slow", { namespace: NAMESPACE, node: "node1", serviceAccountName: "default" });
    await controller.sees("the pod", (view) => view.pod(NAMESPACE, "slow") !== undefined);
    await controller.minutes(20);
    expect((await addresses.of("node1")).addresses).toEqual([slow]);
  });

  it("S10: is released although annotations of another pod name it, and stays where its own pod's do", async () => {
    const leaked = [await addresses.take("node1", "never-was"), await addresses.take("node1", "short")];
    const own = await addresses.addPod("node1", "web");
    const [annotated, restarted] = [await addresses.take("node1", "two"), await addresses.take("node1", "two", "another-c")];
    for (const [name, listed] of [
      ["greedy", [...leaked, annotated, restarted]],
      ["two", [annotated, restarted]],
    ] as const) {
      await cluster.createPod(name, {
        namespace: NAMESPACE,
        node: "node1",
        serviceAccountName: "default",
        annotations: { "cni.projectcalico.org/podIPs": listed.map((address) => `${address}/32`).join(",") },
      });
    }
    await using controller = await ControllerTerm.begin(proxy);
    await controller.minutes(17);
    expect((await addresses.of("node1")).addresses).toEqual([own, annotated, restarted].sort());
  });

  it("S11: of a pod whose annotations are not read to their end stays as long as the pod, which is reported", async () => {
    const unknown = await addresses.take("node1", "web");
    const leaked = await addresses.take("node1", "never-was");
    await cluster.createPod("web", {
      namespace: NAMESPACE,
      node: "node1",
      serviceAccountName: "default",
      annotations: { "k8s.v1.cni.cncf.io/network-status": `10.1.1.1${" ".repeat(100_000)}${leaked} ${unknown}` },
    });
    await using controller = await ControllerTerm.begin(proxy);
    await controller.minutes(17);
    expect((await addresses.of("node1")).addresses).toEqual([unknown]);
    expect(controller.term.duties.addresses.unread).toEqual([`${NAMESPACE}/web`]);
    await addresses.removePod("web");
    await controller.sees("the pod gone", (view) => view.pod(NAMESPACE, "web") === undefined);
    await controller.minutes(17);
    expect((await addresses.of("node1")).addresses).toEqual([]);
    expect(controller.term.duties.addresses.unread).toEqual([]);
  });

  it("stays for ever with --leak-grace 0, and while the datastore is not ready", async () => {
    const leaked = await addresses.take("node1", "never-was");
    {
      await using controller = await ControllerTerm.begin(proxy, { "leak-grace": "0" });
      await controller.minutes(20);
    }
    await cluster.setReady(false);
    await using controller = await ControllerTerm.begin(proxy);
    await controller.minutes(20);
    expect((await addresses.of("node1")).addresses).toEqual([leaked]);
  });
});

describe("a controller that dies in the middle of a leaked address", () => {
  it("leaves, after whichever of its writes, what the next one finishes, and what is in use untouched", async () => {
    const used = await addresses.addPod("node1", "web");
    let isDone = false;
    for (let writes = 0; !isDone; writes++) {
      await addresses.take("node1", "never-was");
      {
        await using dying = await ControllerTerm.begin(cluster, { "pool-finalizer": "false" }, { mostWrites: writes });
        await dying.minutes(18);
        isDone = !dying.log.some((line) => line.includes("does not lead any more"));
      }
      await using next = await ControllerTerm.begin(cluster, { "pool-finalizer": "false" });
      await next.minutes(17);
      expect([writes, (await addresses.of("node1")).addresses, await addresses.damage()]).toEqual([writes, [used], []]);
      expect((await addresses.datastore.handles.list()).map(({ value }) => value.id)).toEqual(["net1.web-c"]);
      expect(writes).toBeLessThan(30);
    }
  });
});

describe("Calico's kube-controllers", () => {
  const NAME = "calico-kube-controllers";
  const labels = { "k8s-app": NAME };
  const spec = { serviceAccountName: NAME, containers: [{ name: "c", image: "c" }] };
  const deployment = (replicas: number, namespace = "kube-system") => ({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: NAME, namespace, labels },
    spec: { replicas, selector: { matchLabels: { a: "b" } }, template: { metadata: { labels: { a: "b" } }, spec } },
  });
  const podIn = (namespace: string) => ({ apiVersion: "v1", kind: "Pod", metadata: { name: "kc", namespace, labels }, spec });
  beforeEach(async () => {
    for (const namespace of ["kube-system", NAMESPACE]) {
      await cluster.apply({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name: NAME, namespace } });
    }
  });
  afterEach(async () => {
    await cluster.remove("apps/v1", "deployments", NAME, "kube-system");
    await cluster.remove("v1", "pods", "kc", "kube-system");
  });

  it("has the addresses to itself while its Deployment wants a pod; nothing seen in that time counts", async () => {
    const [leaked, left] = [await addresses.take("node2", "never-was"), await addresses.take("node1", "web")];
    await removeNode("node1");
    await cluster.apply(deployment(1));
    await using controller = await ControllerTerm.begin(proxy);
    await controller.minutes(20);
    await cluster.remove("apps/v1", "deployments", NAME, "kube-system");
    await cluster.apply(deployment(0));
    await controller.minutes(4);
    expect([(await addresses.of("node1")).addresses, (await addresses.of("node2")).addresses]).toEqual([[left], [leaked]]);
    await controller.minutes(14);
    expect([(await addresses.of("node1")).addresses, (await addresses.of("node2")).addresses]).toEqual([[], []]);
  });

  it("counts as present when nobody can say, and when one of its pods is there", async () => {
    await addresses.take("node1", "web");
    await removeNode("node1");
    const before = await addresses.of("node1");
    proxy.on({ path: "/deployments", times: Infinity }, { kind: "answer", status: 403 });
    {
      await using controller = await ControllerTerm.begin(proxy);
      await controller.minutes(10);
      expect(controller.log.join("\n")).toContain("addresses failed");
    }
    proxy.clear();
    await cluster.apply(podIn("kube-system"));
    await using controller = await ControllerTerm.begin(proxy);
    await controller.minutes(10);
    expect(await addresses.of("node1")).toEqual(before);
    expect(controller.term.kubeControllers.found).toBe("pod kube-system/kc");
  });

  it("S3: is not what a tenant says: neither label nor account of another namespace stops the release of addresses", async () => {
    await addresses.take("node1", "web");
    await removeNode("node1");
    await cluster.apply(podIn(NAMESPACE));
    await cluster.apply(deployment(1, NAMESPACE));
    await using controller = await ControllerTerm.begin(proxy);
    await controller.minutes(10);
    expect((await addresses.of("node1")).addresses).toEqual([]);
    expect(controller.term.kubeControllers.found).toBeUndefined();
  });
});

describe("a server that cannot be believed", () => {
  it("has no node's list trusted that is empty or short: the server is asked about the node itself", async () => {
    await addresses.take("node1", "web");
    const before = await addresses.of("node1");
    const lists = { path: /^\/api\/v1\/nodes\?(?!.*watch=)/, times: Infinity };
    proxy.on(lists, { kind: "mix-up", path: "/api/v1/nodes?fieldSelector=metadata.name%3Dnode2" });
    {
      await using controller = await ControllerTerm.begin(proxy);
      await controller.sees("a list without the node", (view) => !view.hasNode("node1") && view.hasNode("node2"));
      await controller.minutes(10);
      expect(controller.log.join("\n")).toContain("node node1 exists although the watch does not show it");
    }
    proxy.clear();
    proxy.on(lists, { kind: "mix-up", path: "/api/v1/nodes?fieldSelector=metadata.name%3Dnobody" });
    await using controller = await ControllerTerm.begin(proxy);
    await controller.minutes(10);
    expect(await addresses.of("node1")).toEqual(before);
  });

  it("has no list of pods trusted that lacks one: the server is asked about the pod itself", async () => {
    const used = await addresses.addPod("node1", "web");
    proxy.on({ path: /^\/api\/v1\/pods\?(?!.*watch=)/, times: Infinity }, { kind: "mix-up", path: "/api/v1/namespaces/kube-public/pods" });
    await using controller = await ControllerTerm.begin(proxy);
    await controller.sees("a list without the pod", (view) => view.pods.length === 0);
    await controller.minutes(20);
    expect((await addresses.of("node1")).addresses).toEqual([used]);
    expect(proxy.requests.some(({ path }) => path.endsWith(`/namespaces/${NAMESPACE}/pods/web`))).toBe(true);
  });

  it.each([410, 403])("releases nothing while single objects are answered with %i", async (status) => {
    await addresses.take("node1", "web");
    await removeNode("node1");
    const before = await addresses.of("node1");
    proxy.on({ path: /\/nodes\/node1/, times: Infinity }, { kind: "answer", status });
    await using controller = await ControllerTerm.begin(proxy);
    await controller.minutes(10);
    expect(await addresses.of("node1")).toEqual(before);
    expect(proxy.requests.some(({ path }) => path.endsWith("/nodes/node1"))).toBe(true);
  });

  it("G16: judges nothing while a watch is lost, and begins its grace again when it is followed again", async () => {
    await addresses.take("node1", "web");
    await using controller = await ControllerTerm.begin(proxy);
    await removeNode("node1");
    await controller.sees("the node gone", (view) => !view.hasNode("node1"));
    await controller.minutes(3);
    const before = await addresses.of("node1");
    await proxy.refuse();
    await controller.sees("the loss", (view) => view.gap !== undefined);
    await controller.minutes(5);
    expect(await addresses.of("node1")).toEqual(before);
    await proxy.accept();
    await controller.followed();
    await controller.minutes(3);
    expect(await addresses.of("node1")).toEqual(before);
    await controller.minutes(4);
    expect((await addresses.of("node1")).addresses).toEqual([]);
  });
});
