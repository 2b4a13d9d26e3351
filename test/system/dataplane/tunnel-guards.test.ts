/** What a tunnel lets pass (S2), with real packets: a pod's plain UDP socket must not put packets behind the guard of sources. */
import { NO_NODE_STATE, type NodeNetwork } from "../../../dataplane/dataplane.ts";
import { address } from "../../support/addresses.ts";
import { apply, applyNode } from "../../support/dataplane-probe.ts";
import { desiredFor } from "../../support/desired-state.ts";
import { Node, type Pod } from "../../support/node.ts";
import { addOutside } from "../../support/outside.ts";

const MAC = "66:00:00:00:00:01";

function networkOf(peer: string): NodeNetwork {
  const peers = [{ node: address(peer), address: address("10.9.2.0"), mac: "66:00:00:00:00:02" }];
  const ends = { mac: MAC, mtu: 1450, local: address("172.20.1.1"), address: address("10.9.0.0") };
  return { tunnels: [{ name: "vxlan.calico", vni: 4096, port: 4789, ...ends, peers }], routes: [] };
}

/** Sends VXLAN with an inner packet from `inner` to the node's tunnel address, as a user without any capability. */
async function encapsulate(node: Node, from: Pod, to: string, inner: string): Promise<void> {
  const octets = (text: string) => text.split(".").map(Number);
  const header = [69, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, ...octets(inner), ...octets("10.9.0.0")];
  let sum = 0;
  for (let at = 0; at < header.length; at += 2) sum += (header[at] ?? 0) * 256 + (header[at + 1] ?? 0);
  const checksum = ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
  header.splice(10, 2, checksum >> 8, checksum & 0xff);
  const udp = [0, 53, 5353 >> 8, 5353 & 0xff, 0, 12, 0, 0, 1, 2, 3, 4];
  const ethernet = [...Buffer.from(`${MAC}660000000002`.replaceAll(":", ""), "hex"), 8, 0];
  const packet = [8, 0, 0, 0, 0, 16, 0, 0, ...ethernet, ...header, ...udp];
  const text = packet.map((octet) => `\\${octet.toString(8).padStart(3, "0")}`).join("");
  const unprivileged = ["/usr/bin/setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"];
  const sent = await node.run([...unprivileged, "/bin/sh", "-c", `printf '${text}' | /usr/bin/nc -u -w1 ${to} 4789`], {}, from);
  expect(sent).toMatchObject({ exit: 0 });
}

/** Packets that have come out of the tunnel, and those that have left by the wire. */
async function counted(node: Node): Promise<Record<string, number>> {
  const { stdout } = await node.run(["nft", "-j", "list", "counters"]);
  const objects: { counter?: { name: string; packets: number } }[] = JSON.parse(stdout).nftables;
  return Object.fromEntries(objects.flatMap(({ counter }) => (counter === undefined ? [] : [[counter.name, counter.packets]])));
}

describe("The guards of a tunnel", () => {
  it("S2: drop what a pod encapsulates wherever it goes, what strangers send, and inner sources that belong here", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const peer = await addOutside(node, { link: "eth0", host: ["172.20.1.1/24"], outside: ["172.20.1.2/24", "172.20.1.3/24"] });
    expect((await apply(node, desiredFor(pod, { host: "cali1", addresses: ["10.9.0.1/32"] }))).error).toBeUndefined();
    const state = (node2: string) => ({
      ...NO_NODE_STATE,
      forwardedFamilies: [4 as const],
      guardedPrefixes: ["cali"],
      network: networkOf(node2),
    });
    expect(await applyNode(node, state("172.20.1.2"))).toMatchObject({ value: { failed: [] } });
    await node.run(["/bin/sh", "-c", "for f in all vxlan.calico eth0; do echo 0 > /proc/sys/net/ipv4/conf/$f/rp_filter; done"]);
    await node.ip("route", "add", "10.9.2.0/26", "dev", "vxlan.calico");
    await node.run([
      "nft",
      `add table inet judge; add counter inet judge inside; add counter inet judge wire;
       add chain inet judge i { type filter hook input priority 100; };
       add rule inet judge i iifname "vxlan.calico" udp dport 5353 counter name inside;
       add chain inet judge p { type filter hook postrouting priority 300; };
       add rule inet judge p oifname "eth0" udp dport 4789 counter name wire`,
    ]);

    await encapsulate(node, peer, "172.20.1.1", "10.9.2.7");
    expect(await counted(node)).toEqual({ inside: 1, wire: 0 });

    await encapsulate(node, pod, "172.20.1.1", "10.9.2.7");
    await encapsulate(node, pod, "172.20.1.2", "10.9.2.7");
    for (const inner of ["10.9.0.1", "172.20.1.1"]) await encapsulate(node, peer, "172.20.1.1", inner);
    expect(await counted(node)).toEqual({ inside: 1, wire: 0 });

    expect(await applyNode(node, state("172.20.1.3"))).toMatchObject({ value: { failed: [] } });
    await encapsulate(node, peer, "172.20.1.1", "10.9.2.7");
    expect(await counted(node)).toEqual({ inside: 1, wire: 0 });
  });
});
