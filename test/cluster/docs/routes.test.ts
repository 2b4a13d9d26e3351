/** The commands of docs/reference/routes.md and docs/how-to/connect-nodes.md on a node whose agent holds its routes, with a real API server. */
import { shared } from "../../support/fixtures.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { commandsOf } from "../../support/page.ts";
import { PageHost } from "../../support/page-host.ts";
import { type Machine, ThreeNodes } from "../../support/three-nodes.ts";

const LIMIT_MS = 60_000;

let machine: Machine;
const cluster = shared(startCluster);
const world = shared(() => ThreeNodes.create(cluster));
beforeAll(async () => {
  await world.pool("pool4", "10.71.0.0/24", { vxlanMode: "Always" });
  await world.pool("pool6", "fd71::/112", { vxlanMode: "Always" });
  [machine] = world.three;
  await Promise.all(world.machines.map((one) => one.startAgent()));
});
const host = shared(() => PageHost.create({ env: { TORTIE_SOCK: machine.agent.socket } }, machine.host));
beforeAll(async () => {
  for (const one of world.machines) await world.addPod(one, `pod-${one.name}`);
  await until("the routes to the other nodes", async () => (await tunnels()).every((count) => count === 2), LIMIT_MS);
});

/** How many blocks are reached through the tunnel, each family. */
const tunnels = () =>
  Promise.all(([4, 6] as const).map(async (family) => (await machine.routes(family)).filter((text) => text.endsWith(" onlink")).length));

it("show what the agent has written to the kernel, and its state", async () => {
  const [shown = ""] = commandsOf("reference/routes.md", "## What is written to the kernel");

  const printed = await host.run(shown);

  expect(printed).toMatch(/^10\.71\.0\.\d+\/26 via \S+ dev vxlan\.calico .*onlink/m);
  expect(printed).toMatch(/^fd71::\S+ via \S+ dev vxlan-v6\.calico .*onlink/m);
  expect(printed).toMatch(/ dst 172\.20\.2\.3 .*permanent/);
  expect(printed).toContain("phase ready");
}, 120_000);

it("give the agent's routes a name", async () => {
  const name = 'echo "84 tortie" > /etc/iproute2/rt_protos.d/tortie.conf';

  expect(await host.run(`${name}; ip route show table main`)).toMatch(/ dev vxlan\.calico proto tortie /);
});

it("take away what the agent has left where Felix takes over, and what Felix has left, and the agent goes on", async () => {
  // Routes, and devices of the same names that are not the agent's.
  await host.run(`ip route add blackhole 10.99.0.0/26 proto 80; ip -6 route add blackhole fd99::/122 proto 80
    for device in vxlan.calico vxlan-v6.calico; do ip link set $device alias felix; done`);
  await until("the agent to stand down", async () => (await machine.health()).message.includes("Felix"), LIMIT_MS);
  await host.run("ip route flush proto 84");
  expect(await machine.routes(4)).toEqual([]);
  const [takeAway = ""] = commandsOf("how-to/connect-nodes.md", "## Beside Felix");

  await host.run(takeAway);

  await until("the routes to the other nodes", async () => (await tunnels()).every((count) => count === 2), LIMIT_MS);
  expect(await machine.health()).toMatchObject({ state: "ok" });
  expect(await host.run("ip route show proto 80; ip -6 route show proto 80")).toBe("");
}, 240_000);
