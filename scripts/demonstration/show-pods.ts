/**
 * Shows what the datastore holds about the pods, real traffic (through the host port, to the outside, against the rate limit), and thirty pods at
 * once with the agent, which is killed in the middle and comes back: nothing is lost or left.
 */

import { join } from "node:path";
import { addressAt, formatAddress, parsePrefix } from "../../lib/addresses/address.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import { Agent } from "../../test/support/agent.ts";
import { localConf } from "../../test/support/conf.ts";
import { Node, type Pod } from "../../test/support/node.ts";
import { readStore } from "../../test/support/store.ts";
import { DemoFailure, type Screen } from "./screen.ts";
import { addressesOf } from "./show-kernel.ts";
import { HOST_PORT, WEB_RATE } from "./tortiectl.ts";
import { NODE4, NODE6, OUTSIDE4, OUTSIDE6, readDemoStore, type World } from "./world.ts";

export async function showEndpoint(world: World, screen: Screen): Promise<void> {
  screen.section("What the datastore records of web");
  const { endpoints } = await readDemoStore(world);
  const endpoint = endpoints.find((each) => each.pod === "web");
  if (endpoint === undefined) throw new DemoFailure(`no endpoint of web: ${JSON.stringify(endpoints)}`);
  const { namespace, pod, node, containerID, interfaceName, mac, ipNetworks } = endpoint;
  const shown = { pod: `${namespace}/${pod}`, node, container: containerID, "host end": interfaceName, MAC: mac, addresses: ipNetworks };
  for (const [key, value] of Object.entries(shown)) screen.text(`${key.padEnd(14)} ${screen.colors.cyan([value].flat().join(", "))}`);
  const [link] = await world.ip(["link", "show", "eth0"], world.web.sandbox);
  const addresses = await addressesOf(world, world.web.sandbox, "eth0");
  const agrees = mac === link?.address && ipNetworks.toSorted().join() === addresses.toSorted().join();
  screen.claim("its MAC and addresses are those of eth0 inside the pod", agrees, { mac, ipNetworks, link: link?.address, addresses });
}

/** Counts ordinals in one line of the map. */
const WIDTH = 32;

export async function showBlocks(world: World, screen: Screen): Promise<void> {
  const { colors } = screen;
  screen.section("The address blocks of this node: one sign an address");
  const { blocks } = await readDemoStore(world);
  for (const block of blocks) {
    const used = usedOrdinals(block);
    screen.text(`${colors.bold(block.cidr)}  owner ${block.affinity?.name ?? "nobody"}, ${used.size} of ${block.allocations.length} used`);
    for (let first = 0; first < block.allocations.length; first += WIDTH) {
      const signs = block.allocations
        .slice(first, first + WIDTH)
        .map((_entry, i) => (used.has(first + i) ? colors.green("■") : colors.dim("·")));
      screen.text(`${String(first).padStart(4)}  ${signs.join("")}`);
    }
    for (const [ordinal, address] of used) screen.text(`${colors.green("■")} ${String(ordinal).padStart(2)}  ${address}`);
  }
  const inBlocks = blocks.flatMap((block) => [...usedOrdinals(block).values()]).toSorted();
  const inPods = [world.web, world.client].map((pod) => addressesOf(world, pod.sandbox, "eth0"));
  const expected = (await Promise.all(inPods)).flat().map((prefix) => prefix.split("/")[0] ?? "");
  screen.claim("the used ones are exactly the addresses of the two pods", inBlocks.join() === expected.toSorted().join(), {
    inBlocks,
    expected,
  });
}

/** Maps ordinals to addresses. */
function usedOrdinals(block: Block): ReadonlyMap<number, string> {
  const prefix = parsePrefix(block.cidr);
  if (prefix === undefined) throw new DemoFailure(`block ${block.cidr} has no CIDR`);
  const used = block.allocations.flatMap((entry, ordinal) => (entry === null ? [] : [ordinal]));
  return new Map(used.map((ordinal) => [ordinal, formatAddress(addressAt(prefix, ordinal))]));
}

const PAGE = "Hello from the pod web.";
const BIG_FILE_BYTES = 8e6;

export async function showHostPort(world: World, screen: Screen): Promise<void> {
  screen.section(`A page of web through port ${HOST_PORT} of the node`);
  await world.serve(world.web.sandbox, 80, { "index.html": `${PAGE}\n`, big: "x".repeat(BIG_FILE_BYTES) });
  const url = `http://${NODE4}:${HOST_PORT}/`;
  for (const [title, where] of [
    ["a host outside", world.outside],
    ["the node itself", undefined],
  ] as const) {
    const page = await curl(world, url, where);
    screen.command(`curl ${url}   # from ${title}`);
    screen.claim(`${title} gets "${page.trim()}"`, page.trim() === PAGE, page);
  }
}

export async function showOutgoing(world: World, screen: Screen): Promise<void> {
  screen.section("The pods reach the outside, which has no route back to them: the node's own address is seen there");
  const script = '#!/bin/sh\nprintf "Content-type: text/plain\\r\\n\\r\\n%s\\n" "$REMOTE_ADDR"\n';
  await world.serve(world.outside, 80, { "cgi-bin/whoami": script });
  for (const [server, node] of [
    [OUTSIDE4, NODE4],
    [`[${OUTSIDE6}]`, NODE6],
  ] as const) {
    const url = `http://${server}/cgi-bin/whoami`;
    const seen = (await curl(world, url, world.client.sandbox))
      .trim()
      .replace(/^\[|\]$/g, "")
      .replace(/^::ffff:/, "");
    screen.command(`ip netns exec client curl ${url}`);
    screen.claim(`the outside answers, and saw ${seen}, the node`, seen === node, seen);
  }
}

export async function showRate(world: World, screen: Screen): Promise<void> {
  const wanted = WEB_RATE / 1e6;
  screen.section(`web may receive ${wanted} Mbit/s, client has no limit`);
  await world.serve(world.client.sandbox, 80, { big: "x".repeat(BIG_FILE_BYTES) });
  const limited = await rateOf(world, world.client.sandbox, world.web.sandbox);
  const free = await rateOf(world, world.web.sandbox, world.client.sandbox);
  const longest = 40;
  for (const [title, rate] of [
    ["client → web", limited],
    ["web → client", free],
  ] as const) {
    const bar = "█".repeat(Math.max(1, Math.min(longest, Math.round((rate / Math.max(limited, free)) * longest))));
    screen.text(`${title}  ${screen.colors.cyan(bar)} ${rate.toFixed(rate < 100 ? 1 : 0)} Mbit/s`);
  }
  // Allows for the first megabit, which is the burst, and some percent for headers.
  screen.claim(`${limited.toFixed(1)} Mbit/s into web: its limit of ${wanted} holds`, limited > wanted * 0.8 && limited < wanted * 1.1, {
    limited,
  });
  screen.claim(`${Math.round(free / wanted)} times as much the other way`, free > wanted * 2, { free });
}

/** Measures megabits of payload a second in one transfer of the big file. */
async function rateOf(world: World, server: Pod, receiver: Pod): Promise<number> {
  const [prefix = ""] = await addressesOf(world, server, "eth0");
  const url = `http://${prefix.split("/")[0]}/big`;
  const speed = await world.run([...CURL, "--output", "/dev/null", "--write-out", "%{speed_download}", url], receiver);
  return (Number(speed) * 8) / 1e6;
}

const CURL = ["curl", "--silent", "--show-error", "--fail", "--max-time", "10"];

async function curl(world: World, url: string, where: Pod | undefined): Promise<string> {
  return world.run([...CURL, url], where);
}

const PODS = 30;

export async function showAgent(screen: Screen): Promise<void> {
  screen.section(`${PODS} pods at once, through the agent, on a node of their own`);
  await using node = await Node.create();
  const pods = await Promise.all(Array.from({ length: PODS }, () => node.addPod()));
  await using agent = await Agent.start(node);
  screen.command(`tortie-node --run-dir ${agent.runDir}`);
  const conf = localConf(node, agent.netconf);
  const warm = await burst(node, "ADD", pods, conf);
  screen.claim(`all ${PODS} are attached`, warm.length === 0, warm);
  const removed = await burst(node, "DEL", pods, conf);
  screen.claim("and detached", removed.length === 0, removed);

  screen.section("The agent is killed in the middle of the next burst, and started again");
  const begun = agent.log.length;
  const running = burst(node, "ADD", pods, conf);
  await agent.until("some pods", () => (agent.log.slice(begun).match(/ADD done/g)?.length ?? 0) > PODS / 3);
  await agent.kill();
  await agent.restart();
  const killed = await running;
  screen.claim("no ADD has failed: the plugins waited for the agent and asked again", killed.length === 0, killed);
  const links = (await node.ip("-j", "link", "show", "type", "veth")).map(({ ifname }) => ifname);
  screen.claim(`the node has exactly ${PODS} links`, links.length === PODS, links);

  await showEndpoints(node, agent, screen);
  const last = await burst(node, "DEL", pods, conf);
  screen.claim("all are detached", last.length === 0, last);
  const left = { ...(await node.leftovers()), ...(await readStore(node)) };
  screen.claim(
    "no link, route, address, handle or endpoint is left",
    Object.values(left).every((list) => list.length === 0),
    left,
  );
}

async function showEndpoints(node: Node, agent: Agent, screen: Screen): Promise<void> {
  const tortiectl = async (...args: string[]) =>
    (await node.run([join(node.binDir, "tortiectl"), "node", ...args, "--socket", agent.socket], { env: {} })).stdout;
  const list: { id: number }[] = JSON.parse(await tortiectl("endpoints", "--json"));
  screen.command("tortiectl node endpoints");
  screen.claim("the agent that came back knows the endpoints that were made by its predecessor", list.length > 0, list);
  const table = (await tortiectl("endpoints")).trimEnd().split("\n");
  for (const line of table.slice(0, SHOWN_ROWS)) screen.text(line);
  screen.text(`… and ${Math.max(0, table.length - SHOWN_ROWS)} more`);
}

/** Counts lines of the table of endpoints, its head included. */
const SHOWN_ROWS = 4;

/** @returns messages of failed calls */
async function burst(node: Node, command: "ADD" | "DEL", pods: readonly Pod[], conf: unknown): Promise<readonly string[]> {
  const runs = await Promise.all(
    pods.map((pod, index) => node.cni(command, { pod, conf, containerId: `demo${index}`, timeoutMs: 120_000 })),
  );
  return runs.flatMap(({ exit, stdout, stderr }) => (exit === 0 ? [] : [stdout || stderr]));
}
