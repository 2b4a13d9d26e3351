/**
 * Routes between nodes, with real agents on three nodes and one API server: two nodes share a subnet, the third is behind a router that
 * knows nothing of pods. Judged by packets, by `ip`, and by what other nodes read of a Node object.
 */
import { join } from "node:path";
import { ControllerTerm } from "../../support/controller-term.ts";
import { shared } from "../../support/fixtures.ts";
import { LEGACY, startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR, Node } from "../../support/node.ts";
import { type Machine, NAMESPACE, ThreeNodes, type WorldPod } from "../../support/three-nodes.ts";
import { nameOf, ordinals, putBlock } from "../ipam-plugin/calico-objects.ts";

const LIMIT_MS = 60_000;
const wait = (what: string, isSo: () => Promise<boolean>) => until(what, isSo, LIMIT_MS);

let world: ThreeNodes;
let machines: [Machine, Machine, Machine];
let pods: [WorldPod, WorldPod, WorldPod];

afterAll(() => world?.[Symbol.asyncDispose]());
const cluster = shared(startCluster);
beforeAll(async () => {
  world = await ThreeNodes.create(cluster);
  await world.pool("pool4", "10.70.0.0/24", { vxlanMode: "CrossSubnet" });
  await world.pool("pool6", "fd70::/112", { vxlanMode: "CrossSubnet" });
  machines = world.three;
  const [first, second, third] = machines;
  // A route of somebody else, which must outlive all of this.
  await first.host.ip("route", "add", "10.200.0.0/16", "via", "172.20.1.254", "proto", "static");
  await Promise.all(machines.map((machine) => machine.startAgent()));
  await wait("the tunnel addresses", async () => {
    const all = await Promise.all(machines.map((machine) => machine.annotations()));
    return all.every((one) => "projectcalico.org/IPv4VXLANTunnelAddr" in one && "projectcalico.org/IPv6VXLANTunnelAddr" in one);
  });
  await wait("the MTU", async () => (await Promise.all(machines.map((machine) => machine.mtuFile()))).every((text) => text === "1430"));
  pods = [await world.addPod(first, "pod1"), await world.addPod(second, "pod2"), await world.addPod(third, "pod3")];
  await wait("all routes", async () => (await Promise.all(pods.map(ownWays))).flat().every((way) => !way.includes("254")));
});

/** The ways from a pod's node to the pods of the others. */
function ownWays({ machine }: WorldPod): Promise<readonly string[]> {
  const others = pods.filter((pod) => pod.machine !== machine);
  return Promise.all(others.flatMap(({ ipv4, ipv6 }) => [machine.wayTo(ipv4), machine.wayTo(ipv6)]));
}

async function expectAllReached(): Promise<void> {
  expect(await world.unreached(pods)).toEqual([]);
}

/** What Felix would make on a node for one peer, by iproute2: its MAC follows from its name, the peer's from that one's name. */
async function setUpAsFelixDoes(host: Node, end: string, pod: string, peer: Machine): Promise<void> {
  const mac = (name: string) => {
    const digest = new Bun.CryptoHasher("sha1").update(name).digest("hex");
    return `66${[0, 2, 4, 6, 8].map((at) => `:${digest.slice(at, at + 2)}`).join("")}`;
  };
  const tunnel = (await peer.annotations())["projectcalico.org/IPv4VXLANTunnelAddr"] ?? "";
  const settings = ["id", "4096", "dev", "eth0", "local", "172.20.2.4", "dstport", "4789", "nolearning"];
  await host.ip("link", "add", "vxlan.calico", "address", mac("calico4"), "type", "vxlan", ...settings);
  await host.ip("address", "add", `${end}/32`, "dev", "vxlan.calico");
  await host.ip("link", "set", "vxlan.calico", "up");
  await host.ip("neigh", "add", tunnel, "lladdr", mac(peer.name), "dev", "vxlan.calico", "nud", "permanent");
  await host.run(["/usr/sbin/bridge", "fdb", "add", mac(peer.name), "dev", "vxlan.calico", "dst", peer.ipv4, "self", "permanent"]);
  const block = (await peer.routes(4)).find((route) => route.startsWith("blackhole "))?.slice("blackhole ".length) ?? "";
  await host.ip("route", "add", block, "via", tunnel, "dev", "vxlan.calico", "onlink", "proto", "80");
  // In the place of a pod.
  await host.ip("address", "add", `${pod}/32`, "dev", "lo");
}

const isAnswered = (answer: { readonly isAnswered: boolean }) => answer.isAnswered;

/** Handles of the addresses that are a node's, and "block" for each of its blocks, in order. */
async function heldBy(node: string): Promise<string[]> {
  const blocks = await cluster.list(LEGACY, "ipamblocks");
  return blocks
    .flatMap(({ spec }) => {
      const { affinity, attributes } = spec as { affinity?: string; attributes: { handle_id?: string; secondary?: { node?: string } }[] };
      const handles = attributes.filter(({ secondary }) => secondary?.node === node).map(({ handle_id: handle = "" }) => handle);
      return [...(affinity === `host:${node}` ? ["block"] : []), ...handles];
    })
    .sort();
}

describe("Three nodes", () => {
  it("have pods that reach each other, both families: directly within the subnet, through VXLAN across", async () => {
    await expectAllReached();

    const [pod1, pod2, pod3] = pods;
    expect(await machines[0].wayTo(pod2.ipv4)).toBe("via 172.20.1.2 dev eth0");
    expect(await machines[0].wayTo(pod2.ipv6)).toBe("via fd20:1::2 dev eth0");
    expect(await machines[0].wayTo(pod3.ipv4)).toMatch(/^via 10\.70\.0\.\d+ dev vxlan\.calico$/);
    expect(await machines[0].wayTo(pod3.ipv6)).toMatch(/^via fd70::\S+ dev vxlan-v6\.calico$/);
    expect(await machines[2].wayTo(pod1.ipv4)).toMatch(/ dev vxlan\.calico$/);
    for (const { ipv4, ipv6 } of [pod2, pod3]) {
      for (const ip of [ipv4, ipv6]) expect(await world.ping(pod1, ip)).toMatchObject({ isAnswered: true });
    }
    expect(await machines[0].health()).toMatchObject({ state: "ok" });
  });

  it("have routes that tortiectl shows as the kernel has them, with the node at the other end of each", async () => {
    const [{ host }, second, third] = machines;
    const { routes } = JSON.parse((await host.run([join(BIN_DIR, "tortiectl"), "routes", "show", "--json"])).stdout);
    const inKernel = [
      ...(await host.ip("-j", "-4", "route", "show", "proto", "84")),
      ...(await host.ip("-j", "-6", "route", "show", "proto", "84")),
    ];
    // ip leaves the length of a single address out.
    const destinations = (of: readonly { readonly [key: string]: unknown }[], key: string) =>
      of.map((route) => String(route[key]).replace(/\/(32|128)$/, "")).sort();

    expect(destinations(routes, "destination")).toEqual(destinations(inKernel, "dst"));
    for (const [family, tunnel] of [
      ["ipv4", "vxlan.calico"],
      ["ipv6", "vxlan-v6.calico"],
    ] as const) {
      const direct = { kind: "direct", gateway: second[family], device: "eth0", peer: second[family] };
      expect(routes).toContainEqual(expect.objectContaining(direct));
      expect(routes).toContainEqual(expect.objectContaining({ kind: "vxlan", device: tunnel, peer: third[family] }));
    }
    expect(routes).toContainEqual(expect.objectContaining({ kind: "blackhole", gateway: null, device: null, peer: null }));
  });

  it("say on their Node objects what Calico's nodes need to reach them", async () => {
    for (const { annotations, ipv4, ipv6, host } of machines.map((one) => ({ ...one, annotations: () => one.annotations() }))) {
      const found = await annotations();
      expect(found["projectcalico.org/IPv4Address"]).toBe(`${ipv4}/24`);
      expect(found["projectcalico.org/IPv6Address"]).toBe(`${ipv6}/64`);
      const devices = [
        ["vxlan.calico", found["projectcalico.org/IPv4VXLANTunnelAddr"]],
        ["vxlan-v6.calico", found["projectcalico.org/IPv6VXLANTunnelAddr"]],
      ];
      for (const [device = "", address] of devices) {
        const [{ addr_info = [] } = {}] = await host.ip("-j", "address", "show", "dev", device, "scope", "global");
        expect((addr_info as { local?: string }[]).flatMap(({ local }) => local ?? [])).toEqual([address]);
      }
    }
    const blocks = await cluster.list(LEGACY, "ipamblocks");
    const attributes = blocks.flatMap(({ spec }) => spec?.attributes as { handle_id: string; secondary: unknown }[]);
    expect(
      attributes.filter(({ handle_id: handle }) => handle.includes("tunnel")).sort((a, b) => (a.handle_id < b.handle_id ? -1 : 1)),
    ).toEqual(
      [
        ["vxlan-tunnel-addr-", "vxlanTunnelAddress"],
        ["vxlan-v6-tunnel-addr-", "vxlanV6TunnelAddress"],
      ].flatMap(([handle, type]) => machines.map(({ name }) => ({ handle_id: handle + name, secondary: { node: name, type } }))),
    );
  });

  it("give pods the MTU that fits, and refuse a larger packet with the right size", async () => {
    const [pod1, , pod3] = pods;
    const [link] = await machines[0].host.podIp(pod1.sandbox, "-j", "link", "show", "eth0");
    expect(link?.mtu).toBe(1430);
    for (const ip of [pod3.ipv4, pod3.ipv6]) expect(await world.ping(pod1, ip, 1430)).toMatchObject({ isAnswered: true });
    expect((await world.ping(pod1, pod3.ipv4, 1431)).output).toMatch(/mtu[=: ]+1430/i);

    // Pods whose configuration names an MTU of its own are told by their node what the tunnel takes.
    const large = await world.addPod(machines[0], "large", { mtu: 1500 });
    const far = await world.addPod(machines[2], "far", { mtu: 1500 });
    expect(await world.ping(large, far.ipv4, 1450)).toMatchObject({ isAnswered: true });
    expect((await world.ping(large, far.ipv4, 1451)).output).toMatch(/mtu[=: ]+1450/i);
    expect(await world.ping(large, far.ipv6, 1430)).toMatchObject({ isAnswered: true });
    expect((await world.ping(large, far.ipv6, 1431)).output).toMatch(/mtu[=: ]+1430/i);
    for (const pod of [large, far]) await world.removePod(pod);
  });

  it("end what is sent to free addresses of their own blocks, and leave other programs' routes alone", async () => {
    for (const family of [4, 6] as const) {
      const routes = await machines[0].routes(family);
      expect(routes.filter((route) => route.startsWith("blackhole "))).toHaveLength(1);
    }
    expect(await machines[0].wayTo("10.200.0.1")).toBe("via 172.20.1.254 dev eth0");
  });

  it("let pods reach the world with their node's address where the pool says so", async () => {
    for (const pod of pods) {
      // The router has no route to any pod.
      expect(await world.ping(pod, "172.20.2.254")).toMatchObject({ isAnswered: true });
      expect(await world.ping(pod, "fd20:2::254")).toMatchObject({ isAnswered: true });
    }
  });

  it("keep pods from sending with addresses that are not theirs, and put that guard back", async () => {
    const [{ host }] = machines;
    const [pod, victim, far] = pods;
    const heard = async () => {
      const { stdout } = await far.machine.host.run(["/bin/cat", "/proc/self/net/snmp", "/proc/self/net/snmp6"], {}, far.sandbox);
      return [/^Icmp: (\d+)/m, /^Icmp6InEchos\s+(\d+)/m].map((counter) => Number(counter.exec(stdout)?.[1]));
    };
    const spoof = async () => {
      const before = await heard();
      await Promise.all([world.ping(pod, far.ipv4, 84, victim.ipv4), world.ping(pod, far.ipv6, 84, victim.ipv6)]);
      const after = await heard();
      return after.map((count, at) => count - (before[at] ?? 0));
    };
    await host.podIp(pod.sandbox, "address", "add", victim.ipv4, "dev", "eth0");
    await host.podIp(pod.sandbox, "address", "add", victim.ipv6, "dev", "eth0", "nodad");

    expect(await spoof()).toEqual([0, 0]);
    await host.run(["/usr/sbin/nft", "delete", "table", "inet", "tortie"]);
    await wait("the guard", async () => (await host.run(["/usr/sbin/nft", "list", "chain", "inet", "tortie", "prerouting"])).exit === 0);
    expect(await spoof()).toEqual([0, 0]);
    await host.run(["/usr/sbin/nft", "flush", "chain", "inet", "tortie", "prerouting"]);
    expect(await spoof()).toEqual([1, 1]);

    await host.run(["/usr/sbin/nft", "delete", "table", "inet", "tortie"]);
    for (const address of [victim.ipv4, victim.ipv6]) await host.podIp(pod.sandbox, "address", "del", address, "dev", "eth0");
    await wait("the guard", async () => (await host.run(["/usr/sbin/nft", "list", "chain", "inet", "tortie", "prerouting"])).exit === 0);
  });

  it("mend a route, a neighbour and a device that somebody takes away", async () => {
    const { host } = machines[0];
    const before = await machines[0].routes(4);
    await host.ip("route", "flush", "proto", "84");
    await wait("the routes", async () => Bun.deepEquals(await machines[0].routes(4), before));
    await host.ip("neigh", "flush", "dev", "vxlan.calico", "nud", "permanent");
    await host.run(["/usr/sbin/bridge", "fdb", "flush", "dev", "vxlan.calico"]);
    await host.ip("link", "del", "vxlan-v6.calico");
    await wait("the device", async () => (await world.ping(pods[0], pods[2].ipv6)).isAnswered);
    await wait("the neighbours", async () => (await world.ping(pods[0], pods[2].ipv4)).isAnswered);
    await expectAllReached();
  });

  it("lead to an address that is used on another node than its block's", async () => {
    const [pod1, , pod3] = pods;
    const borrowed = `${pod1.ipv4.slice(0, pod1.ipv4.lastIndexOf("."))}.${(Number(pod1.ipv4.split(".")[3]) & ~63) + 60}`;
    const annotations = { "cni.projectcalico.org/ipAddrs": JSON.stringify([borrowed]) };
    const away = await world.addPod(machines[1], "away", {}, { annotations });
    expect(away.ipv4).toBe(borrowed);

    await wait("the route on the third node", async () => (await machines[2].routes(4)).some((route) => route.startsWith(`${borrowed} `)));
    await wait("the route on the owner", async () => (await machines[0].wayTo(borrowed)) === "via 172.20.1.2 dev eth0");
    for (const from of [pod1, pod3]) expect(await world.connect(from, borrowed)).toBe("away");

    await world.removePod(away);
    for (const machine of [machines[0], machines[2]]) {
      await wait("the end of the route", async () => !(await machine.routes(4)).some((route) => route.startsWith(`${borrowed} `)));
    }
  });

  it("keep routes and traffic while an agent is dead, and change nothing when it is back", async () => {
    const before = [await machines[0].routes(4), await machines[0].routes(6)];
    await machines[0].agent.kill();
    await expectAllReached();
    expect([await machines[0].routes(4), await machines[0].routes(6)]).toEqual(before);

    const said = machines[0].agent.log.length;
    await machines[0].agent.restart();
    await wait("the agent's view", async () => (await machines[0].health()).state === "ok");

    expect([await machines[0].routes(4), await machines[0].routes(6)]).toEqual(before);
    expect(machines[0].agent.log.slice(said)).not.toContain("routes between nodes: ");
    await expectAllReached();
  });

  it("stand down while there are routes of Felix, say so, and go on when they are gone", async () => {
    const [first] = machines;
    const before = await first.routes(4);
    await first.host.ip("route", "add", "blackhole", "10.99.0.0/26", "proto", "80");
    await wait("the word of it", async () => (await first.health()).message.includes("Felix"));
    await first.host.ip("route", "flush", "proto", "84");
    expect((await first.health()).message).toContain("1 routes of protocol 80");
    expect(await first.routes(4)).toEqual([]);

    await first.host.ip("route", "del", "blackhole", "10.99.0.0/26");

    await wait("the routes", async () => Bun.deepEquals(await first.routes(4), before));
  });

  it("keep all routes while the API server is away, and mend what was taken away meanwhile when it is back (invariant 14)", async () => {
    const [first] = machines;
    const before = await first.routes(4);
    await cluster.stopApiServer();
    await wait("the word of it", async () => (await first.health()).message.startsWith("nothing is changed: "));
    const [one = ""] = before.filter((route) => route.includes("vxlan"));
    await first.host.ip("route", "del", one.split(" ")[0] ?? "", "proto", "84");
    const left = before.filter((route) => route !== one);
    expect(await first.routes(4)).toEqual(left);
    expect(await world.connect(pods[0], pods[1].ipv4)).toBe("pod2");

    await cluster.startApiServer();

    await wait("the route", async () => Bun.deepEquals(await first.routes(4), before));
    await expectAllReached();
  });

  it("talk to a node that is set up as Felix does it, here by iproute2, with a MAC that nobody has told it", async () => {
    await using calico = await Node.create();
    await world.attach(calico, "calico4", { subnet: 2, host: 4 });
    const taken = (await cluster.list(LEGACY, "ipamblocks")).map(({ spec }) => spec?.cidr);
    const first = [0, 64, 128, 192].find((start) => !taken.includes(`10.70.0.${start}/26`)) ?? 0;
    const [end, pod] = [`10.70.0.${first}`, `10.70.0.${first + 9}`];
    await setUpAsFelixDoes(calico, end, pod, machines[0]);
    const tunnel = { handle_id: "vxlan-tunnel-addr-calico4", secondary: { node: "calico4", type: "vxlanTunnelAddress" } };
    await putBlock({ cluster, group: LEGACY }, `${end}/26`, { affinity: "host:calico4", ...ordinals({ 0: 0 }), attributes: [tunnel] });
    const annotations = { "projectcalico.org/IPv4Address": "172.20.2.4/24", "projectcalico.org/IPv4VXLANTunnelAddr": end };
    await cluster.apply({ apiVersion: "v1", kind: "Node", metadata: { name: "calico4", annotations }, spec: {} });

    await wait("the way there", async () => (await machines[0].wayTo(pod)) === `via ${end} dev vxlan.calico`);
    expect(await world.ping(pods[0], pod)).toMatchObject({ isAnswered: true });
    await wait("the way within the subnet", async () => (await machines[2].wayTo(pod)) === "via 172.20.2.4 dev eth0");

    await cluster.remove("v1", "nodes", "calico4");
    await cluster.remove(LEGACY, "ipamblocks", nameOf(`${end}/26`));
    await wait("the end of the way", async () => !(await machines[0].routes(4)).some((route) => route.includes(`via ${end} `)));
  });

  it("S1: believe no tunnel address and no MAC that a node names without having it, and say so", async () => {
    const [first, , third] = machines;
    const kernel = () =>
      Promise.all([
        first.routes(4),
        first.routes(6),
        ...["vxlan.calico", "vxlan-v6.calico"].map((device) => first.host.ip("-j", "neigh", "show", "dev", device)),
        first.host.run(["/usr/sbin/bridge", "-j", "fdb", "show", "dev", "vxlan.calico"]).then(({ stdout }) => JSON.parse(stdout)),
      ]);
    const before = await kernel();
    const annotations = {
      "projectcalico.org/IPv4Address": "172.20.1.66/24",
      "projectcalico.org/IPv4VXLANTunnelAddr": (await third.annotations())["projectcalico.org/IPv4VXLANTunnelAddr"] ?? "",
      "projectcalico.org/IPv6VXLANTunnelAddr": "2001:db8::53",
      "projectcalico.org/VXLANTunnelMACAddr": "66:00:00:00:00:01",
    };
    await cluster.apply({ apiVersion: "v1", kind: "Node", metadata: { name: "evil", annotations }, spec: {} });

    await wait("a word about it", async () => {
      const { message } = await first.health();
      return message.includes("node evil names 2001:db8::53 as its end of the tunnel") && message.includes("node evil names 10.70.0.");
    });
    expect(await kernel()).toEqual(before);
    await cluster.remove("v1", "nodes", "evil");
    await wait("the end of it", async () => (await first.health()).state === "ok");
  });

  it("lose the routes to a node whose object is deleted, and have them again when it comes back", async () => {
    const [first, , third] = machines;
    const before = await first.routes(4);
    await cluster.remove("v1", "nodes", third.name);
    await wait("the routes to go", async () => (await first.routes(4)).every((route) => !route.includes("vxlan")));
    expect(await first.wayTo(pods[1].ipv4)).toBe("via 172.20.1.2 dev eth0");

    await third.register();

    await wait("the routes to come back", async () => Bun.deepEquals(await first.routes(4), before));
    await wait("the traffic", async () => (await world.ping(pods[0], pods[2].ipv6)).isAnswered);
    await expectAllReached();
  });

  it("give back what a dead node held after the grace period and never before, and have it again when it comes back", async () => {
    const [first, , third] = machines;
    const [pod1, , pod3] = pods;
    const before = await heldBy(third.name);
    expect(before).toContainEqual("block");
    expect(before).toContainEqual("vxlan-tunnel-addr-node3");
    {
      await using controller = await ControllerTerm.begin(cluster);
      await third.agent.kill();
      await cluster.remove("v1", "nodes", third.name);
      // As the cluster's own collector does with pods of nodes that are gone.
      await cluster.remove("v1", "pods", pod3.name, NAMESPACE);
      await controller.sees("the node gone", (view) => !view.hasNode(third.name) && view.pod(NAMESPACE, pod3.name) === undefined);
      await wait("the routes to go", async () => (await first.routes(4)).every((route) => !route.includes("vxlan")));

      await controller.minutes(5);
      expect(await heldBy(third.name)).toEqual(before);
      await controller.minutes(2);
      expect(await heldBy(third.name)).toEqual([]);
    }

    await third.register();
    await third.agent.restart();
    await world.removePod(pod3);
    const again = await world.addPod(third, "again");

    pods = [pods[0], pods[1], again];
    await wait("the traffic", async () =>
      (await Promise.all([again.ipv4, again.ipv6].map((ip) => world.ping(pod1, ip)))).every(isAnswered),
    );
    await expectAllReached();
    expect(await heldBy(third.name)).toContainEqual("vxlan-tunnel-addr-node3");
  });
});

describe("Three nodes with ranges of their own", () => {
  it("have pods that reach each other: in host scope every node knows the ranges of all", async () => {
    await world[Symbol.asyncDispose]();
    world = await ThreeNodes.create(cluster);
    machines = world.three;
    await Promise.all(machines.map((machine) => machine.startAgent({ args: ["--ipam", "host-scope"] })));
    const conf = { ipam: { type: "tortie-host-scope" } };
    await wait("the routes", async () => (await Promise.all(machines.map((one) => one.health()))).every(({ state }) => state === "ok"));
    const [first, second, third] = machines;
    pods = [await world.addPod(first, "pod1", conf), await world.addPod(second, "pod2", conf), await world.addPod(third, "pod3", conf)];

    await wait("the way to the third", async () => / dev vxlan\.calico$/.test(await first.wayTo(pods[2].ipv4)));
    await wait("the way back", async () => / dev vxlan-v6\.calico$/.test(await third.wayTo(pods[0].ipv6)));

    expect(pods.map(({ ipv4 }) => ipv4.slice(0, 8))).toEqual(["10.80.1.", "10.80.2.", "10.80.3."]);
    expect(await first.wayTo(pods[1].ipv4)).toBe("via 172.20.1.2 dev eth0");
    await expectAllReached();
    for (const pod of pods) expect(await world.ping(pod, "172.20.2.254")).toMatchObject({ isAnswered: true });
  });

  it("S1: believe no range that a node says it has and that is another's, and say so", async () => {
    const [first] = machines;
    const before = await first.routes(4);
    const claims = ["0.0.0.0/1", "169.254.169.254/32", "10.80.2.0/25", "10.80.1.0/24", "172.20.1.0/24"];
    for (const [index, range] of claims.entries()) {
      const annotations = { "projectcalico.org/IPv4Address": `172.20.1.${66 + index}/24`, "network.tortie.dev/ipv4-pod-cidr": range };
      await cluster.apply({ apiVersion: "v1", kind: "Node", metadata: { name: `evil${index}`, annotations }, spec: {} });
    }
    await wait("a word about each", async () => {
      const { message } = await first.health();
      return claims.every((range, index) => message.includes(`node evil${index} says that ${range} is its range`));
    });
    expect(await first.routes(4)).toEqual(before);

    // One that is nobody else's leads there all the same.
    const annotations = { "projectcalico.org/IPv4Address": "172.20.1.80/24", "network.tortie.dev/ipv4-pod-cidr": "10.81.0.0/24" };
    await cluster.apply({ apiVersion: "v1", kind: "Node", metadata: { name: "good", annotations }, spec: {} });
    await wait("its route", async () => (await first.routes(4)).includes("10.81.0.0/24 via 172.20.1.80 dev eth0"));
  });
});
