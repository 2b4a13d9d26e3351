/** The table itself: what an administrator sees of it, what happens when somebody edits it, and what is left when a process ends. */
import { shared } from "../../support/fixtures.ts";
import type { EndpointText, PermissionText, PolicyText } from "../../support/packet-policy-text.ts";
import { classes, endpoints, PolicyNode, reach } from "../../support/policy-node.ts";
import { seededRandom } from "../../support/seeded-random.ts";

const A = "aaaaaaaaaaaa";
const B = "bbbbbbbbbbbb";
const C = "cccccccccccc";
const TABLE = "inet tortie-policy";

const world = shared(() => PolicyNode.create(2));
beforeEach(() => world.ask("remove"));

/** Has something of every kind that a table can have. */
const POLICY: PolicyText = {
  endpoints: {
    calia: {
      addresses: ["10.60.0.1", "fd00:60::1"],
      ingress: { [A]: "all", [B]: ["tcp 80", "udp 53-60", "sctp 132"], "000000000000": ["tcp 8000-9000"] },
      egress: { [C]: ["udp 53"] },
    },
    calib: { addresses: ["10.60.0.2"], ingress: { [B]: ["tcp 0-65535", "udp 0-65535"] } },
    calic: { addresses: ["fd00:60::3"], egress: { [A]: "all", [B]: "all" } },
    "cali-longest-15": { addresses: [] },
  },
  addresses: { "10.60.0.1": A, "fd00:60::1": A, "10.60.0.2": B, "203.0.113.9": C, "2001:db8::9": C },
  blocks: { "10.0.0.0/9": B, "10.128.0.0-10.128.0.4": C, "10.128.0.5-10.128.0.5": B, "224.0.0.0/3": A, "2001:db8::/32": B, "ff00::/8": C },
};

interface Listed {
  readonly name?: string;
  readonly chain?: string;
  readonly elem?: readonly unknown[];
}

/** Everything in the table but handles, counts and the order of elements and objects. */
async function listing(): Promise<string[]> {
  const { nftables } = JSON.parse(await world.nft("-j", "list", "table", "inet", "tortie-policy"));
  const places = new Map<string, number>();
  return nftables
    .map((object: Record<string, Listed & { readonly handle?: number; readonly packets?: number; readonly bytes?: number }>) => {
      const [[kind, value] = ["", {}]] = Object.entries(object);
      const { handle: _, packets: __, bytes: ___, elem, ...rest } = value;
      const place = kind === "rule" ? (places.get(value.chain ?? "") ?? 0) : 0;
      if (kind === "rule") places.set(value.chain ?? "", place + 1);
      const elements = value.name?.endsWith("log-limit") ? undefined : elem?.map((one) => JSON.stringify(one)).sort();
      return JSON.stringify([kind, place, rest, elements]);
    })
    .sort();
}

describe("What nft says of the table", () => {
  it("is everything, in words and as JSON, and nft makes the same of its own words", async () => {
    await world.replace(POLICY);
    const words = await world.nft("list", "ruleset");
    for (const line of [
      '"cali-longest-15" : return',
      '"calia" : goto ingress-policy',
      '"calib" : goto egress-open',
      '"calia" . tcp . 8960',
      '"calib" . udp . 61440',
      "10.128.0.5 : goto ingress-bbbbbbbbbbbb",
      "224.0.0.0 : goto ingress-aaaaaaaaaaaa",
      "2001:db8:: : goto egress-bbbbbbbbbbbb",
      "ip saddr & 240.0.0.0 vmap @ingress-blocks4-4",
      "ip saddr vmap @ingress-blocks4-32",
      "ip6 daddr & ffff:ffff:: vmap @egress-blocks6-32",
      'iifname "cali*" jump from-pod-to-host',
      "ct direction reply ct state established,related return",
      "oifname . meta l4proto . th dport & 61440 @ingress-bbbbbbbbbbbb-ports4096 return",
      'log prefix "tortie-policy egress tcp-without-syn" group 7 snaplen 128',
      'counter name "ingress-endpoint-unknown" drop',
    ]) {
      expect(words).toContain(line);
    }
    const before = await listing();
    await world.ask("remove");
    await world.node.run(["/usr/sbin/nft", "-f", "-"], { stdin: words });
    expect(await listing()).toEqual(before);
  });

  it("says no more and no less after a second time, which writes nothing", async () => {
    expect(await world.replace(POLICY)).toEqual([`table ${TABLE} is missing`]);
    const before = await world.nft("-a", "list", "ruleset");
    expect(await world.replace(POLICY)).toEqual([]);
    expect(await world.ask("inspect", { policy: POLICY })).toEqual([]);
    expect(await world.nft("-a", "list", "ruleset")).toBe(before);
  });

  it("has no chain or set of a class that nothing names any more", async () => {
    await world.replace({});
    const empty = await listing();
    await world.apply({ ...POLICY });
    expect(await listing()).not.toEqual(empty);
    await world.apply({
      endpoints: Object.fromEntries(Object.keys(POLICY.endpoints ?? {}).map((name) => [name, null])),
      addresses: Object.fromEntries(Object.keys(POLICY.addresses ?? {}).map((address) => [address, null])),
      blocks: {},
    });
    expect(await listing()).toEqual(empty);
  });

  it("is the same after changes as after making it whole, whatever the changes were", async () => {
    const random = seededRandom(29);
    const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
    const names = [A, B, C, "dddddddddddd", "000000000000"];
    const permissions: readonly PermissionText[] = [
      "all",
      ["tcp 80"],
      ["tcp 80", "tcp 82-90"],
      ["udp 53", "udp 60-70"],
      ["tcp 81-90"],
      ["tcp 85-86"],
    ];
    const some = () => Object.fromEntries(names.filter(() => random() < 0.5).map((name) => [name, pick(permissions)]));
    const endpoint = (): EndpointText => ({
      addresses: [`10.60.0.${Math.floor(random() * 4)}`],
      ...(random() < 0.7 ? { ingress: some() } : {}),
      ...(random() < 0.5 ? { egress: some() } : {}),
    });
    const blocks = () => {
      const edges = [...new Set(Array.from({ length: 8 }, () => Math.floor(random() * 256)))].sort((a, b) => a - b);
      const text = (octet: number) => `10.70.0.${octet}`;
      return Object.fromEntries(edges.slice(1).map((edge, at) => [`${text(edges[at] ?? 0)}-${text(edge - 1)}`, pick(names)]));
    };
    const state = { endpoints: new Map<string, EndpointText>(), addresses: new Map<string, string>(), blocks: blocks() };
    await world.replace({ blocks: state.blocks });
    for (let step = 1; step <= 60; step++) {
      const name = `cali${pick(["a", "b", "c", "d"])}`;
      const address = `10.80.0.${Math.floor(random() * 6)}`;
      const change = {
        endpoints: { [name]: random() < 0.2 ? null : endpoint() },
        addresses: { [address]: random() < 0.3 ? null : pick(names) },
        ...(random() < 0.3 ? { blocks: blocks() } : {}),
      };
      for (const [key, value] of Object.entries(change.endpoints))
        value === null ? state.endpoints.delete(key) : state.endpoints.set(key, value);
      for (const [key, value] of Object.entries(change.addresses))
        value === null ? state.addresses.delete(key) : state.addresses.set(key, value);
      state.blocks = change.blocks ?? state.blocks;
      await world.apply(change);
    }
    const whole = { endpoints: Object.fromEntries(state.endpoints), addresses: Object.fromEntries(state.addresses), blocks: state.blocks };
    expect(await world.ask("inspect", { policy: whole })).toEqual([]);
    const changed = await listing();
    await world.ask("remove");
    await world.replace(whole);
    expect(await listing()).toEqual(changed);
  });

  it("has a thousand intervals of addresses and of ports, each judged by itself", async () => {
    const [a, b] = world.pods;
    const ports = Array.from({ length: 1000 }, (_, at) => `tcp ${1000 + 10 * at}-${1004 + 10 * at}`);
    const around = Object.fromEntries(
      Array.from({ length: 1000 }, (_, at) => [`10.60.${(at >> 6) + 1}.${(at & 63) * 4}/31`, at % 2 === 0 ? A : B]),
    );
    const blocks = { "10.60.0.0-10.60.0.1": A, "10.60.0.2-10.60.0.3": B, ...around };
    await world.replace({ endpoints: endpoints([b, { ingress: { [A]: ports } }], [a, { ingress: { [A]: ports } }]), blocks });

    for (const port of [5004, 5005, 10_990, 10_994, 10_995]) {
      for (const { prober } of [a, b]) await prober.ask("serve", { protocol: "tcp", port });
    }
    const asked = [5004, 5005, 10_990, 10_994, 10_995].map((port) => reach(a, b, "tcp", port));
    expect(await Promise.all(asked)).toEqual(["ok", "timeout", "ok", "ok", "timeout"]);
    expect(await reach(b, a, "tcp", 5004)).toBe("timeout");
    const [set] = (await world.objects("set")).filter(({ name }) => name === `ingress-${A}-ports`);
    expect(set?.elem).toHaveLength(10_000);
  });
});

/** What somebody does to the table by hand, and what is said of it. */
const EDITS: readonly (readonly [what: string, edit: string, said: string])[] = [
  ["takes an endpoint away", `delete element ${TABLE} to-endpoint { "calia" }`, "map to-endpoint lacks calia"],
  [
    "opens an endpoint",
    `delete element ${TABLE} to-endpoint { "calia" }; add element ${TABLE} to-endpoint { "calia" : return }`,
    'map to-endpoint has "return" for calia, not "goto ingress-policy"',
  ],
  [
    "adds an endpoint",
    `add element ${TABLE} from-endpoint { "calix" : return }`,
    "map from-endpoint has calix, which does not belong there",
  ],
  [
    "moves an address",
    `delete element ${TABLE} ingress-addresses4 { 10.60.0.2 }; add element ${TABLE} ingress-addresses4 { 10.60.0.2 : goto ingress-${A} }`,
    `map ingress-addresses4 has "goto ingress-${A}" for 10.60.0.2, not "goto ingress-${B}"`,
  ],
  ["takes a block away", `delete element ${TABLE} ingress-blocks6-32 { 2001:db8:: }`, "map ingress-blocks6-32 lacks 2001:db8::"],
  [
    "adds a block",
    `add element ${TABLE} egress-blocks4-12 { 192.0.0.0 : return }`,
    "map egress-blocks4-12 has 192.0.0.0, which does not belong there",
  ],
  [
    "adds a block with a verdict of his own",
    `add element ${TABLE} egress-blocks4-12 { 192.0.0.0 : drop }`,
    "map egress-blocks4-12 has elements that tortie does not write",
  ],
  [
    "takes a port away",
    `delete element ${TABLE} ingress-${B}-ports { "calia" . tcp . 80 }`,
    `set ingress-${B}-ports lacks calia . tcp . 80`,
  ],
  [
    "adds sixteen ports",
    `add element ${TABLE} ingress-000000000000-ports16 { "calia" . tcp . 96 }`,
    "set ingress-000000000000-ports16 has calia . tcp . 96, which does not belong there",
  ],
  ["takes an own address away", `delete element ${TABLE} own6 { "calia" . fd00:60::1 }`, "set own6 lacks calia . fd00:60::1"],
  ["adds a rule", `insert rule ${TABLE} forward ip saddr { 192.0.2.1, 192.0.2.2 } accept`, "chain forward has other rules"],
  ["empties a chain", `flush chain ${TABLE} egress-policy`, "chain egress-policy has other rules"],
  ["takes a chain away that packets come through", `flush chain ${TABLE} input; delete chain ${TABLE} input`, "chain input is missing"],
  [
    "adds a chain with a set",
    `add set ${TABLE} mine { type ipv4_addr; }; add chain ${TABLE} my-chain { type filter hook input priority 5; }; add rule ${TABLE} my-chain ip saddr @mine drop`,
    "chain my-chain does not belong there",
  ],
  ["adds a counter", `add counter ${TABLE} mine`, "counter mine does not belong there"],
  ["lets a chain drop", `chain ${TABLE} forward { policy drop; }`, "chain forward is at another hook, or has another priority or policy"],
  [
    "gives a set another type",
    `flush chain ${TABLE} ingress-${A}; delete set ${TABLE} ingress-${A}-all; add set ${TABLE} ingress-${A}-all { type ipv4_addr; }`,
    `set ingress-${A}-all has another type`,
  ],
  ["puts the table to sleep", `add table ${TABLE} { flags dormant; }`, `table ${TABLE} is dormant`],
  ["deletes the table", `delete table ${TABLE}`, `table ${TABLE} is missing`],
];

describe("N20: somebody who", () => {
  it.each(EDITS)("%s: it is named, and repaired", async (_, edit, said) => {
    await world.replace(POLICY);
    const right = await listing();
    await world.nft(edit.replaceAll("; ", ";\n").replaceAll(";\n}", "; }"));

    const differences = await world.ask<string[]>("inspect", { policy: POLICY });
    expect(differences).toContain(said);
    expect(await world.ask("inspect", { policy: POLICY })).toEqual(differences);

    expect(await world.replace(POLICY)).toEqual(differences);
    expect(await listing()).toEqual(right);
    expect(await world.ask("inspect", { policy: POLICY })).toEqual([]);
  });

  it.each(EDITS)("%s: the next change that the kernel refuses mends it", async (_, edit) => {
    await world.replace(POLICY);
    await world.nft(edit.replaceAll("; ", ";\n").replaceAll(";\n}", "; }"));
    const change = {
      endpoints: { calia: null, calib: null, calic: null },
      addresses: { "10.60.0.2": A, "2001:db8::9": null },
      blocks: {},
    };
    await world.apply(change);
    const rest = {
      endpoints: { "cali-longest-15": { addresses: [] } },
      addresses: { "10.60.0.1": A, "fd00:60::1": A, "10.60.0.2": A, "203.0.113.9": C },
    };
    await world.replace(rest);
    const mended = await listing();
    await world.ask("remove");
    await world.replace(rest);
    expect(mended).toEqual(await listing());
  });
});

describe("Other people's rules", () => {
  it("N19: are as they were after every change, tables of nft and rules of iptables", async () => {
    const foreign = `table inet mine {
      set s { type ipv4_addr; flags interval; elements = { 10.0.0.0/8 }; }
      chain forward { type filter hook forward priority 0; policy accept; iifname "cali*" ip saddr @s counter accept; }
    }
    table ip tortie-policy { chain c { }; }`;
    await world.nft(foreign.replaceAll("; }", ";\n}").replaceAll("{ }", "{\n}"));
    for (const program of ["iptables-legacy", "iptables-nft", "ip6tables-nft"]) {
      await world.node.run([`/usr/sbin/${program}`, "-I", "FORWARD", "-i", "cali+", "-j", "ACCEPT"]);
    }
    const all = async () => {
      const { nftables } = JSON.parse(await world.nft("-j", "list", "ruleset"));
      const isOurs = (object: Record<string, { family?: string; table?: string; name?: string }>) => {
        const [[kind, value] = ["", {}]] = Object.entries(object);
        return value.family === "inet" && (kind === "table" ? value.name : value.table) === "tortie-policy";
      };
      const legacy = await world.node.run(["/usr/sbin/iptables-legacy", "-S"]);
      return [nftables.filter((object: Record<string, object>) => !isOurs(object)), legacy.stdout];
    };
    const before = await all();

    await world.replace(POLICY);
    await world.apply({ endpoints: { calia: null }, addresses: { "10.60.0.1": null }, blocks: {} });
    await world.nft("flush", "chain", "inet", "tortie-policy", "forward");
    await world.replace(POLICY);
    expect(await all()).toEqual(before);
    await world.ask("remove");
    expect(await all()).toEqual(before);
    await world.nft("flush ruleset");
  });
});

describe("A process that ends", () => {
  it("leaves the table, and the next one goes on with it", async () => {
    await world.replace(POLICY);
    const before = await world.nft("-a", "list", "ruleset");
    await world.restart();
    expect(await world.nft("-a", "list", "ruleset")).toBe(before);
    expect(await world.replace(POLICY)).toEqual([]);
    expect(await world.nft("-a", "list", "ruleset")).toBe(before);

    await world.restart();
    const endpointsNow = { ...POLICY.endpoints, calib: { addresses: ["10.60.0.2"] } };
    expect(await world.replace({ ...POLICY, endpoints: endpointsNow })).toContain(
      'map to-endpoint has "goto ingress-policy" for calib, not "return"',
    );
  });

  it("leaves nothing of a transaction whose last message the kernel refuses", async () => {
    await world.replace(POLICY);
    const before = await world.nft("-a", "list", "ruleset");
    expect(await world.ask<string>("breakInTheMiddle")).toContain("ENOENT");
    expect(await world.nft("-a", "list", "ruleset")).toBe(before);
    expect(await world.ask("inspect", { policy: POLICY })).toEqual([]);
  });

  it("leaves no half of a policy that is too large for one datagram, whenever it is killed", async () => {
    const names = Array.from({ length: 60 }, (_, at) => at.toString(16).padStart(12, "f"));
    const ports = Array.from({ length: 8 }, (_, at) => `tcp ${80 + 2 * at}`);
    const permissions = Object.fromEntries(names.map((name) => [name, ports]));
    const large: PolicyText = {
      endpoints: Object.fromEntries(
        Array.from({ length: 60 }, (_, at) => [`cali${at}`, { addresses: [`10.60.1.${at}`], ingress: permissions }]),
      ),
      addresses: Object.fromEntries(names.map((name, at) => [`10.61.0.${at}`, name])),
    };
    await world.replace(large);
    const whole = await listing();
    for (const after of [20, 60, 100, 150, 200, 300]) {
      await world.ask("remove");
      const killed = world.replace(large).catch(() => undefined);
      await Bun.sleep(after);
      await world.restart();
      await killed;
      const tables = await world.nft("list", "tables");
      const isHooked = tables.includes("tortie-policy") && (await world.objects("chain")).some(({ hook }) => hook !== undefined);
      if (isHooked) expect(await listing()).toEqual(whole);
      await world.replace(large);
      expect(await listing()).toEqual(whole);
    }
  });
});

it("knows addresses and endpoints that are of no pod here", async () => {
  const [a, b] = world.pods;
  await b.prober.ask("serve", { protocol: "udp", port: 53 });
  await world.replace({
    endpoints: { ...endpoints([b, { ingress: { [A]: ["udp 53"] } }], [a, {}]), califuture: { addresses: [], ingress: {} } },
    addresses: classes([a, A]),
  });
  expect(await reach(a, b, "udp", 53)).toBe("ok");
});
