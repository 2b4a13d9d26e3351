/**
 * Pods of a real kubelet and containerd, with the plugins as the installer puts them and the agent beside them: alone, many at once, and
 * while something is restarted, replaced or killed under them. The times beside pods of the host's network, which need no CNI plugin, are
 * printed and not judged.
 */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { shared } from "../support/fixtures.ts";
import { InstalledPlugins } from "../support/kubelet/installed-plugins.ts";
import { KubeletNode } from "../support/kubelet/kubelet-node.ts";
import { NODE, NODE_ADDRESS } from "../support/kubelet/pretend-host.ts";
import { memberAt } from "../support/kubernetes/json.ts";
import { type StoredObject, startCluster } from "../support/kubernetes/test-cluster.ts";
import { BIN_DIR } from "../support/node.ts";

const PREFIX = "cni.projectcalico.org/";
const SERVICE = "10.96.77.7";

const cluster = shared(startCluster);
beforeAll(async () => {
  await cluster.reset();
  await cluster.setReady(true);
  await cluster.createPool("pool4", { cidr: "10.60.0.0/22" });
});
const plugins = shared(() => InstalledPlugins.create(cluster));
beforeAll(() => plugins.install());
const node = shared(() => KubeletNode.start(cluster, plugins.places));
beforeAll(async () => {
  plugins.startAgent();
  await node.untilNodeReady();
});

function namesOf(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`);
}

async function expectEachItsOwnAddress(names: readonly string[]): Promise<void> {
  const addresses = (await Promise.all(names.map((name) => node.addressesOf(name)))).flat();
  expect(new Set(addresses).size).toBe(names.length);
}

/** Namespaces that a killed containerd had made and not yet written down: nobody will remove them. */
const lost = new Set<string>();

async function expectNothingOfOursLeft(): Promise<void> {
  await node.until("every address to be given back", async () => (await node.takenOrdinals()).length === 0);
  expect(node.podLinks()).toEqual([]);
  const routes = JSON.parse(execFileSync("ip", ["-j", "route"], { encoding: "utf8" })) as { dev?: string }[];
  expect(routes.filter(({ dev = "" }) => dev.startsWith("cali"))).toEqual([]);
}

async function expectNothingLeft(): Promise<void> {
  await expectNothingOfOursLeft();
  expect(node.sandboxes().filter((name) => !lost.has(name))).toEqual([]);
}

/** @returns seconds until all were Ready, and until all were gone */
async function burst(names: readonly string[], hostNetwork: boolean): Promise<readonly [number, number]> {
  const begun = performance.now();
  await node.createPods(names, { hostNetwork });
  await node.untilReady(names);
  const ready = performance.now();
  if (!hostNetwork) await expectEachItsOwnAddress(names);
  const deleted = performance.now();
  await node.deletePods(names);
  await node.untilGone(names);
  return [(ready - begun) / 1000, (performance.now() - deleted) / 1000];
}

function bootId(stored: StoredObject | undefined): unknown {
  return memberAt(stored, "status", "nodeInfo", "bootID");
}

function restartsOf(pod: StoredObject): number {
  return Number(memberAt(pod, "status", "containerStatuses", "0", "restartCount") ?? 0);
}

function annotation(pod: StoredObject | undefined, name: string): string | undefined {
  return pod?.metadata.annotations?.[PREFIX + name];
}

describe("pods of a real kubelet", () => {
  it("are Ready, have the addresses that their annotations say, and reach each other, the host and a Service", async () => {
    const names = namesOf("web", 2);
    await node.createPods(names);
    await node.untilReady(names);
    const [one = "", other = ""] = (await Promise.all(names.map((name) => node.addressesOf(name)))).flat();
    for (const pod of await node.pods()) {
      const [address] = await node.addressesOf(pod.metadata.name);
      expect(annotation(pod, "podIPs")).toBe(`${address}/32`);
      expect(annotation(pod, "podIP")).toBe(`${address}/32`);
      expect(annotation(pod, "containerID")).toMatch(/^[0-9a-f]{64}$/);
    }
    expect(node.inPod(one, "ping", "-c", "1", "-W", "10", other)).toContain("1 received");
    expect(node.inPod(one, "ping", "-c", "1", "-W", "10", NODE_ADDRESS)).toContain("1 received");
    expect(execFileSync("ping", ["-c", "1", "-W", "10", one], { encoding: "utf8" })).toContain("1 received");
    // What kube-proxy would write for a Service of one endpoint.
    const rules = `table ip service { chain pre { type nat hook prerouting priority dstnat; ip daddr ${SERVICE} tcp dport 80 dnat to ${other}:8080; }; }`;
    execFileSync("nft", [rules]);
    expect(node.inPod(one, "/usr/bin/curl", "-s", "-m", "20", `http://${SERVICE}/`)).toBe("ok\n");
    execFileSync("nft", ["delete", "table", "ip", "service"]);
    await node.deletePods(names);
    await node.untilGone(names);
    await expectNothingLeft();
    expect(await node.failedAdds()).toEqual([]);
  });

  it("are reached at their hostPort, and held to their bandwidth", async () => {
    await node.createPods(["port"], {
      hostPort: 18080,
      annotations: { "kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "10M" },
    });
    await node.createPods(["client"]);
    await node.untilReady(["port", "client"]);
    const [client = ""] = await node.addressesOf("client");
    expect(node.inPod(client, "/usr/bin/curl", "-s", "-m", "20", `http://${NODE_ADDRESS}:18080/`)).toBe("ok\n");
    const qdiscs = JSON.parse(execFileSync("tc", ["-j", "qdisc"], { encoding: "utf8" })) as { kind: string; dev: string }[];
    expect(qdiscs.filter(({ kind }) => kind === "tbf").length).toBe(2);
    await node.deletePods(["port", "client"]);
    await node.untilGone(["port", "client"]);
    await expectNothingLeft();
  });
});

/** Kubelet's own limit is 110; CI has neither the memory nor the minutes for that (`TORTIE_KUBELET_PODS=20,60,110`). */
const COUNTS = (process.env.TORTIE_KUBELET_PODS ?? "20,60").split(",").map(Number);
/**
 * With an agent, without, and by the reference plugins. A count may be named several times, for a median:
 * `TORTIE_KUBELET_PODS=20,20,20 TORTIE_KUBELET_WAYS=require,peer`.
 */
const WAYS = (process.env.TORTIE_KUBELET_WAYS ?? "require,off").split(",");

async function prepare(way: string): Promise<() => void> {
  if (way === "peer") return plugins.preferPeer();
  await plugins.install(way === "off" ? "off" : "require");
  return () => undefined;
}

describe("a burst of pods", () => {
  it.each(COUNTS)(
    "of %i is Ready, and gone, without one failed sandbox and with nothing left, with an agent and without",
    async (count) => {
      const [floorReady, floorGone] = await burst(namesOf("host", count), true);
      for (const way of WAYS) {
        const undo = await prepare(way);
        const [ready, gone] = await burst(namesOf(`way-${way}`, count), false);
        const ratio = (ours: number, floor: number) => `${ours.toFixed(1)} s, ${(ours / floor).toFixed(2)} x the host network's`;
        process.stdout.write(
          `${count} pods, ${way === "peer" ? "ptp and host-local" : `agent ${way}`}: Ready after ${ratio(ready, floorReady)}; gone after ${ratio(gone, floorGone)}\n`,
        );
        expect(await node.failedAdds()).toEqual([]);
        await expectNothingLeft();
        undo();
      }
      await plugins.install();
    },
    900_000,
  );

  it("survives a replaced installation, a killed agent and a restarted kubelet in the middle of it", async () => {
    const names = namesOf("upgraded", 20);
    // A container whose start is cut off with kubelet's call has failed, and pods without restarts with it.
    await node.createPods(names, { isRestarted: true });
    await plugins.install();
    await plugins.restartAgent();
    await node.restart("kubelet");
    await node.untilReady(names);
    await expectEachItsOwnAddress(names);
    await node.deletePods(names);
    await plugins.restartAgent();
    await node.untilGone(names);
    expect(await node.failedAdds()).toEqual([]);
    await expectNothingLeft();
  }, 400_000);

  it("survives a restarted runtime and a restarted API server in the middle of it", async () => {
    const names = namesOf("restarted", 20);
    await node.createPods(names);
    await node.restart("containerd");
    await cluster.restartApiServer();
    await node.untilReady(names);
    await expectEachItsOwnAddress(names);
    await node.deletePods(names);
    await cluster.restartApiServer();
    await node.untilGone(names);
    await expectNothingOfOursLeft();
    for (const sandbox of node.sandboxes()) lost.add(sandbox);
  }, 400_000);

  it("gets back a sandbox that was killed by hand, with its address released or kept but never doubled", async () => {
    await node.createPods(["killed", "other"]);
    await node.untilReady(["killed", "other"]);
    const [before = ""] = await node.addressesOf("other");
    const [address = ""] = await node.addressesOf("killed");
    // Its pause container: the runtime has lost the sandbox, and kubelet makes a new one.
    execFileSync("kill", ["-9", String(node.pauseProcessOf(address))]);
    await node.until("the pod to end", async () => {
      const pod = (await node.pods()).find(({ metadata }) => metadata.name === "killed");
      return pod === undefined || (pod.status as { phase?: string } | undefined)?.phase !== "Running";
    });
    expect(await node.addressesOf("other")).toEqual([before]);
    await node.deletePods(["killed", "other"]);
    await node.untilGone(["killed", "other"]);
    await expectNothingLeft();
  }, 400_000);

  it("comes back after the node has lost its power, and no address is lost or has two owners", async () => {
    const names = namesOf("rebooted", 12);
    await node.createPods(names, { isRestarted: true });
    await node.untilReady(names);
    const before = bootId(await cluster.get("v1", "nodes", NODE));
    await plugins.stopAgent();
    await node.loseBoot();
    // Its parts in the order in which a host starts them is anybody's guess: the agent comes last here.
    await node.startRuntime();
    node.start("kubelet");
    plugins.startAgent();
    await node.until("every container to be started anew", async () => (await node.pods()).every((pod) => restartsOf(pod) > 0));
    await node.untilReady(names);
    expect(bootId(await cluster.get("v1", "nodes", NODE))).not.toBe(before);
    await expectEachItsOwnAddress(names);
    await node.until("addresses of the lost sandboxes to be given back", async () => (await node.takenOrdinals()).length === names.length);
    // Its exit status is 1 when it finds a problem.
    execFileSync(join(BIN_DIR, "tortiectl"), ["ipam", "check", "--kubeconfig", cluster.adminKubeconfig], { stdio: "pipe" });
    await node.deletePods(names);
    await node.untilGone(names);
    await expectNothingOfOursLeft();
  }, 400_000);

  it("is taken off the node whole: uninstall leaves no executable and no list", async () => {
    await plugins.uninstall();
    expect(plugins.installed()).toEqual([]);
  });
});
