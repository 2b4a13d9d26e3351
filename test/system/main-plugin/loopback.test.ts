/** What a node offers to itself alone stays out of containers' reach, where no kubelet sees to it (CVE-2020-8558). */
import { resolve } from "node:path";
import { addressesOf, hostEndOf } from "../../support/cni-result.ts";
import { dualIpam, localConf, podArgs } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { type JsonRecord, Node, type Pod } from "../../support/node.ts";

const ATTACKER = resolve("test/support/programs/raw-tcp-client.py");
/** Listens on the loopback alone, says a secret to whoever connects, and ends by itself. */
const SERVICE = `const { createServer } = require("node:net");
  createServer((socket) => socket.end("secret\\n")).listen(7777, "127.0.0.1", () => console.log("listening"));
  setTimeout(() => process.exit(0), 30_000);`;

/** Asks the loopback of the node for its secret, from a container with CAP_NET_RAW and nothing else, as every container of Docker has. */
async function attack(node: Node, pod: Pod, own: string, target: string): Promise<string> {
  const confined = ["/usr/bin/setpriv", "--bounding-set=-all,+net_raw", "--inh-caps=-all", "--no-new-privs"];
  const run = await node.run([...confined, "/usr/bin/python3", ATTACKER, "eth0", own, "ee:ee:ee:ee:ee:ee", target, "7777"], {}, pod);
  expect(run).toMatchObject({ exit: 0, stderr: "" });
  return run.stdout.trim();
}

const node = fresh(Node.create);

describe("The loopback of a node on the local datastore", () => {
  it.each<[string, JsonRecord]>([
    ["", {}],
    ["with no pool that is masqueraded, ", { ipam: { type: "tortie-ipam", pools: [{ cidr: "10.244.0.0/16", natOutgoing: false }] } }],
  ])("H1: %sis not reached by a container that makes its own frames", async (_, change) => {
    const pod = await node.addPod();
    const run = await node.cni("ADD", { pod, conf: localConf(node, change) });
    const [own = ""] = addressesOf(run.json);
    const serving = node.run([process.execPath, "-e", SERVICE]);
    const ask = "for i in 1 2 3 4 5 6 7 8 9; do /usr/bin/nc -N -w 2 127.0.0.1 7777 </dev/null && exit 0; /bin/sleep 0.2; done; exit 1";
    expect(await node.run(["/bin/sh", "-c", ask])).toMatchObject({ exit: 0, stdout: "secret\n" });

    const attacks = [
      attack(node, pod, own, "127.0.0.1"),
      attack(node, pod, own, "127.8.9.10"),
      attack(node, pod, "127.0.0.2", "127.0.0.1"),
    ];
    expect(await Promise.all(attacks)).toEqual(["nothing", "nothing", "nothing"]);

    // The attack is a good one: without our table it succeeds.
    await node.run([`${node.binDir}/tortiectl`, "nat", "remove"]);
    expect(await attack(node, pod, own, "127.0.0.1")).toBe("secret");
    // The next ADD puts the guard up again.
    await node.cni("ADD", { pod: await node.addPod(), containerId: "another", conf: localConf(node, change), args: podArgs("another") });
    expect(await attack(node, pod, own, "127.0.0.1")).toBe("nothing");
    void serving;
  });
});

describe("A container of the local datastore", () => {
  it("L13: sends from its own addresses only, of both families, on a distribution that checks sources loosely too", async () => {
    node.excuse("a pod takes the addresses of another", "doubled", "not-granted");
    const [pod, other] = [await node.addPod(), await node.addPod()];
    const conf = localConf(node, { ipam: dualIpam("46") });
    const ownAddresses = addressesOf((await node.cni("ADD", { pod, containerId: "one", conf })).json);
    const strangers = addressesOf((await node.cni("ADD", { pod: other, containerId: "two", conf })).json);
    const targets = ["192.0.2.1", "2001:db8::1"];
    for (const target of targets) await node.ip("address", "add", target, "dev", "lo");
    // What Ubuntu sets for all interfaces: the larger value of this and of an interface's own counts.
    await node.run(["/bin/sh", "-c", "echo 2 > /proc/sys/net/ipv4/conf/all/rp_filter"]);
    const ping = async (source = "", target = "") => (await node.run(["/usr/bin/ping", "-c1", "-W1", "-I", source, target], {}, pod)).exit;
    const received = async () => [(await counters(node, "snmp", "Icmp:")).InMsgs, (await counters(node, "snmp6")).Icmp6InEchos];

    expect([ownAddresses.length, strangers.length]).toEqual([2, 2]);
    for (const at of [0, 1]) {
      const isIpv6 = ownAddresses[at]?.includes(":") === true;
      const target = targets[isIpv6 ? 1 : 0];
      expect(await ping(ownAddresses[at], target)).toBe(0);
      await node.podIp(pod, "address", "add", `${strangers[at]}/${isIpv6 ? 128 : 32}`, "dev", "eth0", ...(isIpv6 ? ["nodad"] : []));
      const before = await received();
      expect(await ping(strangers[at], target)).toBe(1);
      expect(await received()).toEqual(before);
    }

    // Without the table the same packets arrive.
    await node.run([`${node.binDir}/tortiectl`, "nat", "remove"]);
    const before = await received();
    for (const stranger of strangers) await ping(stranger, targets[stranger.includes(":") ? 1 : 0]);
    expect(await received()).not.toEqual(before);
  });

  it("L13: is not held against a node whose administrator wants it otherwise", async () => {
    const pod = await node.addPod();
    const conf = localConf(node, { cniVersion: "1.1.0" });
    const { json } = await node.cni("ADD", { pod, conf });

    await node.run(["/bin/sh", "-c", `echo 0 > /proc/sys/net/ipv4/conf/${hostEndOf(json)}/rp_filter`]);

    expect(await node.cni("CHECK", { pod, conf: { ...conf, prevResult: json } })).toMatchObject({ exit: 0 });
  });
});

/** Counters of the kernel by name, as /proc/net/snmp has them (names in one line, values in the next) or snmp6 (one to a line). */
async function counters(node: Node, file: "snmp" | "snmp6", of?: string): Promise<Record<string, string>> {
  const lines = (await node.run(["/bin/cat", `/proc/self/net/${file}`])).stdout.split("\n").map((line) => line.split(/\s+/));
  if (of === undefined) return Object.fromEntries(lines.map(([name = "", value = ""]) => [name, value]));
  const [names = [], values = []] = lines.filter(([first]) => first === of);
  return Object.fromEntries(names.map((name, at) => [name, values[at] ?? ""]));
}
