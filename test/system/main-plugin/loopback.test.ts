/** What a node offers to itself alone stays out of containers' reach, where no kubelet sees to it (CVE-2020-8558). */
import { resolve } from "node:path";
import { localConf, podArgs } from "../../support/conf.ts";
import { type JsonRecord, Node, type Pod } from "../../support/node.ts";

const ATTACKER = resolve("test/support/programs/raw-tcp-client.py");
/** Listens on the loopback alone, says a secret to whoever connects, and ends by itself. */
const SERVICE = `const { createServer } = require("node:net");
  createServer((socket) => socket.end("secret\\n")).listen(7777, "127.0.0.1", () => console.log("listening"));
  setTimeout(() => process.exit(0), 30_000);`;

async function addressOf(json: unknown): Promise<string> {
  return (json as { ips: { address: string }[] }).ips[0]?.address.replace(/\/.*/, "") ?? "";
}

/** Asks the loopback of the node for its secret, from a container with CAP_NET_RAW and nothing else, as every container of Docker has. */
async function attack(node: Node, pod: Pod, own: string, target: string): Promise<string> {
  const confined = ["/usr/bin/setpriv", "--bounding-set=-all,+net_raw", "--inh-caps=-all", "--no-new-privs"];
  const run = await node.run([...confined, "/usr/bin/python3", ATTACKER, "eth0", own, "ee:ee:ee:ee:ee:ee", target, "7777"], {}, pod);
  expect(run).toMatchObject({ exit: 0, stderr: "" });
  return run.stdout.trim();
}

describe("The loopback of a node on the local datastore", () => {
  it.each<[string, JsonRecord]>([
    ["", {}],
    ["with no pool that is masqueraded, ", { ipam: { type: "tortie-ipam", pools: [{ cidr: "10.244.0.0/16", natOutgoing: false }] } }],
  ])("H1: %sis not reached by a container that makes its own frames", async (_, change) => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const run = await node.cni("ADD", { pod, conf: localConf(node, change) });
    const own = await addressOf(run.json);
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
  it("L13: sends from its own addresses only", async () => {
    await using node = await Node.create();
    const [pod, other] = [await node.addPod(), await node.addPod()];
    const run = await node.cni("ADD", { pod, containerId: "one", conf: localConf(node) });
    const stranger = await addressOf((await node.cni("ADD", { pod: other, containerId: "two", conf: localConf(node) })).json);
    const own = await addressOf(run.json);
    await node.ip("address", "add", "192.0.2.1/32", "dev", "lo");
    const ping = async (source: string) => (await node.run(["/usr/bin/ping", "-c1", "-W1", "-I", source, "192.0.2.1"], {}, pod)).exit;
    const received = async () => Number((await snmp(node)).InMsgs);

    expect(await ping(own)).toBe(0);
    await node.podIp(pod, "address", "add", `${stranger}/32`, "dev", "eth0");
    const before = await received();
    expect(await ping(stranger)).toBe(1);
    expect(await received()).toBe(before);
  });

  it("L13: is not held against a node whose administrator wants it otherwise", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const conf = localConf(node, { cniVersion: "1.1.0" });
    const { json } = await node.cni("ADD", { pod, conf });
    const [host] = (json as { interfaces: { name: string }[] }).interfaces;

    await node.run(["/bin/sh", "-c", `echo 0 > /proc/sys/net/ipv4/conf/${host?.name}/rp_filter`]);

    expect(await node.cni("CHECK", { pod, conf: { ...conf, prevResult: json } })).toMatchObject({ exit: 0 });
  });
});

/** The counters of ICMP, by name. */
async function snmp(node: Node): Promise<Record<string, string>> {
  const lines = (await node.run(["/bin/cat", "/proc/self/net/snmp"])).stdout.split("\n").filter((line) => line.startsWith("Icmp:"));
  const [names = [], values = []] = lines.map((line) => line.split(" ").slice(1));
  return Object.fromEntries(names.map((name, at) => [name, values[at] ?? ""]));
}
