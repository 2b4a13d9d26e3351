/**
 * What a pool says of VXLAN, and what follows when it says something else while traffic runs: three real agents, one API server, two nodes
 * in one subnet and the third behind a router that knows no pods.
 */
import { shared } from "../../support/fixtures.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
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

async function setMode(vxlanMode: Mode): Promise<void> {
  await world.pool("pool4", "10.71.0.0/24", { vxlanMode });
  await world.pool("pool6", "fd71::/112", { vxlanMode });
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
  const pinging = host.run(["/bin/sh", "-c", `${line} & echo $! > /tmp/ping.pid; wait $!`], {}, sandbox);
  await work();
  await host.run(["/bin/sh", "-c", "kill -INT $(cat /tmp/ping.pid)"], {}, sandbox);
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
