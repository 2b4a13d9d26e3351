/** `tortiectl cni` with the reference plugins of Debian's containernetworking-plugins: real chains, judged by the kernel. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fresh } from "../support/fixtures.ts";
import { BIN_DIR, Node, type Pod, REFERENCE_PLUGINS_DIR, type RunResult } from "../support/node.ts";

/** `ptp` with addresses of both families, the three chained plugins after it; `bandwidth` knows no version before 0.3.0. */
function conflistText(node: Node, cniVersion: string, change: Readonly<Record<string, unknown>> = {}): string {
  const ranges = [[{ subnet: "10.9.0.0/24" }], [{ subnet: "fd09::/64" }]];
  const plugins = [
    {
      type: "ptp",
      ipam: { type: "host-local", dataDir: join(node.dir, "leases"), ranges, routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }] },
    },
    { type: "tuning", capabilities: { mac: true }, sysctl: { "net.ipv4.conf.eth0.arp_filter": "1" } },
    { type: "portmap", capabilities: { portMappings: true } },
    ...(cniVersion < "0.3.0" ? [] : [{ type: "bandwidth", capabilities: { bandwidth: true } }]),
  ];
  return JSON.stringify({ cniVersion, name: "refnet", plugins, ...change });
}

function conflist(node: Node, cniVersion: string, change: Readonly<Record<string, unknown>> = {}): string {
  const file = join(node.dir, `${cniVersion}.conflist`);
  writeFileSync(file, conflistText(node, cniVersion, change));
  return file;
}

async function tortiectl(node: Node, ...args: string[]): Promise<RunResult> {
  return node.run(
    [join(BIN_DIR, "tortiectl"), "cni", ...args, "--cni-path", REFERENCE_PLUGINS_DIR, "--cache-dir", join(node.dir, "cache")],
    {
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
    },
  );
}

/** A namespace whose IPv6 addresses need no duplicate address detection, which `ptp` would wait for. */
async function addPod(node: Node): Promise<Pod> {
  const pod = await node.addPod();
  const setting = "net.ipv6.conf.default.accept_dad=0";
  await node.run(["/usr/sbin/sysctl", "-qw", setting]);
  await node.run(["/usr/sbin/sysctl", "-qw", setting], {}, pod);
  return pod;
}

async function natRules(node: Node): Promise<string> {
  return (await node.run(["/usr/sbin/iptables", "-t", "nat", "-S"])).stdout;
}

async function addressesIn(node: Node, pod: Pod): Promise<string[]> {
  const [link] = await node.podIp(pod, "-j", "addr", "show", "dev", "eth0", "scope", "global");
  return ((link?.addr_info ?? []) as { local: string }[]).map(({ local }) => local);
}

const node = fresh(Node.create);

describe.each(["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0"])("a chain of reference plugins in CNI %s", (cniVersion) => {
  it("is built by add and gone after del", async () => {
    const pod = await addPod(node);
    const file = conflist(node, cniVersion);

    const added = await tortiectl(node, "add", file, pod.netnsPath, "--json", "--port-mapping", "8080:80", "--mac", "0a:58:0a:09:00:02");

    expect(added).toMatchObject({ exit: 0, stderr: "" });
    const result = JSON.parse(added.stdout);
    expect(result.cniVersion).toBe(cniVersion);
    const reported = cniVersion < "0.3.0" ? [result.ip4.ip, result.ip6.ip] : result.ips.map((ip: { address: string }) => ip.address);
    expect((await addressesIn(node, pod)).toSorted()).toEqual(reported.map((address: string) => address.split("/")[0]).toSorted());
    expect(await node.sysctl("net/ipv4/conf/eth0/arp_filter", pod)).toBe("1");
    expect(await node.podIp(pod, "-j", "link", "show", "eth0")).toMatchObject([{ address: "0a:58:0a:09:00:02" }]);
    expect(await natRules(node)).toContain("--dport 8080 -j DNAT");

    const deleted = await tortiectl(node, "del", file, pod.netnsPath);

    expect(deleted).toMatchObject({ exit: 0, stderr: "" });
    await node.expectClean();
    expect(await natRules(node)).not.toContain("8080");
  });
});

describe("a chain of reference plugins", () => {
  it("has its rate limit where the capability argument asks for one", async () => {
    const pod = await addPod(node);

    const added = await tortiectl(node, "add", conflist(node, "1.0.0"), pod.netnsPath, "--json", "--bandwidth", "ingress=8M");

    expect(added.exit).toBe(0);
    const host = JSON.parse(added.stdout).interfaces[0].name;
    const qdiscs = JSON.parse((await node.run(["/usr/sbin/tc", "-j", "qdisc", "show", "dev", host])).stdout);
    // The qdisc counts in bytes a second.
    expect(qdiscs).toContainEqual(expect.objectContaining({ kind: "tbf", options: expect.objectContaining({ rate: 1_000_000 }) }));
  });

  it.each(["0.4.0", "1.0.0"])("is compared with the kernel by check in CNI %s", async (cniVersion) => {
    const pod = await addPod(node);
    // portmap 1.1.1 refuses its own work when there are port mappings, and bandwidth 1.1.1 dies when there is no limit.
    const file = conflist(node, cniVersion);
    await tortiectl(node, "add", file, pod.netnsPath, "--bandwidth", "ingress=8M");

    const before = await tortiectl(node, "check", file, pod.netnsPath);
    await node.podIp(pod, "link", "set", "eth0", "down");
    const after = await tortiectl(node, "check", file, pod.netnsPath);

    expect(before).toMatchObject({ exit: 0, stderr: "" });
    expect(after.exit).toBe(1);
    expect(after.stderr).toContain("CHECK of network refnet failed in plugin ptp (1 of 4)");
  });

  it("leaves nothing behind when its last plugin fails", async () => {
    const pod = await addPod(node);

    // A rate below one byte a second is refused by the kernel.
    const run = await tortiectl(
      node,
      "add",
      conflist(node, "1.0.0"),
      pod.netnsPath,
      "--port-mapping",
      "8080:80",
      "--bandwidth",
      "ingress=3",
    );

    expect(run.exit).toBe(1);
    expect(run.stderr).toContain("failed in plugin bandwidth (4 of 4)");
    expect(run.stderr).toContain("DEL ran on every plugin of the chain");
    await node.expectClean();
    expect(await natRules(node)).not.toContain("8080");
    expect((await node.run(["/bin/sh", "-c", `ls ${node.dir}/leases/refnet`])).stdout).not.toContain("10.9.0.");
  });

  it("works from a single plugin's configuration, and by the namespace's name", async () => {
    const pod = await addPod(node);
    const { plugins } = JSON.parse(conflistText(node, "1.0.0"));
    const file = join(node.dir, "single.conf");
    writeFileSync(file, JSON.stringify({ cniVersion: "1.0.0", name: "single", ...plugins[0] }));

    const added = await tortiectl(node, "add", file, pod.name);

    expect(added).toMatchObject({ exit: 0, stderr: "" });
    expect(added.stdout).toMatch(/^ok eth0 of \S+ is attached to network single$/m);
    expect(added.stdout).toMatch(/^ {2}address {4}10\.9\.0\.2\/24 +gateway 10\.9\.0\.1 +on eth0$/m);
    expect(await addressesIn(node, pod)).toContain("10.9.0.2");
  });
});
