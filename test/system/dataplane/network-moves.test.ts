/** How a block's route follows when the block moves between nodes and ways, as the kernel tells it to `ip monitor`. */
import type { NodeNetwork } from "../../../dataplane/dataplane.ts";
import { address, prefix } from "../../support/addresses.ts";
import { monitored } from "../../support/link-monitor.ts";
import { apply, FAMILIES, host, networkOf, routes, tunnelOf } from "../../support/node-network.ts";

describe.each([4, 6] as const)("A block that moves, IPv%d,", (family) => {
  const { device, peers, block, neighbour } = FAMILIES[family];

  it("goes between tunnel, neighbour and this node in one step each, without a moment between two routes", async () => {
    await using node = await host();
    const destination = prefix(block);
    const gateway = peers[0].address;
    const tunnelled: NodeNetwork = { ...networkOf(family), routes: networkOf(family).routes.slice(0, 2) };
    await apply(node, tunnelled);
    const direct: NodeNetwork = { tunnels: [tunnelOf(family)], routes: [{ kind: "direct", destination, gateway: address(neighbour) }] };
    const blackhole: NodeNetwork = { tunnels: [tunnelOf(family)], routes: [{ kind: "blackhole", destination }] };
    const told = await monitored(node, family, async () => {
      for (const [network, wanted] of [
        [direct, `${block} via ${neighbour} dev eth0`],
        [blackhole, `blackhole ${block}`],
        [direct, `${block} via ${neighbour} dev eth0`],
        [tunnelled, `${block} via ${gateway} dev ${device} onlink`],
      ] as const) {
        const { changed, failed } = await apply(node, network);
        expect(failed).toEqual([]);
        expect(changed).toContainEqual(expect.stringMatching(`^route ${block} .*replaced by ${block} `));
        expect((await routes(node, family)).filter((route) => route.includes(block))).toEqual([wanted]);
      }
    });
    const lines = told.filter((line) => line.includes(block));
    expect(lines).toHaveLength(4);
    expect(lines.filter((line) => line.startsWith("Deleted"))).toEqual([]);
  });

  it("A15: joins a block by its new route before the tunnel that it leaves is removed", async () => {
    await using node = await host();
    const destination = prefix(block);
    await apply(node, networkOf(family));
    const direct: NodeNetwork = { tunnels: [], routes: [{ kind: "direct", destination, gateway: address(neighbour) }] };

    const lines = await monitored(node, family, async () => {
      expect((await apply(node, direct)).failed).toEqual([]);
    });

    expect(await routes(node, family)).toEqual([`${block} via ${neighbour} dev eth0`]);
    const joined = lines.findIndex((line) => line.includes(`${block} via ${neighbour}`));
    const removed = lines.findIndex((line) => line.startsWith("Deleted") && line.includes(`: ${device}:`));
    expect([joined >= 0, removed >= 0]).toEqual([true, true]);
    expect(joined).toBeLessThan(removed);
  });
});
