/**
 * Kubernetes' own specs of NetworkPolicy (k8s.io/kubernetes/test/e2e, "Netpol") on pods of a real kubelet and containerd: each makes
 * namespaces, nine pods and their Services, and probes by exec from every pod to the Services of all, which kube-proxy translates.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, openSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { ending, shared } from "../support/fixtures.ts";
import { ControlPlane } from "../support/kubelet/control-plane.ts";
import { makeAgnhostImage } from "../support/kubelet/image.ts";
import { InstalledPlugins } from "../support/kubelet/installed-plugins.ts";
import { KubeletNode } from "../support/kubelet/kubelet-node.ts";
import { DIR, NODE } from "../support/kubelet/pretend-host.ts";
import { endProcess, startProcess } from "../support/kubernetes/process.ts";
import { startCluster } from "../support/kubernetes/test-cluster.ts";

/** What the tests of this release ask for (k8s.io/kubernetes/test/utils/image/manifest.go). */
const AGNHOST = "registry.k8s.io/e2e-test-images/agnhost:2.56";
/** The kernel need not have SCTP sockets. Specs that only name SCTP in a policy are run. */
const SKIP = "Feature:SCTPConnectivity";
const FOCUS = process.env.TORTIE_NETPOL_FOCUS ?? "Netpol";
/** Everything that the tests print. */
const LOG = resolve(".cache/netpol.log");
const LIMIT_MS = 2 * 3_600_000;

interface Spec {
  readonly LeafNodeType: string;
  readonly LeafNodeText: string;
  readonly State: string;
  readonly RunTime: number;
  readonly Failure?: { readonly Message: string };
}

const programs = execFileSync("bash", [resolve("scripts/cluster-servers"), "netpol"], { encoding: "utf8" }).trim();
const cluster = shared(startCluster);
beforeAll(async () => {
  await cluster.reset();
  await cluster.setReady(true);
  await cluster.createPool("pool4", { cidr: "10.60.0.0/22" });
});
const plugins = shared(() => InstalledPlugins.create(cluster));
beforeAll(() => plugins.install());
const node = shared(() => KubeletNode.start(cluster, plugins.places));
shared(() => new ControlPlane(cluster));
beforeAll(async () => {
  const image = join(DIR, "agnhost");
  mkdirSync(image);
  node.ctr("images", "import", makeAgnhostImage(image, join(programs, "agnhost"), AGNHOST));
  ending(startProxy());
  await node.until("kube-proxy's table", () => execFileSync("nft", ["list", "tables"], { encoding: "utf8" }).includes("ip kube-proxy"));
  plugins.startAgent();
  await node.untilNodeReady();
});

function startProxy(): AsyncDisposable {
  const settings = ["--kubeconfig", cluster.adminKubeconfig, "--hostname-override", NODE, "--proxy-mode", "nftables"];
  // The limits of conntrack are the machine's, whose files are read-only here.
  const limits = ["--conntrack-max-per-core", "0", "--conntrack-tcp-timeout-established", "0s", "--conntrack-tcp-timeout-close-wait", "0s"];
  const pid = startProcess([join(programs, "kube-proxy"), ...settings, ...limits], join(DIR, "kube-proxy.log"));
  return { [Symbol.asyncDispose]: () => endProcess(pid) };
}

/** Runs the specs and prints each with its verdict. */
async function runSpecs(): Promise<readonly Spec[]> {
  const report = join(DIR, "netpol.json");
  const output = openSync(LOG, "w");
  const child = Bun.spawn(
    [
      join(programs, "e2e.test"),
      ...["--provider=skeleton", `--kubeconfig=${cluster.adminKubeconfig}`, "--num-nodes=1", "--disable-log-dump"],
      ...[`--ginkgo.focus=${FOCUS}`, `--ginkgo.skip=${SKIP}`, "--ginkgo.no-color", "--ginkgo.v", "--ginkgo.timeout=2h"],
      `--ginkgo.json-report=${report}`,
    ],
    { stdio: ["ignore", output, output] },
  );
  await child.exited;
  const [{ SpecReports: all }] = JSON.parse(readFileSync(report, "utf8")) as [{ SpecReports: readonly Spec[] }];
  const specs = all.filter(({ LeafNodeType, State }) => LeafNodeType === "It" && State !== "skipped");
  for (const { State, RunTime, LeafNodeText } of specs) console.log(`${State} ${Math.round(RunTime / 1e9)} s: ${LeafNodeText}`);
  return specs;
}

describe("Kubernetes' Netpol specs", () => {
  it(
    "pass, but for those that need SCTP sockets",
    async () => {
      const specs = await runSpecs();

      const failed = specs.filter(({ State }) => State !== "passed");
      expect(failed.map(({ LeafNodeText, Failure }) => `${LeafNodeText}: ${Failure?.Message}`)).toEqual([]);
      expect(specs.length).toBeGreaterThan(FOCUS === "Netpol" ? 40 : 0);
    },
    LIMIT_MS,
  );
});
