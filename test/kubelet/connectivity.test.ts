/**
 * `tortiectl connectivity test` in a cluster that was made from the manifests: its pods are a real kubelet's, of the project's own image, on
 * the one node that there is here. test/cluster/doctor has three nodes, test/system/doctor more faults.
 */
import { execFileSync, spawn } from "node:child_process";
import { join, resolve } from "node:path";
import type { CheckResult, Report } from "../../doctor/report.ts";
import { shared } from "../support/fixtures.ts";
import { ControlPlane } from "../support/kubelet/control-plane.ts";
import { KubeletNode } from "../support/kubelet/kubelet-node.ts";
import { DIR, NODE_ADDRESS } from "../support/kubelet/pretend-host.ts";
import { Registry } from "../support/kubelet/registry.ts";
import { endProcess, startProcess } from "../support/kubernetes/process.ts";
import { startCluster } from "../support/kubernetes/test-cluster.ts";
import { commandsOf } from "../support/page.ts";

const PLACES = { binDir: "/opt/cni/bin", netDir: "/etc/cni/net.d" };
const NAMES_PORT = 5_353;
const LABEL = "tortie.dev/connectivity-test";

const cluster = shared(() => startCluster({ isBare: true }));
const node = shared(() => KubeletNode.start(cluster, PLACES));
const control = shared(() => new ControlPlane(cluster));
const registry = shared(Registry.start);
let names: number;

beforeAll(async () => {
  registry.pushImages();
  const data = { ClusterConfiguration: "networking:\n  podSubnet: 10.244.0.0/16,fd44:244::/48\n" };
  await cluster.apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "kubeadm-config", namespace: "kube-system" }, data });
  const crds = "kubectl apply --server-side -k manifests/crds && kubectl wait --for=condition=Established crd --all";
  await control.run(`${crds}; bash scripts/render-manifests dual-stack | kubectl apply --server-side --force-conflicts -f -`);
  await control.run("kubectl -n kube-system rollout status daemonset/tortie-node");
  await node.untilNodeReady();
  const program = [process.execPath, resolve("test/support/programs/name-server.ts"), String(NAMES_PORT)];
  names = startProcess(program, join(DIR, "names.log"));
});
afterAll(() => endProcess(names));

async function test(...options: readonly string[]): Promise<readonly CheckResult[]> {
  const given = `--kubeconfig ~/.kube/config --dns-server ${NODE_ADDRESS}:${NAMES_PORT} --egress ${NODE_ADDRESS}:6443`;
  const printed = await control.run(`tortiectl connectivity test --json ${given} ${options.join(" ")} || [ $? = 1 ]`);
  const report: Report | { readonly error: unknown } = JSON.parse(printed);
  if ("error" in report) throw new Error(`${JSON.stringify(report.error)}\n${node.logs()}`);
  return report.results;
}

function checksOf(results: readonly CheckResult[], status: CheckResult["status"]): readonly string[] {
  return results.filter((one) => one.status === status).map(({ check, object }) => `${check} ${/IPv[46]/.exec(object)?.[0] ?? ""}`.trim());
}

async function expectNothingLeft(): Promise<void> {
  const gone = async () => (await cluster.list("v1", "namespaces")).every(({ metadata }) => metadata.labels?.[LABEL] === undefined);
  await node.until("the test's namespace to be gone", gone);
  await node.until("its links to be gone", () => node.podLinks().length === 0);
}

describe("a cluster made from the manifests", () => {
  it("passes, in both families, with policy, and nothing of the test is left", async () => {
    const results = await test();
    expect(results.filter(({ status }) => status === "failed")).toEqual([]);
    // One node; and the list of the manifests has no plugin that takes bandwidth.
    expect(checksOf(results, "skipped")).toEqual(["other-node"]);
    expect(checksOf(results, "warning")).toEqual(["bandwidth"]);
    // The real kubelet has told its node's IPv4 address alone.
    expect(checksOf(results, "ok")).toEqual([
      ...["same-node IPv4", "same-node IPv6", "host-to-pod IPv4", "host-to-pod IPv6", "pod-to-host IPv4", "host-port IPv4"],
      ...["egress", "dns", "path-mtu IPv4", "path-mtu IPv6", "source-check IPv4", "policy IPv4", "policy IPv6"],
    ]);
    await expectNothingLeft();
  });

  it("is told which fault somebody has planted on its node, and what to do", async () => {
    execFileSync("nft", [
      `table inet closed { chain c { type filter hook input priority 0; udp dport ${NAMES_PORT} iifname "cali*" drop; }; }`,
    ]);
    // Somebody who keeps changing it: the agent makes it 1 again within a second.
    const quarrel = "while sysctl -qw net.ipv6.conf.all.forwarding=0; do sleep 0.02; done";
    const planted = spawn("/bin/sh", ["-c", quarrel], { stdio: "ignore" });
    try {
      const results = await test("--only dns --only same-node --timeout 3");
      expect(checksOf(results, "failed")).toEqual(["same-node IPv6", "dns"]);
      const [forwarding, lookup] = results.filter(({ status }) => status === "failed");
      expect(`${forwarding?.message} ${forwarding?.next}`).toMatch(
        /net\.ipv6\.conf\.all\.forwarding is 0 sysctl -w net\.ipv6\.conf\.all\.forwarding=1/,
      );
      expect(lookup?.message).toMatch(/pods get no answer from/);
    } finally {
      planted.kill("SIGKILL");
      execFileSync("sysctl", ["-qw", "net.ipv6.conf.all.forwarding=1"]);
      execFileSync("nft", ["delete", "table", "inet", "closed"]);
    }
    await expectNothingLeft();
  });

  it("is rid of what a killed test has left by one command", async () => {
    const untilMade = `until kubectl get namespaces -l ${LABEL} -o name | grep -q .; do sleep 0.2; done`;
    const [test = ""] = commandsOf("how-to/test-connectivity.md", "## In a cluster");
    await control.run(`${test.trim()} & ${untilMade}; kill -9 $!; wait $! || true`);
    expect(await control.run("tortiectl connectivity clean --kubeconfig ~/.kube/config")).toMatch(
      /✓ left-over +namespace tortie-connectivity-\w+/,
    );
    await expectNothingLeft();
  });
});
