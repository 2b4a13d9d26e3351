/**
 * A cluster as somebody makes it from the pages: the manifests applied by kubectl, their pods made by the real controllers and run by the
 * real kubelet from the project's own image, which its containerd pulls from a real registry; and each kubectl line of the pages of
 * docs/how-to.
 */
import { execFileSync } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { shared } from "../support/fixtures.ts";
import { ControlPlane } from "../support/kubelet/control-plane.ts";
import { TEST_IMAGE } from "../support/kubelet/image.ts";
import { KubeletNode } from "../support/kubelet/kubelet-node.ts";
import { NODE, NODE_ADDRESS } from "../support/kubelet/pretend-host.ts";
import { Registry } from "../support/kubelet/registry.ts";
import { tryPod } from "../support/kubelet/try-pod.ts";
import { memberAt } from "../support/kubernetes/json.ts";
import type { ApiObject } from "../support/kubernetes/resources.ts";
import { LEGACY, startCluster } from "../support/kubernetes/test-cluster.ts";
import { commandsOf } from "../support/page.ts";

const IPV6_RANGE = "fd44:244::/48";
/** Where the manifests' pods install. */
const PLACES = { binDir: "/opt/cni/bin", netDir: "/etc/cni/net.d" };

/** Where the image of a later release is. */
let later: string;
const cluster = shared(() => startCluster({ isBare: true }));
const node = shared(() => KubeletNode.start(cluster, PLACES));
const control = shared(() => new ControlPlane(cluster));
const registry = shared(Registry.start);
beforeAll(async () => {
  later = registry.pushImages();
  // As `kubeadm init --pod-network-cidr` leaves it: the range of the controller manager, and one of IPv6.
  const data = { ClusterConfiguration: `networking:\n  podSubnet: 10.244.0.0/16,${IPV6_RANGE}\n` };
  await cluster.apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "kubeadm-config", namespace: "kube-system" }, data });
});

type Words = Readonly<Record<string, string>>;

/** Runs the commands below a heading as they stand, but for the words that a page writes in capitals. */
async function runPage(page: string, heading: string, words: Words = {}): Promise<string> {
  let printed = "";
  for (const block of commandsOf(page, heading)) printed += await runBlock(block, words);
  return printed;
}

async function runBlock(block: string, words: Words = {}): Promise<string> {
  const script = Object.entries(words).reduce((text, [word, value]) => text.replaceAll(word, value), block);
  try {
    return await control.run(script);
  } catch (error) {
    const pods = await control.run("kubectl get pods -A -o wide; kubectl -n kube-system describe pods | tail -60");
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${pods}\n${node.logs()}`);
  }
}

async function agentPod(): Promise<string> {
  const pods = await cluster.list("v1", "pods", "kube-system");
  const pod = pods.find(({ metadata }) => metadata.name.startsWith("tortie-node-") && metadata.deletionTimestamp === undefined);
  if (pod === undefined) throw new Error("no pod of the agent");
  return pod.metadata.name;
}

/** A definition of a kind whose objects may hold anything. */
function anyObject(group: string, plural: string): ApiObject {
  const kind = { podmonitors: "PodMonitor", prometheusrules: "PrometheusRule" }[plural] ?? plural;
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { plural, singular: kind.toLowerCase(), kind, listKind: `${kind}List` },
      versions: [{ name: "v1", served: true, storage: true, schema }],
    },
  };
}

/** Every address of a pod has been given back; the one of the node's own VXLAN device stays. */
async function expectOnlyTheTunnelsAddress(): Promise<void> {
  await node.until("every address to be given back", async () => (await node.takenOrdinals()).length === 1);
  expect(node.podLinks()).toEqual([]);
}

/** Pods come and go, six at a time, until the work is done. @returns how many there were */
async function burstDuring(work: Promise<unknown>): Promise<number> {
  let isDone = false;
  const end = work.finally(() => {
    isDone = true;
  });
  let count = 0;
  const names: string[] = [];
  while (!isDone) {
    const wave = Array.from({ length: 6 }, () => `wave${count++}`);
    names.push(...wave);
    await node.createPods(wave);
    await node.untilReady(wave);
    await node.deletePods(wave);
  }
  await end;
  await node.untilGone(names);
  return count;
}

describe("a cluster made by docs/how-to/install-cluster.md", () => {
  it("has an agent on its node, made Ready by the real kubelet, and pods with a network", async () => {
    await runPage("how-to/install-cluster.md", "## In a cluster");
    await node.untilNodeReady();
    expect(readdirSync(PLACES.netDir)).toContain("10-tortie.conflist");
    expect(await tryPod(node, "first")).toMatch(/^10\.244\./);
    expect(await node.failedAdds()).toEqual([]);
    await expectOnlyTheTunnelsAddress();
    // Whatever it is not allowed is an error of its log.
    expect(
      (await control.run("kubectl -n kube-system logs daemonset/tortie-node")).split("\n").filter((line) => /forbidden/.test(line)),
    ).toEqual([]);
  });

  it("asks for a pod as little as an agent can, whose executable is another file than the plugins'", async () => {
    const begunUs = Date.now() * 1000;
    await tryPod(node, "counted");
    const asked = (await cluster.requests()).filter(
      ({ receivedUs, user, uri }) => receivedUs >= begunUs && !user.includes("controller") && uri.includes("crd.projectcalico.org"),
    );
    const kinds = asked.map(({ verb, uri }) => `${verb} ${/v1\/([a-z]+)/.exec(uri)?.[1]}`);
    expect(kinds).toEqual(["create ipamhandles", "update ipamblocks", "update ipamblocks", "delete ipamhandles"]);
  });

  it("is asked by kubectl tortie: by its objects, and by tortiectl in the agent's pod", async () => {
    await node.createPods(["asked"]);
    await node.untilReady(["asked"]);
    const [address = ""] = await node.addressesOf("asked");
    const json = async (line: string): Promise<unknown> => JSON.parse(await control.run(`kubectl tortie ${line} || true`));
    expect(await json("endpoints -A -o json")).toContainEqual(
      expect.objectContaining({ pod: "asked", node: NODE, addresses: expect.arrayContaining([address]) }),
    );
    expect(await json(`explain pod pods/asked --json`)).toMatchObject({ standing: "present", summary: expect.stringContaining(address) });
    expect(await control.run(`kubectl tortie explain ip ${address} || true`)).toContain(`node ${NODE}\n`);
    const results = memberAt(await json("doctor --json"), "results");
    expect(results).toContainEqual(expect.objectContaining({ check: "node-answers", status: "ok", object: `node ${NODE}` }));
    expect(results).toContainEqual(expect.objectContaining({ group: `node ${NODE}: agent` }));
    await node.deletePods(["asked"]);
    await node.untilGone(["asked"]);
  });

  it("is found in order by the commands that docs/how-to/upgrade.md gives for before a change", async () => {
    const files = { "validate tortie.yaml 10-tortie.conflist": "validate manifests/tortie.yaml manifests/conflist/10-tortie.conflist" };
    await runPage("how-to/upgrade.md", "## Before a change", { ...files, POD: await agentPod() });
  });

  it("changes its version, and back, while pods come and go, without one failed ADD", async () => {
    const old = await agentPod();
    const there = await burstDuring(runPage("how-to/upgrade.md", "## Upgrade", { "REGISTRY/tortie:VERSION": later }));
    const next = await agentPod();
    expect(next).not.toBe(old);
    expect(await control.run(`kubectl -n kube-system get pod ${next} -o jsonpath={.spec.containers[0].image}`)).toContain(":next");
    const back = await burstDuring(runPage("how-to/roll-back.md", "## Back to the version before"));
    process.stdout.write(`${there} pods while the DaemonSet changed its version, ${back} while it went back\n`);
    expect(await agentPod()).not.toBe(next);
    expect(await node.failedAdds()).toEqual([]);
    await expectOnlyTheTunnelsAddress();
  });

  it("serves the figures of agent and controller to others, and has the operator's objects, by the commands of the alerts", async () => {
    // The operator's own definitions are in no package: the suite of the cluster reads the objects by the operator's types.
    for (const plural of ["podmonitors", "prometheusrules"]) await cluster.apply(anyObject("monitoring.coreos.com", plural));
    await control.run(
      "kubectl wait --for=condition=Established crd podmonitors.monitoring.coreos.com prometheusrules.monitoring.coreos.com",
    );

    await runPage("how-to/monitor.md", "### Alerts");

    for (const what of ["daemonset/tortie-node", "deployment/tortie-controller"])
      await control.run(`kubectl -n kube-system rollout status ${what}`);
    expect(await (await fetch(`http://${NODE_ADDRESS}:9881/metrics`)).text()).toContain("\ntortie_ready 1\n");
    expect(await (await fetch(`http://${NODE_ADDRESS}:9882/metrics`)).text()).toMatch(
      /\ntortie_controller_check_state\{check="lease"\} 0\n/,
    );
    expect(await control.run("kubectl -n kube-system get podmonitors,prometheusrules -o name")).toMatch(
      /podmonitor.*tortie-controller\n.*podmonitor.*tortie-node\n.*rule.*tortie\n.*rule.*tortie-without-calico\n/,
    );
    await control.run("kubectl delete -f manifests/monitoring/pod-monitors.yaml -f manifests/monitoring/rules.yaml");
    await control.run("kubectl delete crd podmonitors.monitoring.coreos.com prometheusrules.monitoring.coreos.com");
  });

  it("takes a whole release, and keeps what its administrator has changed of the pool", async () => {
    const pool = "ippools.crd.projectcalico.org default-ipv4";
    await control.run(`kubectl patch ${pool} --type merge -p '{"spec":{"natOutgoing":false}}'`);
    await runPage("how-to/upgrade.md", "### The whole release", { "-f tortie.yaml": "-f manifests/tortie.yaml" });
    expect(await control.run(`kubectl get ${pool} -o jsonpath={.spec.natOutgoing}`)).toBe("false");
    const [, scaleDown = ""] = commandsOf("how-to/install-cluster.md", "## In a cluster");
    await runBlock(scaleDown);
    await tryPod(node, "after");
    expect(await node.failedAdds()).toEqual([]);
  });

  it("keeps new pods from a node whose agent is away for a minute, while pods that run there stay; and lets them in when it is back", async () => {
    const node1 = (path: string) => control.run(`kubectl get node ${NODE} -o jsonpath='${path}'`);
    const network = (member: string) => node1(`{.status.conditions[?(@.type=="NetworkUnavailable")].${member}}`);
    const isTainted = async () => (await node1("{.spec.taints[*].key}")).includes("node.kubernetes.io/network-unavailable");
    await node.createPods(["stays"]);
    await node.untilReady(["stays"]);
    const [address = ""] = await node.addressesOf("stays");
    expect(await network("reason")).toBe("TortieIsUp");
    expect(await isTainted()).toBe(false);

    // An upgrade to an image that nobody can pull.
    const begun = performance.now();
    await control.run("kubectl -n kube-system set image daemonset/tortie-node tortie-node=127.0.0.1:5000/library/none:1");
    await node.until("the taint", isTainted);
    process.stdout.write(`tainted ${Math.round((performance.now() - begun) / 1000)} s after the agent was taken away\n`);
    expect(performance.now() - begun).toBeGreaterThan(60_000);
    expect(await network("reason")).toBe("TortieIsDown");
    await cluster.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "waits", namespace: "pods" },
      spec: { automountServiceAccountToken: false, containers: [{ name: "c", image: TEST_IMAGE, imagePullPolicy: "Never" }] },
    });
    const scheduled = () =>
      control.run(`kubectl -n pods get pod waits -o jsonpath='{.status.conditions[?(@.type=="PodScheduled")].message}'`);
    await node.until("the scheduler to say why it waits", async () => (await scheduled()).includes("untolerated taint"));
    expect(node.inPod(address, "ping", "-c", "1", "-W", "10", NODE_ADDRESS)).toContain("1 received");
    expect(await node1('{.status.conditions[?(@.type=="Ready")].status}')).toBe("True");

    await control.run("kubectl -n kube-system rollout undo daemonset/tortie-node");
    await node.untilReady(["waits", "stays"]);
    expect(await isTainted()).toBe(false);
    expect(await network("reason")).toBe("TortieIsUp");
    expect(await node.addressesOf("stays")).toEqual([address]);
    expect(node.inPod(address, "ping", "-c", "1", "-W", "10", NODE_ADDRESS)).toContain("1 received");
    await node.deletePods(["stays", "waits"]);
    await node.untilGone(["stays", "waits"]);
    expect(await node.failedAdds()).toEqual([]);
  });

  it("is taken away node by node: a pod that runs keeps its network and can be deleted, and then nothing is left", async () => {
    await node.createPods(["last"]);
    await node.untilReady(["last"]);
    const [address = ""] = await node.addressesOf("last");
    const [before = "", after = ""] = commandsOf("how-to/uninstall.md", "## From a cluster");
    await runBlock(before);
    expect(await control.run(`kubectl get node ${NODE} -o jsonpath='{.status.conditions[*].type}'`)).not.toContain("NetworkUnavailable");
    const waiting = async () =>
      /1 pods of this host/.test(await control.run("kubectl -n kube-system logs daemonset/tortie-uninstall -c files || true"));
    await node.until("the DaemonSet to wait for the pod", waiting);
    expect(node.inPod(address, "ping", "-c", "1", "-W", "10", NODE_ADDRESS)).toContain("1 received");
    expect(readdirSync(PLACES.binDir)).toContain("tortie");
    await node.deletePods(["last"]);
    await node.untilGone(["last"]);
    expect(node.podLinks()).toEqual([]);

    await runBlock(after);
    expect([...readdirSync(PLACES.binDir), ...readdirSync(PLACES.netDir)]).toEqual([]);
    const links = execFileSync("ip", ["-br", "link"], { encoding: "utf8" });
    expect(links).not.toContain("vxlan");
    expect(await control.run("kubectl get crd -o name")).toBe("");
  });
});

describe("a cluster moved by docs/how-to/migrate-from-calico.md", () => {
  /** What Calico's installer leaves; its plugin itself is not available, so that no pod may come to it. */
  const CALICOS = "10-calico.conflist";

  it("gets its new pods' network from Tortie, and has Calico's list first again on the way back", async () => {
    // What is there before: definitions, account, pool, the list, and the file that calico-node writes.
    await control.run("kubectl apply --server-side -k manifests/crds; kubectl apply --server-side -k manifests/plugins");
    await control.run("kubectl wait --for=condition=Established crd --all");
    const ready = { apiVersion: LEGACY, kind: "ClusterInformation", metadata: { name: "default" }, spec: { datastoreReady: true } };
    await cluster.apply(ready);
    await cluster.createPool("default-ipv4-ippool", { cidr: "10.244.0.0/16", blockSize: 26 });
    writeFileSync(
      join(PLACES.netDir, CALICOS),
      JSON.stringify({ name: "k8s-pod-network", cniVersion: "1.0.0", plugins: [{ type: "calico" }] }),
    );
    writeFileSync("/var/lib/calico/nodename", NODE);

    const [to = ""] = commandsOf("how-to/migrate-from-calico.md", "## To Tortie");
    await runBlock(to);
    expect(readdirSync(PLACES.netDir)).toEqual(expect.arrayContaining(["05-tortie.conflist", CALICOS]));
    expect(await tryPod(node, "moved")).toMatch(/^10\.244\./);

    for (const block of commandsOf("how-to/migrate-from-calico.md", "## Back")) await runBlock(block);
    expect(readdirSync(PLACES.netDir).filter((name) => /\.conflist$/.test(name))).toEqual([CALICOS]);
    expect(await node.failedAdds()).toEqual([]);
  });
});

async function applyOverlay(name: string): Promise<void> {
  await control.run(`bash scripts/render-manifests ${name} | kubectl apply --server-side --force-conflicts -f -`);
  await control.run("kubectl -n kube-system rollout status daemonset/tortie-node");
}

describe("the overlay for both families", () => {
  it("gives each pod an address of both, in its status and its annotation, by which pods reach each other", async () => {
    await applyOverlay("dual-stack");
    const names = ["one", "two"];
    await node.createPods(names);
    await node.untilReady(names);
    const [one = [], two = []] = await Promise.all(names.map((name) => node.addressesOf(name)));
    for (const [name, addresses] of [["one", one] as const, ["two", two] as const]) {
      expect(addresses).toEqual([expect.stringMatching(/^10\.244\./), expect.stringMatching(/^fd44:244:/)]);
      const pod = (await node.pods()).find(({ metadata }) => metadata.name === name);
      expect(pod?.metadata.annotations?.["cni.projectcalico.org/podIPs"]).toBe(`${addresses[0]}/32,${addresses[1]}/128`);
    }
    const [from = ""] = one;
    for (const to of [...two, NODE_ADDRESS]) expect(node.inPod(from, "ping", "-c", "1", "-W", "10", to)).toContain("1 received");
    await node.deletePods(names);
    await node.untilGone(names);
    expect(await node.failedAdds()).toEqual([]);
    expect(node.podLinks()).toEqual([]);
  });
});

describe("the overlay for host scope", () => {
  it("gives a pod an address of the range that the controller manager gave its node", async () => {
    await applyOverlay("host-scope");
    const range = memberAt(await cluster.get("v1", "nodes", NODE), "spec", "podCIDR");
    expect(range).toMatch(/^10\.244\.\d+\.0\/24$/);
    expect((await tryPod(node, "ranged")).split(".").slice(0, 3)).toEqual(String(range).split(".").slice(0, 3));
    expect(await node.failedAdds()).toEqual([]);
  });
});
