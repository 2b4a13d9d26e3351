/** Every rule of our table in the words of `nft`, which reads back from the kernel what we have written there by ourselves. */
import { probe } from "../../support/dataplane-probe.ts";
import { Node } from "../../support/node.ts";

/** Makes the tables of these families with all that a table can have. */
const make = (families: readonly string[]) => `(async () => {
  const at = (path) => import("${process.cwd()}/" + path);
  const { NetlinkSocket, NETLINK_NETFILTER } = await at("dataplane/netlink/socket.ts");
  const { changeOf, changeRequests, TABLE } = await at("dataplane/nftables/table.ts");
  const { newTable, transaction } = await at("dataplane/nftables/message.ts");
  const { parseAddress, parsePrefix } = await at("lib/addresses/address.ts");
  const pools = ["10.244.0.0/16", "fd00:10::/64"].map(parsePrefix);
  const peer = (node) => ({ node: parseAddress(node) });
  const tunnels = [{ name: "vxlan.calico", port: 4789, peers: [peer("192.0.2.2"), peer("2001:db8::2")] }];
  const parts = { masquerading: { store: "one", outgoing: pools.slice(0, 2), pools }, guardedPrefixes: ["cali"], tunnels };
  using socket = NetlinkSocket.open(NETLINK_NETFILTER);
  const requestsOf = (family) => [newTable(family, TABLE), ...changeRequests(family, changeOf(family, parts, { chains: [], sets: [] }, true))];
  socket.batch(transaction(${JSON.stringify(families)}.flatMap(requestsOf)));
})()`;

/** Chain → its lines, without the fingerprints that names end with. Later versions of nft write "missing" for an interface 0. */
async function chainsOf(node: Node, family: string): Promise<Readonly<Record<string, readonly string[]>>> {
  const { stdout } = await node.run(["/usr/sbin/nft", "list", "table", family, "tortie"]);
  const chains = [
    ...stdout
      .replace(/-[0-9a-f]{16}\b/g, "")
      .replace("oif missing", "oif 0")
      .matchAll(/chain (\S+) \{\n([^}]*)\}/g),
  ];
  return Object.fromEntries(chains.map(([, name = "", body = ""]) => [name, body.trim().split(/\n\s*/)]));
}

/** A packet that claims to come from a peer, but does not: by family. */
const STRANGER = {
  4: "udp dport 4789 ip saddr != @node4 drop",
  6: "udp dport 4789 ip6 saddr != @node6 drop",
};
const MASQUERADE = {
  4: "ip saddr @outgoing4-one ip daddr != @pools4-one masquerade",
  6: "ip6 saddr @outgoing6-one ip6 daddr != @pools6-one masquerade",
};
const FROM_LOOPBACK = 'iifname "cali*" ip daddr 127.0.0.0/8 ct state ! established,related ct status ! dnat drop';

/** What a table has for these families. */
const rulesFor = (families: readonly (4 | 6)[]) => ({
  postrouting: ["type nat hook postrouting priority srcnat; policy accept;", ...families.map((family) => MASQUERADE[family])],
  input: ["type filter hook input priority filter; policy accept;", "jump peers", ...(families.includes(4) ? [FROM_LOOPBACK] : [])],
  prerouting: ["type filter hook prerouting priority raw; policy accept;", "jump tunnel", 'iifname "cali*" jump from-cali'],
  "from-cali": ["fib saddr . iif oif 0 drop"],
  tunnel: [
    'iifname "cali*" udp dport 4789 drop',
    'iifname "cali*" meta l4proto ipencap drop',
    'iifname "vxlan.calico" fib saddr type local drop',
    'iifname "vxlan.calico" fib saddr oifname "cali*" drop',
  ],
  peers: families.map((family) => STRANGER[family]),
});

describe("the rules of the node's table, as nft reads them", () => {
  it("are these for both families in one", async () => {
    await using node = await Node.create();
    expect(await probe(node, make(["inet"]))).toEqual({});
    expect(await chainsOf(node, "inet")).toEqual(rulesFor([4, 6]));
  });

  it("are the same in two tables, each without the other family's", async () => {
    await using node = await Node.create();
    expect(await probe(node, make(["ip", "ip6"]))).toEqual({});
    expect(await chainsOf(node, "ip")).toEqual(rulesFor([4]));
    expect(await chainsOf(node, "ip6")).toEqual(rulesFor([6]));
  });
});
