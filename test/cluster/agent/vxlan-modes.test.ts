/**
 * What a pool says of VXLAN, and what follows when it says something else while traffic runs: three real agents, one API server, two nodes
 * in one subnet and the third behind a router that knows no pods.
 */
import { shared } from "../../support/fixtures.ts";
import { LEGACY, startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { type Machine, ThreeNodes, type WorldPod } from "../../support/three-nodes.ts";

type Mode = "Always" | "CrossSubnet" | "Never";

const LIMIT_MS = 60_000;
const wait = (what: string, isSo: () => Promise<boolean>) => until(what, isSo, LIMIT_MS);

let machines: [Machine, Machine, Machine];
let pods: [WorldPod, WorldPod, WorldPod];

const cluster = shared(startCluster);
const world = shared(() => ThreeNodes.create(cluster));
beforeAll(async () => {
  await setMode("Always");
  machines = world.three;
  const [first, second, third] = machines;
  await Promise.all(machines.map((machine) => machine.startAgent()));
  await wait("the MTU", async () => (await Promise.all(machines.map((machine) => machine.mtuFile()))).every((text) => text === "1430"));
  pods = [await world.addPod(first, "pod1"), await world.addPod(second, "pod2"), await world.addPod(third, "pod3")];
  await untilWays(TUNNEL, TUNNEL);
});

async function setMode(vxlanMode: Mode, change: Readonly<Record<string, unknown>> = {}): Promise<void> {
  await world.pool("pool4", "10.71.0.0/24", { vxlanMode, ...change });
  await world.pool("pool6", "fd71::/112", { vxlanMode, ...change });
}

/** Addresses of the tunnel devices of all nodes, in order. */
async function tunnelAddresses(): Promise<readonly string[]> {
  const shown = await Promise.all(machines.map(({ host }) => host.ip("-j", "address", "show", "type", "vxlan", "scope", "global")));
  return shown.flat().flatMap(({ addr_info = [] }) => (addr_info as { local?: string }[]).flatMap(({ local }) => local ?? []));
}

const TUNNEL = /^via \S+ dev vxlan(-v6)?\.calico$/;
const DIRECT = /^via (172\.20\.1\.|fd20:1::)[12] dev eth0$/;
/** By the default route, to a router that knows nothing of pods. */
const NONE = /^via \S+254 dev eth0$/;

/** Of the two nodes that share a subnet to each other, and of those two to the third and back. */
async function untilWays(near: RegExp, far: RegExp): Promise<void> {
  const ways = async (from: WorldPod, to: WorldPod) => [await from.machine.wayTo(to.ipv4), await from.machine.wayTo(to.ipv6)];
  const [one, two, three] = pods;
  await wait(`ways within the subnet ${near}, and across ${far}`, async () => {
    const within = [...(await ways(one, two)), ...(await ways(two, one))];
    const across = [...(await ways(one, three)), ...(await ways(two, three)), ...(await ways(three, one)), ...(await ways(three, two))];
    return within.every((way) => near.test(way)) && across.every((way) => far.test(way));
  });
}

/** @returns packets that were lost while `work` ran, one each 20 ms; those that were still on their way when it ended do not count */
async function lostDuring(target: string, work: () => Promise<void>): Promise<number> {
  const [{ host }] = machines;
  const [{ sandbox }] = pods;
  const line = `exec /usr/bin/ping -n -i 0.02 -W 2 ${target}`;
  const file = `/tmp/ping-${target}.pid`;
  const pinging = host.run(["/bin/sh", "-c", `${line} & echo $! > ${file}; wait $!`], {}, sandbox);
  await work();
  await host.run(["/bin/sh", "-c", `kill -INT $(cat ${file})`], {}, sandbox);
  const answered = new Set([...(await pinging).stdout.matchAll(/bytes from .* icmp_seq=(\d+)/g)].map(([, number]) => Number(number)));
  expect(answered.size).toBeGreaterThan(0);
  return Math.max(...answered) - answered.size;
}

describe("A pool's vxlanMode", () => {
  it("Always leads to every other node through the tunnel, both families, and pods get the tunnel's MTU", async () => {
    expect(await world.unreached(pods)).toEqual([]);
    const [one, two] = pods;
    const [link] = await machines[0].host.podIp(one.sandbox, "-j", "link", "show", "eth0");
    expect(link?.mtu).toBe(1430);
    for (const ip of [two.ipv4, two.ipv6]) expect(await world.ping(one, ip, 1430)).toMatchObject({ isAnswered: true });
    expect((await world.ping(one, two.ipv4, 1431)).output).toMatch(/mtu[=: ]+1430/i);
    for (const machine of machines) expect(await machine.health()).toMatchObject({ state: "ok" });
  });

  it("CrossSubnet, and Always again, is followed without a packet lost, to a node of the subnet and to another", async () => {
    const [, near, far] = pods;
    for (const target of [near.ipv4, near.ipv6, far.ipv4, far.ipv6]) {
      const lost = await lostDuring(target, async () => {
        await setMode("CrossSubnet");
        await untilWays(DIRECT, TUNNEL);
        await setMode("Always");
        await untilWays(TUNNEL, TUNNEL);
      });
      expect({ target, lost }).toEqual({ target, lost: 0 });
    }
    expect(await world.unreached(pods)).toEqual([]);
  });

  it("Never takes the tunnels away: direct routes within the subnet, none across, and back", async () => {
    await setMode("Never");
    await untilWays(DIRECT, NONE);
    await wait("the devices to go", async () => {
      const links = await Promise.all(machines.map(({ host }) => host.ip("-j", "link", "show")));
      return links.flat().every(({ ifname }) => !String(ifname).startsWith("vxlan"));
    });
    const [one, two] = pods;
    expect(await world.unreached([one, two])).toEqual([]);
    await setMode("Always");
    await untilWays(TUNNEL, TUNNEL);
    await wait("all to reach all", async () => (await world.unreached(pods)).length === 0);
  });
});

/** Longer than an agent that releases an address needs. */
const WATCHED_MS = 6_000;

/** Lets traffic run from pod1 to the pods of the other nodes. @returns packets lost, per address */
async function lostToAll(work: () => Promise<void>): Promise<readonly number[]> {
  const [, near, far] = pods;
  let isChanged: Promise<void> | undefined;
  const once = () => (isChanged ??= work().then(() => Bun.sleep(WATCHED_MS)));
  return Promise.all([near.ipv4, near.ipv6, far.ipv4, far.ipv6].map((target) => lostDuring(target, once)));
}

describe("A pool with VXLAN that gives no new addresses", () => {
  it.each([
    ["is disabled", { disabled: true }],
    ["selects other nodes", { nodeSelector: "kubernetes.io/hostname != 'node3'" }],
    ["gives addresses to pods only", { allowedUses: ["Workload"] }],
  ])("X1: and %s keeps tunnels, routes and addresses: no packet is lost", async (_, change) => {
    const before = await tunnelAddresses();
    expect(before).toHaveLength(6);
    expect(await lostToAll(() => setMode("Always", change))).toEqual([0, 0, 0, 0]);
    expect(await tunnelAddresses()).toEqual(before);
    for (const machine of machines) expect(await machine.health()).toMatchObject({ state: "ok" });
    await setMode("Always");
  });

  it("X1: since it is being deleted serves its pods until they are gone, and moves tunnels to another pool without a packet lost", async () => {
    const finalizers = ["example.com/kept"];
    await setMode("Always", { finalizers });
    const before = await tunnelAddresses();
    const lost = await lostToAll(async () => {
      for (const pool of ["pool4", "pool6"]) await cluster.remove(LEGACY, "ippools", pool);
    });
    expect({ lost, addresses: await tunnelAddresses() }).toEqual({ lost: [0, 0, 0, 0], addresses: before });

    const moved = await lostToAll(async () => {
      await world.pool("next4", "10.72.0.0/24", { vxlanMode: "Always" });
      await world.pool("next6", "fd72::/112", { vxlanMode: "Always" });
      await wait("new tunnel addresses", async () => (await tunnelAddresses()).every((ip) => /^(10\.72\.|fd72:)/.test(ip)));
    });
    expect(moved).toEqual([0, 0, 0, 0]);
    await wait("the old addresses to be given back", async () => {
      const blocks = await cluster.list(LEGACY, "ipamblocks");
      const handles = blocks.flatMap(({ spec }) =>
        ((spec?.attributes ?? []) as { handle_id: string }[]).map(({ handle_id: handle }) => handle),
      );
      return handles.filter((handle) => handle.includes("tunnel-addr")).length === 6;
    });
    for (const machine of machines) expect(machine.agent.log).not.toContain("not believed");
    expect(await world.unreached(pods)).toEqual([]);
  });

  it("X1: and is gone altogether still leads its pods' packets", async () => {
    const gone = async () => {
      for (const pool of ["pool4", "pool6"]) {
        const { metadata } = (await cluster.get(LEGACY, "ippools", pool)) ?? {};
        if (metadata !== undefined) await world.pool(pool, pool === "pool4" ? "10.71.0.0/24" : "fd71::/112", { vxlanMode: "Always" });
      }
      for (const pool of ["next4", "next6"]) await cluster.remove(LEGACY, "ippools", pool);
    };
    expect(await lostToAll(gone)).toEqual([0, 0, 0, 0]);
    expect(await world.unreached(pods)).toEqual([]);
  });
});
