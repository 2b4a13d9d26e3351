import { NO_NODE_STATE } from "../../../dataplane/dataplane.ts";
import { prefix } from "../../support/addresses.ts";
import { apply, applyNode, expressionOf, probe } from "../../support/dataplane-probe.ts";
import { desiredFor } from "../../support/desired-state.ts";
import { fresh } from "../../support/fixtures.ts";
import { type JsonRecord, Node, type Pod } from "../../support/node.ts";
import { addOutside } from "../../support/outside.ts";

const ensure = (node: Node, outgoing: string[], pools: string[], store = "one") =>
  applyNode(node, { ...NO_NODE_STATE, masquerading: { store, outgoing: outgoing.map(prefix), pools: pools.map(prefix) } });

async function ruleset(node: Node): Promise<JsonRecord[]> {
  const result = await node.run(["/usr/sbin/nft", "-j", "list", "ruleset"]);
  expect(result).toMatchObject({ exit: 0 });
  return JSON.parse(result.stdout).nftables;
}

/** Every object of one kind: sets, chains, rules. */
async function objects(node: Node, kind: string): Promise<unknown[]> {
  return (await ruleset(node)).flatMap((object) => (object[kind] === undefined ? [] : [object[kind]]));
}

/** The set of that kind of the store "one". */
const like = (kind: string): unknown => expect.stringMatching(new RegExp(`^@${kind}-one-`));

const node = fresh(Node.create);

describe("masquerading", () => {
  it("is one table whose rules say: from these pools, to anywhere but the pools", async () => {
    expect(await ensure(node, ["10.244.0.0/16", "fd00:10::/64"], ["10.244.0.0/16", "fd00:10::/64", "10.250.0.0/24"])).toEqual({});

    const element = (addr: string, len: number) => ({ prefix: { addr, len } });
    expect(await objects(node, "set")).toMatchObject([
      {
        family: "inet",
        table: "tortie",
        name: expect.stringMatching(/^outgoing4-one-[0-9a-f]{16}$/),
        type: "ipv4_addr",
        flags: ["interval"],
        elem: [element("10.244.0.0", 16)],
      },
      { name: expect.stringMatching(/^pools4-one-[0-9a-f]{16}$/), elem: [element("10.244.0.0", 16), element("10.250.0.0", 24)] },
      { name: expect.stringMatching(/^outgoing6-one-[0-9a-f]{16}$/), type: "ipv6_addr", elem: [element("fd00:10::", 64)] },
      { name: expect.stringMatching(/^pools6-one-[0-9a-f]{16}$/), elem: [element("fd00:10::", 64)] },
    ]);
    const postrouting = { name: "postrouting", type: "nat", hook: "postrouting", prio: 100, policy: "accept" };
    expect(await objects(node, "chain")).toContainEqual(expect.objectContaining(postrouting));
    const match = (protocol: string, field: string, op: string, right: unknown) => ({
      match: { op, left: { payload: { protocol, field } }, right },
    });
    expect((await objects(node, "rule")).map((rule) => JSON.parse(JSON.stringify(rule)).expr)).toEqual([
      [match("ip", "saddr", "==", like("outgoing4")), match("ip", "daddr", "!=", like("pools4")), { masquerade: null }],
      [match("ip6", "saddr", "==", like("outgoing6")), match("ip6", "daddr", "!=", like("pools6")), { masquerade: null }],
    ]);
  });

  it("P1: writes nothing when it is right already, and replaces the sets of the store whose pools changed", async () => {
    const handles = async () => (await objects(node, "set")).map((set) => JSON.parse(JSON.stringify(set)).handle);
    await ensure(node, ["10.244.0.0/16"], ["10.244.0.0/16"]);
    const first = await handles();

    await ensure(node, ["10.244.0.0/16"], ["10.244.0.0/16"]);
    expect(await handles()).toEqual(first);

    await ensure(node, ["10.244.0.0/16"], ["10.244.0.0/16", "10.250.0.0/24"]);
    expect(await handles()).toHaveLength(2);
    expect(await handles()).not.toEqual(first);
    expect(await objects(node, "rule")).toHaveLength(1);
  });

  it("P1: keeps what each store has, and takes away what a store has no more", async () => {
    const sets = async () => (await objects(node, "set")).map((set) => JSON.parse(JSON.stringify(set)));
    const elements = async () => (await sets()).map(({ name, elem }) => `${name.slice(0, -17)} ${elem[0].prefix.addr}`).sort();
    await ensure(node, ["10.71.0.0/16"], ["10.71.0.0/16"], "one");
    await ensure(node, ["10.72.0.0/16"], ["10.72.0.0/16"], "two");

    const both = ["outgoing4-one 10.71.0.0", "outgoing4-two 10.72.0.0", "pools4-one 10.71.0.0", "pools4-two 10.72.0.0"];
    expect(await elements()).toEqual(both);
    expect(await objects(node, "rule")).toHaveLength(2);

    await ensure(node, ["10.73.0.0/16"], ["10.73.0.0/16"], "one");
    expect(await elements()).toEqual(["outgoing4-one 10.73.0.0", both[1], "pools4-one 10.73.0.0", both[3]]);
    await ensure(node, [], [], "one");
    expect(await elements()).toEqual([both[1], both[3]]);
    await ensure(node, [], [], "two");
    expect(await objects(node, "table")).toEqual([]);
  });

  it("P1: survives processes of several stores that write at once", async () => {
    const stores = Array.from({ length: 12 }, (_, index) => `s${index}`);
    const answers = await Promise.all(stores.map((store, index) => ensure(node, [`10.${index}.0.0/16`], [`10.${index}.0.0/16`], store)));
    expect(answers).toEqual(answers.map(() => ({})));
    expect(await objects(node, "set")).toHaveLength(24);
    expect(await objects(node, "rule")).toHaveLength(12);
  });

  it("leaves other tables alone, and is removed on request, once and again, and when no pool wants it", async () => {
    await node.run(["/usr/sbin/nft", "add table inet mine; add chain inet mine c"]);
    const names = async () => (await objects(node, "table")).map((table) => JSON.parse(JSON.stringify(table)).name).sort();

    await ensure(node, ["10.244.0.0/16"], ["10.244.0.0/16"]);
    expect(await names()).toEqual(["mine", "tortie"]);
    for (let times = 0; times < 2; times++) expect(await applyNode(node, NO_NODE_STATE)).toEqual({});
    expect(await names()).toEqual(["mine"]);

    await ensure(node, ["10.244.0.0/16"], ["10.244.0.0/16"]);
    expect(await ensure(node, [], [])).toEqual({});
    expect(await names()).toEqual(["mine"]);
  });

  it("holds many pools, nested ones too", async () => {
    // Every second /24, so that nothing merges, and one /25 inside the first.
    const pools = Array.from({ length: 2500 }, (_, index) => `10.${(2 * index) >> 8}.${(2 * index) & 255}.0/24`);

    expect(await ensure(node, [...pools, "10.0.0.128/25"], pools)).toEqual({});

    const [outgoing] = (await objects(node, "set")).map((set) => JSON.parse(JSON.stringify(set)));
    expect(outgoing.elem).toHaveLength(2500);
  });

  it("is two tables on a kernel that has no NAT for both families in one", async () => {
    const made = await probe(
      node,
      `(async () => {
        const { NetlinkSocket, NETLINK_NETFILTER } = await import("${process.cwd()}/dataplane/netlink/socket.ts");
        const { changeOf, changeRequests, TABLE } = await import("${process.cwd()}/dataplane/nftables/table.ts");
        const { newTable, transaction } = await import("${process.cwd()}/dataplane/nftables/message.ts");
        const { parsePrefix } = await import("${process.cwd()}/lib/addresses/address.ts");
        const pools = ["10.244.0.0/16", "fd00:10::/64"].map(parsePrefix);
        using socket = NetlinkSocket.open(NETLINK_NETFILTER);
        const comment = Uint8Array.of(0, 2, 65, 0);
        const parts = { masquerading: { store: "one", outgoing: pools, pools }, guardedPrefixes: [] };
        const requestsOf = (family) => changeRequests(family, changeOf(family, parts, { chains: [], sets: [] }, true));
        socket.batch(transaction(["ip", "ip6"].flatMap((family) => [newTable(family, TABLE, comment), ...requestsOf(family)])));
      })()`,
    );
    expect(made).toEqual({});
    expect(await objects(node, "rule")).toMatchObject([
      { family: "ip", expr: [{ match: { right: like("outgoing4") } }, { match: { right: like("pools4") } }, { masquerade: null }] },
      { family: "ip6", expr: [{ match: { right: like("outgoing6") } }, { match: { right: like("pools6") } }, { masquerade: null }] },
    ]);
    expect(await applyNode(node, NO_NODE_STATE)).toEqual({});
    expect(await objects(node, "table")).toEqual([]);
  });

  it("checks where containers send from, unless the kernel's rules cannot look up a source; then its comment says so", async () => {
    const state = expressionOf({ ...NO_NODE_STATE, guardedPrefixes: ["cali"] });
    const comment = async () => (await node.run(["/usr/sbin/nft", "list", "table", "inet", "tortie"])).stdout.match(/comment "(.*)"/)?.[1];
    const drops = { drop: null };
    const from = { match: { op: "==", left: { meta: { key: "iifname" } }, right: "cali*" } };
    const source = { match: { op: "==", left: { fib: { result: "oif", flags: ["saddr", "iif"] } }, right: expect.anything() } };

    expect(await probe(node, `dataplane.applyNode(${state})`)).toEqual({});
    expect(await objects(node, "chain")).toContainEqual(
      expect.objectContaining({ name: "prerouting", type: "filter", hook: "prerouting", prio: -300, policy: "accept" }),
    );
    const [jump, guard] = [
      { chain: "prerouting", expr: [from, { jump: { target: "from-cali" } }] },
      { chain: "from-cali", expr: [source, drops] },
    ];
    for (const rule of [jump, guard]) expect(await objects(node, "rule")).toContainEqual(expect.objectContaining(rule));
    expect(await comment()).not.toMatch(/unchecked/);

    // A kernel without nft_fib refuses the whole batch (WSL 2; net/netfilter/nf_tables_api.c answers ENOENT). This one has it.
    await applyNode(node, NO_NODE_STATE);
    const withoutFib = `(async () => {
      const { NetlinkSocket } = await import("${process.cwd()}/dataplane/netlink/socket.ts");
      const { NetlinkError } = await import("${process.cwd()}/dataplane/netlink/message.ts");
      const batch = NetlinkSocket.prototype.batch;
      let refused = 0;
      NetlinkSocket.prototype.batch = function (requests) {
        if (!requests.some(({ payload }) => Buffer.from(payload).includes("fib\\0"))) return batch.call(this, requests);
        refused++;
        throw new NetlinkError(2, "no such file or directory");
      };
      await dataplane.applyNode(${state});
      // The agent, which has routes to tell of as well, says what is lacking.
      const report = await dataplane.applyNode({ ...${state}, network: { tunnels: [], routes: [] } });
      return { refused, report };
    })()`;
    // Both kinds of table are tried once; the second call finds what the first has made.
    const failed = [expect.stringContaining("CONFIG_NFT_FIB_INET")];
    expect(await probe(node, withoutFib)).toEqual({ value: { refused: 2, report: { changed: [], failed, routes: 0, foreign: [] } } });
    expect((await objects(node, "rule")).map((one) => JSON.parse(JSON.stringify(one)).chain)).toEqual(["input", "prerouting"]);
    expect(await comment()).toMatch(/, sources unchecked$/);
  });

  it("survives many processes that make it at once", async () => {
    const answers = await Promise.all(Array.from({ length: 16 }, () => ensure(node, ["10.244.0.0/16"], ["10.244.0.0/16"])));
    expect(answers).toEqual(answers.map(() => ({})));
    expect(await objects(node, "table")).toHaveLength(1);
    expect(await objects(node, "rule")).toHaveLength(1);
  });

  it("lets a pod reach the outside, which has no way back to the pool, and keeps addresses between pods (both families)", async () => {
    const [pod, other] = [await node.addPod(), await node.addPod()];
    await connect(node, pod, "cali1", ["10.244.0.1/32", "fd00:10::1/128"]);
    await connect(node, other, "cali2", ["10.244.0.2/32", "fd00:10::2/128"]);
    const uplink = { link: "uplink", host: ["192.0.2.1/24", "2001:db8::1/64"], outside: ["192.0.2.2/24", "2001:db8::2/64"] };
    const outside = await addOutside(node, uplink);
    await node.ip("route", "add", "default", "via", "192.0.2.2");
    const ping = (from: Pod, to: string) => node.run(["/usr/bin/ping", "-c1", "-W1", to], {}, from);

    expect(await ping(pod, "192.0.2.2")).toMatchObject({ exit: 1 });
    await ensure(node, ["10.244.0.0/24", "fd00:10::/64"], ["10.244.0.0/24", "fd00:10::/64"]);
    expect(await ping(pod, "192.0.2.2")).toMatchObject({ exit: 0 });
    expect(await ping(pod, "2001:db8::2")).toMatchObject({ exit: 0 });

    for (const [address, own] of [
      ["10.244.0.2", "10.244.0.1"],
      ["fd00:10::2", "fd00:10::1"],
    ] as const) {
      expect(await peerSeenBy(node, other, pod, address)).toContain(own);
    }
    expect(await peerSeenBy(node, outside, pod, "192.0.2.2")).toContain("192.0.2.1");
    expect(await peerSeenBy(node, outside, pod, "2001:db8::2")).toContain("2001:db8::1");
  });
});

async function connect(node: Node, pod: Pod, host: string, addresses: readonly string[]): Promise<void> {
  const desired = desiredFor(pod, { host, addresses });
  for (const path of ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"]) {
    await node.run(["/bin/sh", "-c", `echo 1 > /proc/sys/${path}`]);
  }
  expect((await apply(node, desired)).error).toBeUndefined();
}

/** The source address that `server` sees of a TCP connection from `client`. */
async function peerSeenBy(node: Node, server: Pod, client: Pod, address: string): Promise<string> {
  const listen = `const { createServer } = require("node:net");
    const server = createServer((socket) => { console.log(socket.remoteAddress); socket.end(); server.close(); });
    server.listen(8080, ${JSON.stringify(address)});`;
  const serving = node.run([process.execPath, "-e", listen], { timeoutMs: 10_000 }, server);
  const connect = `for i in 1 2 3 4 5 6 7 8 9 10; do /usr/bin/nc -N -w 2 ${address} 8080 </dev/null && exit 0; /bin/sleep 0.2; done; exit 1`;
  expect(await node.run(["/bin/sh", "-c", connect], {}, client)).toMatchObject({ exit: 0 });
  return (await serving).stdout;
}
