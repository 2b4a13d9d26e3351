/** `tortiectl doctor` on a real host: each check finds what was broken, and is well again once somebody did what its next step says. */
import { existsSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { runHostDoctor } from "../../../doctor/host/doctor.ts";
import { commandIn, DoctorNode, finding, rowsOf, WELL } from "../../support/doctor.ts";
import { Firewalld, HAS_FIREWALLD } from "../../support/firewalld.ts";
import { fresh } from "../../support/fixtures.ts";
import { until } from "../../support/kubernetes/until.ts";
import { HAS_NETWORK_MANAGER, NETWORK_MANAGER_BINDS, NetworkManager } from "../../support/network-manager.ts";
import { BIN_DIR } from "../../support/node.ts";

const host = fresh(DoctorNode.create);

/** Breaks, looks, does what the next step says, and looks again. */
async function remedied(check: string, broken: string, expected: unknown, remedy: RegExp): Promise<void> {
  await host.sh(broken);
  const found = await host.says(check);
  expect(found).toEqual(expected);
  await host.sh(commandIn(found[0]?.next, remedy));
  const after = await host.says(check);
  expect(after.map(({ status }) => status)).toEqual(["ok"]);
}

describe("tortiectl doctor", () => {
  it("finds nothing wrong on a host with a pod, says why checks were not made, and changes nothing", async () => {
    await host.pod();
    const before = [await host.node.leftovers(), await host.node.run(["nft", "list", "ruleset"])];

    const { exit, report } = await host.ask();

    expect(report.results.filter(({ status }) => status === "failed" || status === "warning")).toEqual([]);
    expect(exit).toBe(0);
    for (const { status, message } of report.results) if (status === "skipped") expect(message).not.toBe("");
    expect([await host.node.leftovers(), await host.node.run(["nft", "list", "ruleset"])]).toEqual(before);
  });

  it("is one screen: groups, marks, and below what failed its next step", async () => {
    const { exit, stdout } = await host.node.run([join(BIN_DIR, "tortiectl"), "doctor", ...host.args.with(1, "/nowhere")]);

    expect(exit).toBe(1);
    expect(stdout).toMatch(/^host\n {2}✓ libc .*\n/);
    expect(stdout).toMatch(
      /^plugins\n {2}✗ first-list +\/nowhere: there is no network configuration.*\n {6}next {2}install it: tortiectl install/m,
    );
    expect(stdout).toMatch(/\n\S+ {2}1 check failed, 0 warnings, \d+ well, \d+ not looked at {2}tortiectl \S+\n$/);
    expect(stdout.split("\n").length).toBeLessThan(60);
  });

  it("waits until nothing fails", async () => {
    await host.pod();
    await host.sh("sysctl -qw net.ipv4.ip_forward=0");
    const asked = host.ask({}, ["--wait", "60"]);
    await Bun.sleep(500);
    await host.sh("sysctl -qw net.ipv4.ip_forward=1");
    expect((await asked).exit).toBe(0);
  });

  it("says sensible things to a user who is not root", async () => {
    await host.pod();
    await host.sh(`chmod 755 ${host.node.dir} ${host.netDir}; chmod 600 ${host.netDir}/*`);
    const argv = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", join(BIN_DIR, "tortiectl")];
    const { exit, stdout } = await host.node.run([...argv, "doctor", "--json", ...host.args]);
    const answer = { exit, report: JSON.parse(stdout) };
    expect(rowsOf(answer, "kernel")).toEqual(WELL);
    expect(rowsOf(answer, "left-overs")).toEqual([
      expect.objectContaining({ status: "skipped", word: "privilege-missing", next: expect.stringContaining("root") }),
    ]);
    expect(answer.report.results.filter(({ status }: { status: string }) => status === "failed")).toEqual([]);
  });
});

/** Looks at a file system below `root` as at another host's. */
async function hostAt(root: string, check: string) {
  const askAgent = () => Promise.reject(new Error("no agent"));
  const paths = { netDir: host.netDir, binDir: BIN_DIR, socket: join(root, "tortie.sock") };
  const report = await runHostDoctor({ version: "1", host: "other", env: {}, root, askAgent, ...paths });
  return rowsOf({ exit: 0, report }, check);
}

describe("the host", () => {
  // Without glibc this program does not start: it judges a host that it sees from a container alone.
  it("libc and kernel: a host without glibc, seen from a container, and one without /proc", async () => {
    const root = join(host.node.dir, "root");
    for (const path of ["lib", "proc/sys/net/ipv4/conf", "proc/sys/net/ipv6/conf"]) mkdirSync(join(root, path), { recursive: true });
    writeFileSync(join(root, "lib/ld-musl-x86_64.so.1"), "");
    expect(await hostAt(root, "libc")).toEqual(finding("failed", /this host has musl/, /use a host with glibc/));
    expect(await hostAt(root, "kernel")).toEqual(WELL);
    mkdirSync(join(root, "lib64"));
    writeFileSync(join(root, "lib64/ld-linux-x86-64.so.2"), "");
    expect(await hostAt(root, "libc")).toEqual(WELL);
    rmSync(join(root, "proc/sys/net"), { recursive: true });
    expect(await hostAt(root, "kernel")).toEqual(finding("failed", /is \/proc mounted/, /mount \/proc/));
  });

  // This kernel has no SELinux: the file is what it would show, and setsebool what would write it.
  it("memory: SELinux that forbids what the runtime needs", async () => {
    const binds = { "/sys/fs": "sys-fs" };
    const booleans = join(host.node.dir, "sys-fs/selinux/booleans");
    mkdirSync(booleans, { recursive: true });
    writeFileSync(join(booleans, "deny_execmem"), "1 1");
    expect(await host.says("memory", { binds })).toEqual(finding("failed", /SELinux denies memory/, /setsebool -P deny_execmem off/));
    writeFileSync(join(booleans, "deny_execmem"), "0 0");
    expect(await host.says("memory", { binds })).toEqual(WELL);
  });

  it("kernel: IPv6 that is switched off is seen", async () => {
    expect(await host.says("kernel", { binds: { "/proc/sys/net/ipv6": "empty" } })).toEqual(
      finding("warning", /IPv6 is switched off/, /ipv6\.disable=1/),
    );
    expect(await host.says("kernel")).toEqual(WELL);
  });

  it("forwarding: a setting that somebody switched off, with a pod there", async () => {
    await host.pod();
    await host.sh("sysctl -qw net.ipv4.ip_forward=0");
    const [ipv4] = await host.says("forwarding");
    expect([ipv4]).toEqual(finding("failed", /it is 0: no packet of a pod leaves this host/));
    await host.sh(commandIn(ipv4?.next, /sysctl -w \S+=1/));
    expect((await host.says("forwarding"))[0]).toMatchObject({ status: "ok" });
  });
});

describe("interfaces of pods", () => {
  it("interfaces and routes: an interface that is down, and its route that went with it", async () => {
    const { link, address } = await host.pod();
    await host.sh(`ip link set ${link} down`);
    const [down] = await host.says("interfaces");
    expect([down]).toEqual(finding("failed", /it is down/));
    await host.sh(commandIn(down?.next, /ip link set \S+ up/));
    expect(await host.says("interfaces")).toEqual(WELL);

    const [noRoute] = await host.says("routes");
    expect([noRoute]).toEqual(finding("warning", /no route leads to it/));
    await host.sh(commandIn(noRoute?.next, /ip route replace ADDRESS dev \S+ scope link/).replace("ADDRESS", address));
    expect(await host.says("routes")).toEqual(WELL);
  });

  it("grants: a local store that is lost, or that another one has replaced, under a running pod", async () => {
    const { link, address } = await host.pod();
    expect(await host.says("grants")).toEqual(WELL);
    const store = host.node.datastorePath;
    const files = ["", "-wal", "-shm"].filter((ending) => existsSync(store + ending));
    for (const ending of files) renameSync(store + ending, `${store}.kept${ending}`);
    const lost = finding("failed", new RegExp(`its address ${address} is not granted by ${store}`), /start it again/);
    expect(await host.says("grants")).toEqual(lost);
    // STATUS, which doctor asks too, has made an empty one.
    for (const ending of ["", "-wal", "-shm"]) rmSync(store + ending, { force: true });
    for (const ending of files) renameSync(`${store}.kept${ending}`, store + ending);
    expect(await host.says("grants")).toEqual(WELL);
    expect(link).toMatch(/^cali/);
  });

  it("default-route: a host that lost its own, beside a cluster and alone", async () => {
    await host.pod();
    await host.sh("ip route del default");
    expect(await host.says("default-route")).toEqual(finding("warning", /pods reach this host and its pods only/));
    host.list({ datastore_type: "kubernetes", kubernetes: { kubeconfig: join(host.node.dir, "none") } });
    const found = await host.says("default-route");
    expect(found).toEqual(finding("failed", /does not answer for 169\.254\.1\.1/));
    await host.sh(commandIn(found[0]?.next, /ip route add default via GATEWAY/).replace("GATEWAY", "192.0.2.1"));
    expect(await host.says("default-route")).toEqual(WELL);
  });

  it.each(["proxy_arp", "forwarding"])("settings: %s that is off", async (setting) => {
    const { link } = await host.pod();
    await remedied("settings", `sysctl -qw net/ipv4/conf/${link}/${setting}=0`, finding("failed", `${setting} is 0`), /sysctl -w \S+=1/);
  });

  it("rp-filter: a filter that is loose for all links", async () => {
    await host.pod();
    await remedied("rp-filter", "sysctl -qw net.ipv4.conf.all.rp_filter=2", finding("warning", /all\.rp_filter is 2/), /sysctl -w \S+=1/);
  });

  it("mtu: pods whose packets are larger than the uplink takes", async () => {
    await host.sh("ip link set up0 mtu 1400");
    const { pod, link } = await host.pod({ mtu: 1500 });
    const [large] = await host.says("mtu");
    expect([large]).toEqual(finding("failed", /its MTU is 1500, and up0 takes 1400/, /set "mtu": 1400 in the list/));
    expect(large?.object).toContain(link);
    const conf = host.conf({ cniVersion: "1.1.0", mtu: 1500 });
    await host.node.cni("DEL", { pod, conf });
    await host.pod({ mtu: 1400 });
    expect(await host.says("mtu")).toEqual(WELL);
  });

  it("mtu: a tunnel whose headers do not fit", async () => {
    await host.sh(
      "ip link add vxlan.calico type vxlan id 4096 dstport 4789 dev up0; ip link set vxlan.calico alias 'tortie-node vxlan' up; ip link set up0 mtu 1400",
    );
    const found = await host.says("mtu");
    expect(found).toEqual(finding("failed", /its MTU is 1450, and up0 takes 1400, 1350 after the tunnel's headers/));
    await host.sh(commandIn(found[0]?.next, /ip link set vxlan\.calico mtu 1350/));
    expect(await host.says("mtu")).toEqual(WELL);
  });
});

const NETWORKD = `
mkdir -p "$1/run/links" "$1/configuration"; chown -R systemd-network: "$1/run"
mount --bind "$1/run" /run/systemd/netif 2>/dev/null || { mkdir -p /run/systemd/netif; mount --bind "$1/run" /run/systemd/netif; }
mount --bind "$1/configuration" /etc/systemd/network
mount -o remount,ro /sys
chmod 755 "$1"; start() {
  rm -f /run/systemd/netif/links/*
  /lib/systemd/systemd-networkd >/dev/null 2>&1 & pid=$!
  for _ in $(seq 600); do grep -qs 'ADMIN_STATE=\\(conf\\|unmanaged\\)' "/run/systemd/netif/links/$2" && break; sleep 0.1; done
  shift 2; "$@"; kill $pid; wait $pid
}
printf '[Match]\\nName=cali*\\n[Network]\\nLinkLocalAddressing=no\\n' >"$1/configuration/10-all.network"
start "$@" >"$1/managed.json"
printf '[Match]\\nName=cali* vxlan.calico vxlan-v6.calico\\n[Link]\\nUnmanaged=yes\\n' >"$1/configuration/05-tortie.network"
start "$@" >"$1/left-alone.json"
true`;

/** Makes the file that a next step asks for. */
function unmanagedIn(next: string | undefined): string {
  const [, line = ""] = /"(unmanaged-devices=[^"]*)"/.exec(next ?? "") ?? [];
  return `[keyfile]\n${line}\n`;
}

describe("neighbours", () => {
  it("networkd: a real one that manages a pod's interface, until it is told not to", async () => {
    const { link } = await host.pod();
    const [{ ifindex } = {}] = await host.node.ip("-j", "link", "show", link);
    const directory = join(host.node.dir, "networkd");
    mkdirSync(directory);
    const doctor = [join(BIN_DIR, "tortiectl"), "doctor", "--json", ...host.args];
    const { exit, stderr } = await host.node.run(["/bin/sh", "-c", NETWORKD, "networkd", directory, String(ifindex), ...doctor]);
    expect({ exit, stderr }).toEqual({ exit: 0, stderr: "" });
    const says = async (name: string) => rowsOf({ exit: 0, report: await Bun.file(join(directory, name)).json() }, "networkd");
    const managed = await says("managed.json");
    expect(managed).toEqual(finding("failed", /systemd-networkd manages it by .*10-all\.network/, /Unmanaged=yes/));
    expect(managed[0]?.object).toBe(`interface ${link}`);
    expect(await says("left-alone.json")).toEqual(WELL);
  });

  it("network-manager: its files, where no interface of a pod says what it does", async () => {
    const binds = { "/run/NetworkManager": "nm-run", "/etc/NetworkManager/conf.d": "nm-conf" };
    const found = await host.says("network-manager", { binds });
    expect(found).toEqual(finding("warning", /no file of its own keeps it from interfaces cali\*/));
    writeFileSync(join(host.node.dir, "nm-conf/tortie.conf"), unmanagedIn(found[0]?.next));
    expect(await host.says("network-manager", { binds })).toEqual(WELL);
  });

  (HAS_NETWORK_MANAGER ? it : it.skip)("network-manager: a real one that manages a pod's interface, until it is told not to", async () => {
    const { link } = await host.pod();
    const binds = NETWORK_MANAGER_BINDS;
    const ofMachine = () => statSync("/etc/resolv.conf", { throwIfNoEntry: false })?.ctimeMs;
    const before = ofMachine();
    await using manager = await NetworkManager.start(host.node);
    await manager.until(link, true);
    await until("it is written down", async () => (await host.says("network-manager", { binds }))[0]?.status !== "warning");
    const managed = await host.says("network-manager", { binds });
    expect(managed).toEqual(finding("failed", /NetworkManager manages it/, /then: nmcli general reload/));
    expect(managed[0]?.object).toBe(`interface ${link}`);
    const file = join(host.node.dir, "nm-etc/conf.d/tortie.conf");
    mkdirSync(dirname(file));
    writeFileSync(file, unmanagedIn(managed[0]?.next));
    await manager.command("general", "reload");
    await manager.until(link, false);
    await until("it says that all is well", async () => (await host.says("network-manager", { binds }))[0]?.status === "ok");
    // What a udev rule of the distribution forbids it, no file of its own names.
    rmSync(file);
    expect(await host.says("network-manager", { binds })).toEqual(WELL);
    expect(ofMachine()).toBe(before);
  });

  (HAS_FIREWALLD ? it : it.skip)("firewalld: a real one without a zone for pods, and with one", async () => {
    await using wall = await Firewalld.start(host.node);
    const found = await host.says("firewalld");
    expect(found).toEqual(finding("failed", /none of its zones names the interfaces of pods/));
    const said = commandIn(found[0]?.next, /firewall-cmd --permanent --zone=trusted --add-interface=cali\+ && firewall-cmd --reload/);
    for (const command of said.split(" && ")) await wall.command(...command.split(" ").slice(1));
    expect(await host.says("firewalld")).toEqual(WELL);
  });

  it("forward-chains: a policy that drops, as Docker sets it", async () => {
    await host.pod();
    await remedied(
      "forward-chains",
      "iptables-nft -P FORWARD DROP",
      finding("failed", /it drops what is forwarded, by its policy/),
      /iptables -I FORWARD -i cali\+ -j ACCEPT; iptables -I FORWARD -o cali\+ -j ACCEPT/,
    );
  });

  it.each([
    ["Felix", "iptables-nft -N cali-FORWARD", /iptables-save \| grep -v cali- \| iptables-restore/],
    ["flannel", "ip link add flannel.1 type bridge", /ip link delete flannel\.1/],
    ["Weave Net", "ip link add weave type bridge", /ip link delete weave/],
    ["Cilium", "ip link add cilium_host type bridge", /ip link delete cilium_host/],
    ["flannel", "nft add table ip flannel-ipv4; nft add chain ip flannel-ipv4 postrtg", /nft delete table ip flannel-ipv4/],
    ["kube-router", "ip link add kube-bridge type bridge", /ip link delete kube-bridge/],
    ["Antrea", "ip link add antrea-gw0 type bridge", /ip link delete antrea-gw0/],
    ["OVN-Kubernetes", "ip link add ovn-k8s-mp0 type bridge", /ip link delete ovn-k8s-mp0/],
  ])("left-overs: of %s, until they are taken away", async (name, broken, remedy) => {
    await host.sh(broken);
    const found = await host.says("left-overs");
    expect(found).toEqual(finding("warning", /nothing of it runs here, and it has left/));
    expect(found[0]?.object).toBe(name);
    await host.sh(commandIn(found[0]?.next, remedy));
    expect(await host.says("left-overs")).toEqual(WELL);
  });
});
