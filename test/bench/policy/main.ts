/**
 * What policy costs: an ADD (adds.ts); a whole agent in a large cluster (node.ts); one packet and one connection between two pods of a node
 * that are both enforced, at 1, 100 and 10,000 rules, beside conntrack alone and beside a list of rules in iptables; and what a change of
 * the table costs. Each figure is the least of many short
 * bursts, so that whatever else the machine does falls out; read them as ratios.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { deleteFlows, flowsOf } from "../../../dataplane/conntrack/flows.ts";
import { HostSockets } from "../../../dataplane/netlink/host-sockets.ts";
import { PolicyTable } from "../../../dataplane/nftables/policy/policy-table.ts";
import { address } from "../../support/addresses.ts";
import type { PolicyText } from "../../support/packet-policy-text.ts";
import { changeOf, policyOf } from "../../support/packet-policy-text.ts";
import { row, summarise } from "../statistics.ts";
import { addsUnderPolicy } from "./adds.ts";
import { nodeOfLargeCluster } from "./node.ts";

const [packets = ""] = process.argv.slice(2);
const PASSES = 3;
const BURSTS = 300;
const STANDSTILLS = 9;
const CLIENT = { name: "bench-client", host: "calia", address: "10.0.1.2", gateway: "10.0.1.1" };
const SERVER = { name: "bench-server", host: "calib", address: "10.0.2.2", gateway: "10.0.2.1" };
const PORT = 9000;

function run(file: string, args: readonly string[], input?: string): string {
  const { status, stdout, stderr } = spawnSync(file, args, { encoding: "utf8", ...(input === undefined ? {} : { input }) });
  if (status !== 0) throw new Error(`${file} ${args.join(" ")}: ${stderr}`);
  return stdout;
}

function attach({ name, host, address, gateway }: typeof CLIENT): void {
  run("ip", ["netns", "add", name]);
  run("ip", ["link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", name]);
  run("ip", ["address", "add", `${gateway}/30`, "dev", host]);
  run("ip", ["link", "set", host, "up"]);
  run("ip", ["-n", name, "address", "add", `${address}/30`, "dev", "eth0"]);
  run("ip", ["-n", name, "link", "set", "eth0", "up"]);
  run("ip", ["-n", name, "link", "set", "lo", "up"]);
  run("ip", ["-n", name, "route", "add", "default", "via", gateway]);
}

/** Rules of each pod for so many peers' ports; the one that counts is among them, and no other is of its class. */
function policyWith(rules: number, kind: "ports" | "intervals"): PolicyText {
  const classes = Math.max(1, Math.floor(rules / 10));
  const name = (at: number) => at.toString(16).padStart(12, "a");
  const each = Math.ceil(rules / classes);
  const ports = Array.from({ length: each }, (_, at) => {
    const first = at === each - 1 ? PORT : 1000 + 10 * at;
    return ["tcp", "udp"].map((protocol) => `${protocol} ${kind === "ports" ? first : `${first}-${first + 5}`}`);
  }).flat();
  const permissions = Object.fromEntries(Array.from({ length: classes }, (_, at) => [name(at), ports]));
  const last = name(classes - 1);
  const peers = Array.from({ length: rules }, (_, at) => [`10.1.${at >> 8}.${at & 255}`, name(at % classes)] as const);
  const blocks = peers.map(([address, of]) => [`${address}-${address}`, of] as const);
  return {
    endpoints: {
      [CLIENT.host]: { addresses: [CLIENT.address], egress: permissions },
      [SERVER.host]: { addresses: [SERVER.address], ingress: permissions },
    },
    addresses: kind === "ports" ? { ...Object.fromEntries(peers), [CLIENT.address]: last, [SERVER.address]: last } : {},
    blocks: kind === "ports" ? {} : { ...Object.fromEntries(blocks), "10.0.1.2-10.0.1.2": last, "10.0.2.2-10.0.2.2": last },
  };
}

const CONNTRACK = "add table inet bench\nadd chain inet bench none\nadd rule inet bench none ct state new counter\n";

/** A list of rules for each pod, as Felix makes them, the one that matches last. */
function listOf(rules: number): string {
  const list = (chain: string, from: string, to: string) =>
    Array.from({ length: rules }, (_, at) => {
      const source = at === rules - 1 ? from : `10.1.${at >> 8}.${at & 255}`;
      return ["tcp", "udp"].map((protocol) => `-A ${chain} -s ${source} -d ${to} -p ${protocol} --dport ${PORT} -j RETURN`);
    }).flat();
  return [
    "*filter",
    ":from-pod - [0:0]",
    ":to-pod - [0:0]",
    `-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED --ctdir REPLY -j ACCEPT`,
    `-A FORWARD -i ${CLIENT.host} -j from-pod`,
    `-A FORWARD -o ${SERVER.host} -j to-pod`,
    ...list("from-pod", CLIENT.address, SERVER.address),
    "-A from-pod -j DROP",
    ...list("to-pod", CLIENT.address, SERVER.address),
    "-A to-pod -j DROP",
    "COMMIT\n",
  ].join("\n");
}

interface Variant {
  readonly name: string;
  make(table: PolicyTable): Promise<unknown>;
}

const policy = (rules: number, kind: "ports" | "intervals"): Variant => ({
  name: `policy, ${rules} rules, ${kind}`,
  make: (table) => table.replace(policyOf(policyWith(rules, kind))),
});
const VARIANTS: readonly Variant[] = [
  { name: "nothing", make: async () => undefined },
  { name: "conntrack alone", make: async () => run("nft", ["-f", "-"], CONNTRACK) },
  ...[1, 100, 10_000].map((rules) => policy(rules, "ports")),
  ...[1, 100, 10_000].map((rules) => policy(rules, "intervals")),
  ...[100, 1000].map((rules) => ({
    name: `iptables, ${rules} rules`,
    make: async () => run("iptables-legacy-restore", [], listOf(rules)),
  })),
];

function bursts(protocol: "udp" | "tcp"): number {
  const count = protocol === "udp" ? "100" : "5";
  const output = run("ip", ["netns", "exec", CLIENT.name, packets, protocol, SERVER.address, String(PORT), count, String(BURSTS)]);
  return Math.min(...output.trim().split("\n").map(Number));
}

async function packetsAndConnections(table: PolicyTable, sockets: HostSockets): Promise<void> {
  const least = new Map(VARIANTS.map(({ name }) => [name, { udp: Number.POSITIVE_INFINITY, tcp: Number.POSITIVE_INFINITY }]));
  for (let pass = 0; pass < PASSES; pass++) {
    for (const { name, make } of VARIANTS) {
      // A connection that nobody has followed to its end would stand in the way of the next one with its ports.
      deleteFlows(sockets.netfilter, await flowsOf([address(CLIENT.address)]));
      await make(table);
      const found = least.get(name);
      if (found === undefined) continue;
      found.udp = Math.min(found.udp, bursts("udp"));
      found.tcp = Math.min(found.tcp, bursts("tcp"));
      await table.remove();
      run("nft", ["flush", "ruleset"]);
      run("iptables-legacy", ["-F"]);
      run("iptables-legacy", ["-X"]);
    }
  }
  const base = least.get("conntrack alone") ?? { udp: Number.NaN, tcp: Number.NaN };
  const widths = [30, 14, 10, 16, 12];
  console.log(row(["", "UDP packet ns", "ratio", "connection ns", "a second"], widths));
  for (const [name, { udp, tcp }] of least) console.log(row([name, udp, udp / base.udp, tcp, base.tcp / tcp], widths));
}

interface Standstill {
  readonly total: number;
  readonly standstill: number;
}

/** Runs the work, and says how long the longest piece was in which nothing else of the process could go on. */
async function longestStandstill(work: () => Promise<unknown>): Promise<Standstill> {
  let standstill = 0;
  let last = performance.now();
  const look = () => {
    const now = performance.now();
    standstill = Math.max(standstill, now - last);
    last = now;
  };
  const timer = setInterval(look, 1);
  const began = performance.now();
  await work();
  const total = performance.now() - began;
  look();
  clearInterval(timer);
  return { total, standstill };
}

function report(what: string, runs: readonly Standstill[]): void {
  const least = (of: keyof Standstill) => Math.min(...runs.map((run) => run[of])).toFixed(0);
  const half = summarise(runs.map((run) => run.standstill)).p50.toFixed(0);
  console.log(
    `${what}: least ${least("total")} ms, longest standstill of ${runs.length} runs: least ${least("standstill")} ms, half ${half} ms`,
  );
}

async function changes(table: PolicyTable): Promise<void> {
  const names = Array.from({ length: 100 }, (_, at) => at.toString(16).padStart(12, "b"));
  const permissions = (port: number) =>
    Object.fromEntries(names.map((name, at) => [name, [`tcp ${port + at}`, `udp ${port}`, "tcp 8000-8100"]]));
  const node: PolicyText = {
    endpoints: Object.fromEntries(
      Array.from({ length: 110 }, (_, at) => [
        `cali${at}`,
        { addresses: [`10.2.0.${at}`], ingress: permissions(100), egress: permissions(200) },
      ]),
    ),
    addresses: Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`10.3.${at >> 8}.${at & 255}`, names[at % 100] ?? ""])),
  };
  const state = policyOf(node);
  const built: Standstill[] = [];
  const compared: Standstill[] = [];
  const moved: Standstill[] = [];
  for (let run = 0; run < STANDSTILLS; run++) {
    await table.remove();
    built.push(await longestStandstill(() => table.replace(state)));
    compared.push(await longestStandstill(() => table.replace(state)));
    const addresses = Object.fromEntries([...state.addresses.keys()].map((address) => [address, names[run] ?? ""]));
    moved.push(await longestStandstill(() => table.apply(changeOf({ addresses }))));
  }
  await table.replace(state);
  const times: number[] = [];
  for (let at = 0; at < 500; at++) {
    const change = changeOf({ addresses: { [`10.3.0.${at % 256}`]: names[(at * 7 + 1) % 100] ?? "" } });
    const began = performance.now();
    await table.apply(change);
    times.push(performance.now() - began);
  }
  const endpoints: number[] = [];
  for (let at = 0; at < 100; at++) {
    const change = changeOf({ endpoints: { calinew: at % 2 === 0 ? { addresses: ["10.2.1.1"], ingress: permissions(100) } : null } });
    const began = performance.now();
    await table.apply(change);
    endpoints.push(performance.now() - began);
  }
  const [address, endpoint] = [summarise(times), summarise(endpoints)];
  const least = (values: readonly number[]) => Math.min(...values).toFixed(2);
  report("110 endpoints × 100 classes × 3 × 2 and 10,000 addresses from nothing", built);
  report("the same compared with the kernel", compared);
  report("10,000 addresses move to another class at once", moved);
  console.log(
    `an address moves to another class: least ${least(times)} ms, half ${address.p50.toFixed(2)} ms, 95 % ${address.p95.toFixed(2)} ms`,
  );
  console.log(
    `an endpoint with 300 permissions comes or goes: least ${least(endpoints)} ms, half ${endpoint.p50.toFixed(2)} ms, 95 % ${endpoint.p95.toFixed(2)} ms`,
  );
}

await addsUnderPolicy();
await nodeOfLargeCluster();
attach(CLIENT);
attach(SERVER);
run("sysctl", ["-qw", "net.ipv4.ip_forward=1"]);
const server = spawn("ip", ["netns", "exec", SERVER.name, join(packets), "serve", String(PORT)], { stdio: ["ignore", "pipe", "inherit"] });
await once(server.stdout, "data");
{
  using sockets = new HostSockets();
  const table = new PolicyTable(sockets, { prefixes: ["cali"], logGroup: 7 });
  await changes(table);
  await table.remove();
  await packetsAndConnections(table, sockets);
}
server.kill();
