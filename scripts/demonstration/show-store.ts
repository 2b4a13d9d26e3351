/** Shows what the datastore holds about the pods. */
import { addressAt, formatAddress, parsePrefix } from "../../lib/addresses/address.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import { DemoFailure, type Screen } from "./screen.ts";
import { addressesOf } from "./show-kernel.ts";
import { readDemoStore } from "./store.ts";
import type { World } from "./world.ts";

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
