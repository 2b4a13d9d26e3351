/**
 * `tortiectl connectivity test` on one host without a cluster: what it says where all is well, which of the faults that are planted here it
 * finds, and what it leaves behind. A plugin at the end of the chain plants them, after the pods are made.
 */
import { readdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { CheckResult, Report } from "../../../doctor/report.ts";
import { BREAKING, installBreakingPlugin } from "../../support/breaking-plugin.ts";
import { shared } from "../../support/fixtures.ts";
import { startProcess } from "../../support/kubernetes/process.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR, Node, REFERENCE_PLUGINS_DIR } from "../../support/node.ts";
import { addOutside } from "../../support/outside.ts";
import { commandsOf } from "../../support/page.ts";

/** A host beyond the node, which knows no way back to pods. */
const OUTSIDE = ["192.0.2.2", "2001:db8::2"] as const;
const PORT = 9_000;
const NAMES_PORT = 5_353;
const TORTIECTL = join(BIN_DIR, "tortiectl");

jest.setTimeout(240_000);

/** A node with a host beyond it, and a list whose last plugin breaks what a script says. */
class Bench implements AsyncDisposable {
  readonly node: Node;
  readonly cacheDir: string;
  readonly #plugins: string;

  private constructor(node: Node) {
    this.node = node;
    this.cacheDir = join(node.dir, "cache");
    this.#plugins = join(node.dir, "plugins");
    installBreakingPlugin(this.#plugins);
  }

  static async create(): Promise<Bench> {
    const bench = new Bench(await Node.create());
    await bench.#wire();
    return bench;
  }

  async test(
    script: string,
    ...options: readonly string[]
  ): Promise<{ readonly exit: number | null; readonly results: readonly CheckResult[] }> {
    const { exit, stdout, stderr } = await this.node.run([...this.command("test", script), "--json", ...options]);
    try {
      const { results }: Report = JSON.parse(stdout);
      return { exit, results };
    } catch {
      throw new Error(`no report: ${exit} ${stdout}${stderr}`);
    }
  }

  command(verb: string, script = "true"): readonly string[] {
    const place = ["--conflist", this.#conflist(script), "--cni-path", this.path, "--cache-dir", this.cacheDir];
    if (verb === "clean") return [TORTIECTL, "connectivity", verb, ...place];
    const outside = [`${OUTSIDE[0]}:${PORT}`, `[${OUTSIDE[1]}]:${PORT}`].flatMap((target) => ["--egress", target]);
    return [TORTIECTL, "connectivity", verb, ...place, ...outside, "--dns-server", `${OUTSIDE[0]}:${NAMES_PORT}`];
  }

  get path(): string {
    return `${this.#plugins}:${BIN_DIR}:${REFERENCE_PLUGINS_DIR}`;
  }

  /** Links of pods, and what tests have written down. */
  async left(): Promise<readonly string[]> {
    const links = await this.node.ip("-j", "link", "show", "type", "veth");
    const names = links.map(({ ifname }) => String(ifname)).filter((name) => name.startsWith("cali"));
    const folder = join(this.cacheDir, "tortie-connectivity");
    return [...names, ...readdirSync(folder), ...readdirSync(join(this.cacheDir, "results"))];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]();
  }

  #conflist(script: string): string {
    const file = join(this.node.dir, "10-tortie.conflist");
    const pools = [{ cidr: "10.244.0.0/16" }, { cidr: "fd44:244::/48" }];
    const ipam = { type: "tortie-ipam", assign_ipv6: "true", pools };
    const plugins = [
      { type: "tortie", datastore_type: "local", datastore_path: this.node.datastorePath, ipam },
      { type: "portmap", capabilities: { portMappings: true }, snat: true },
      { type: "bandwidth", capabilities: { bandwidth: true } },
      { type: BREAKING, script },
    ];
    writeFileSync(file, JSON.stringify({ cniVersion: "1.0.0", name: "pods", plugins }));
    return file;
  }

  async #wire(): Promise<void> {
    const { node } = this;
    const own = { host: ["192.0.2.1/24", "2001:db8::1/64"], outside: [`${OUTSIDE[0]}/24`, `${OUTSIDE[1]}/64`] };
    const outside = await addOutside(node, { link: "eth0", ...own });
    await node.ip("route", "add", "default", "via", OUTSIDE[0]);
    await node.ip("route", "add", "default", "via", OUTSIDE[1]);
    const inside = ["/usr/sbin/ip", "netns", "exec", outside.name];
    const log = join(node.dir, "outside.log");
    startProcess([...inside, "/usr/bin/socat", `TCP6-LISTEN:${PORT},fork,reuseaddr,ipv6-v6only=0`, "SYSTEM:echo outside"], log);
    startProcess([...inside, process.execPath, resolve("test/support/programs/name-server.ts"), String(NAMES_PORT)], log);
  }
}

const bench = shared(Bench.create);

function rowsOf(results: readonly CheckResult[], status: CheckResult["status"]): readonly string[] {
  return results
    .filter((one) => one.status === status)
    .map(({ check, object }) => `${check} ${object.replace(/^node \S+?(?:, | to |$)/, "")}`.trim());
}

describe("a host whose network is well", () => {
  it("passes every check that a host can make, in both families, and has nothing left of the pods", async () => {
    const { exit, results } = await bench.test("true");
    expect(rowsOf(results, "failed").concat(rowsOf(results, "warning"))).toEqual([]);
    expect(rowsOf(results, "skipped")).toEqual(["other-node", "policy"]);
    const both = (check: string) => [`${check} IPv4`, `${check} IPv6`];
    const outside = OUTSIDE.map((address) => `egress ${address} port ${PORT}`);
    expect(rowsOf(results, "ok")).toEqual([
      ...["same-node", "host-to-pod", "pod-to-host", "host-port"].flatMap(both),
      ...outside,
      "dns",
      ...both("path-mtu"),
      "bandwidth",
      ...both("source-check"),
    ]);
    expect(exit).toBe(0);
    expect(await bench.left()).toEqual([]);
  });

  it("is shown as one screen, with a mark for each row", async () => {
    const { exit, stdout } = await bench.node.run([...bench.command("test"), "--only", "same-node"]);
    expect(stdout).toMatch(/^pods\n {2}✓ same-node +node \S+, IPv4: pods of one node reach each other\n {2}✓ same-node +node \S+, IPv6: /);
    expect(exit).toBe(0);
  });
});

it("the commands of docs/how-to/test-connectivity.md run as they stand", async () => {
  const [test = ""] = commandsOf("how-to/test-connectivity.md", "## On one host");
  const [clean = ""] = commandsOf("how-to/test-connectivity.md", "## It was interrupted, or killed");
  const file = bench.command("test").find((word) => word.endsWith(".conflist")) ?? "";
  const script = `${test.replace(/\S+\.conflist/, file).trim()} --only same-node --only host-port\n${clean}`;
  const env = { PATH: `${BIN_DIR}:/usr/sbin:/usr/bin:/sbin:/bin`, CNI_PATH: bench.path };
  const { exit, stdout, stderr } = await bench.node.run(["/bin/sh", "-euc", script], { env });
  expect(`${exit} ${stderr}`).toBe("0 ");
  expect(stdout).toMatch(/✓ host-port +node \S+, IPv6: the port of the host leads to the pod/);
});

/** What is broken, by which script, what is tried, which rows fail, and what is said of it. */
const FAULTS: readonly (readonly [string, string, readonly string[], readonly string[], RegExp])[] = [
  [
    "forwarding that is switched off",
    "echo 0 > /proc/sys/net/ipv4/ip_forward",
    ["same-node", "host-to-pod"],
    ["same-node IPv4"],
    /does not forward IPv4: net\.ipv4\.ip_forward is 0.*next sysctl -w net\.ipv4\.ip_forward=1/,
  ],
  [
    "proxy ARP that is switched off, for pods that ask by ARP, as those of a cluster do",
    'echo 0 > "/proc/sys/net/ipv4/conf/$HOST_END/proxy_arp"; nsenter --net="$CNI_NETNS" ip neigh del 169.254.1.1 dev eth0',
    ["pod-to-host"],
    ["pod-to-host IPv4"],
    /does not answer ARP for the pod's gateway: net\.ipv4\.conf\.cali\w+\.proxy_arp is 0.*next find what sets it/,
  ],
  [
    "a host's route to a pod that is gone",
    'ip route del "$ADDRESS4"',
    ["host-to-pod"],
    ["host-to-pod IPv4"],
    /the host's route leads to eth0, and not to 10\.244\.\d+\.\d+ by cali\w+.*next delete the pod/,
  ],
  [
    "a host end with a smaller MTU than its pod's",
    'ip link set "$HOST_END" mtu 1300',
    ["same-node", "path-mtu"],
    ["path-mtu IPv4", "path-mtu IPv6"],
    /the host end cali\w+ has MTU 1300, its pod 1500.*next the two ends of a link must have one MTU/,
  ],
  [
    "a source that nobody checks",
    'nft flush chain inet tortie from-cali; echo 0 > "/proc/sys/net/ipv4/conf/$HOST_END/rp_filter"; echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter',
    ["source-check"],
    ["source-check IPv4", "source-check IPv6"],
    /a pod can send with the address of another.*next look at rp_filter/,
  ],
  [
    "portmap's rules that a firewall's reload has removed",
    "iptables -t nat -F; ip6tables -t nat -F",
    ["same-node", "host-port"],
    ["host-port IPv4", "host-port IPv6"],
    /portmap's rule for port \d+ is not there.*next nft list ruleset/,
  ],
  [
    "a qdisc that somebody has removed",
    'tc qdisc del dev "$HOST_END" root 2>/dev/null || true',
    ["bandwidth"],
    ["bandwidth"],
    /a limit of 8\.0 Mbit\/s does not hold.*next tc qdisc show dev cali/,
  ],
  [
    "a masquerading rule that is gone",
    "nft flush chain inet tortie postrouting",
    ["egress", "pod-to-host"],
    ["egress 192.0.2.2 port 9000", "egress 2001:db8::2 port 9000"],
    /the host reaches it and a pod does not \(no answer\): .*not masqueraded.*next set natOutgoing/,
  ],
  [
    "a name server that a firewall closes to pods",
    `nft 'table inet closed { chain c { type filter hook forward priority 0; udp dport ${NAMES_PORT} drop; }; }'`,
    ["dns", "egress"],
    ["dns"],
    /pods get no answer from 192\.0\.2\.2:5353 \(no answer\).*next are the pods of the name server Ready/,
  ],
  [
    "an IPv6 default route that a pod has lost",
    'nsenter --net="$CNI_NETNS" ip -6 route del default',
    ["same-node"],
    ["same-node IPv6"],
    /the pod has no default route of IPv6.*next delete the pod/,
  ],
  [
    "a firewall that drops what is forwarded",
    "nft 'table inet closed { chain c { type filter hook forward priority 0; policy drop; }; }'",
    ["same-node", "pod-to-host"],
    ["same-node IPv4", "same-node IPv6"],
    /a firewall of the host drops it.*next look for a chain with policy drop/,
  ],
];

describe("a planted fault is found, and nothing else", () => {
  // Each fault is another node's.
  it.each(FAULTS)("%s", async (_name, script, only, rows, said) => {
    await using broken = await Bench.create();
    const { exit, results } = await broken.test(script, "--timeout", "3", ...only.flatMap((check) => ["--only", check]));
    expect(rowsOf(results, "failed")).toEqual(rows);
    const failed = results.filter(({ status }) => status === "failed");
    for (const { message, next } of failed) expect(`${message} next ${next}`).toMatch(said);
    expect(exit).toBe(1);
    expect(await broken.left()).toEqual([]);
  });
});

describe("a test that does not come to its end", () => {
  it.each(["SIGINT", "SIGTERM"] as const)("removes its pods at %s, says so and ends with 1", async (signal) => {
    const [file = "", ...line] = bench.node.commandLine(bench.command("test"));
    const child = Bun.spawn([file, ...line], { stdout: "pipe", stderr: "pipe" });
    await until("a pod", async () => (await bench.left().catch(() => [])).some((name) => name.startsWith("cali")), 60_000);
    child.kill(signal);
    expect(await child.exited).toBe(1);
    expect(await new Response(child.stderr).text()).toContain("interrupted: the pods of the test are being removed");
    expect(await bench.left()).toEqual([]);
  });

  it("is cleaned up after by the next one, or by a command, when it was killed", async () => {
    const killed = async () => {
      const [file = "", ...line] = bench.node.commandLine(bench.command("test"));
      const child = Bun.spawn([file, ...line], { stdout: "ignore", stderr: "ignore" });
      await until(
        "its pods",
        async () => (await bench.left().catch(() => [])).filter((name) => /^pods-.*-eth0$/.test(name)).length === 3,
        60_000,
      );
      child.kill("SIGKILL");
      await child.exited;
      expect((await bench.left()).length).toBeGreaterThan(3);
    };
    await killed();
    const { exit, stdout } = await bench.node.run(bench.command("clean"));
    expect(stdout).toMatch(/✓ left-over +test \d+: 3 pods that a killed test has left are removed/);
    expect(exit).toBe(0);
    expect(await bench.left()).toEqual([]);

    await killed();
    const { results } = await bench.test("true", "--only", "same-node");
    expect(rowsOf(results, "ok")).toEqual([expect.stringMatching(/^left-over test \d+$/), "same-node IPv4", "same-node IPv6"]);
    expect(await bench.left()).toEqual([]);
  });
});

describe("a command line that is wrong", () => {
  it.each([
    ["a target without a port", ["--egress", "192.0.2.1"], "option-invalid"],
    ["a target that is a name", ["--egress", "example.org:80"], "option-invalid"],
    ["a check that there is not", ["--only", "everything"], null],
    ["a list that there is not", ["--conflist", "/nowhere.conflist"], "conflist-unreadable"],
  ])("%s is refused with its word", async (_name, options, word) => {
    const { exit, stdout } = await bench.node.run([TORTIECTL, "connectivity", "test", "--json", ...options]);
    expect(JSON.parse(stdout)).toEqual({ error: expect.objectContaining({ word: word ?? expect.anything() }) });
    expect(exit).toBe(word === "conflist-unreadable" ? 1 : 2);
  });
});
