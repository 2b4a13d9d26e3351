/** Addresses that are asked for by name: all of them, or what the call took is given back, and nothing else. */
import { assignRequested } from "../../../ipam-plugin/assign.ts";
import { ownerAttributes, workloadOf } from "../../../ipam-plugin/workload.ts";
import { address } from "../../support/addresses.ts";
import { fresh } from "../../support/fixtures.ts";
import { IpamNode } from "../../support/ipam-node.ts";

const CONF = { ipam: { pools: [{ cidr: "10.40.0.0/24" }, { cidr: "fd80:40::/64" }] } };
const OWNER = { type: "host", name: "node-a" } as const;
const MINE = address("10.40.0.9");
const node = fresh(() => new IpamNode(CONF));

describe("an ADD of two addresses", () => {
  it("takes both for a container that should hold nothing, though it holds the first when the second is taken", async () => {
    const added = await node.add({ conf: { runtimeConfig: { ips: ["10.40.0.9", "fd80:40::9"] } } }, { mustBeNew: true });
    expect(added.addresses).toHaveLength(2);
    expect(await node.allocated()).toEqual({ "net1.c1": ["10.40.0.9", "fd80:40::9"] });
  });

  it("takes none when the second is another container's", async () => {
    await node.add({ container: "other", conf: { runtimeConfig: { ips: ["fd80:40::9"] } } });
    const adding = node.add({ conf: { runtimeConfig: { ips: ["10.40.0.9", "fd80:40::9"] } } });
    await expect(adding).rejects.toMatchObject({ word: "address-taken" });
    expect(await node.allocated()).toEqual({ "net1.other": ["fd80:40::9"] });
  });

  it("keeps the one that its virtual machine had before, of the same pod too, when it fails over the other", async () => {
    const clock = { nowMs: () => 1_787_405_600_000, nowNs: () => 1_787_405_600_000_000_000n };
    await using node = new IpamNode(CONF, { clock });
    await node.add({ container: "other", conf: { runtimeConfig: { ips: ["fd80:40::9"] } } });
    const handle = "net1.vmi.shop.vm";
    const machine = { ...workloadOf(node.call("ADD")), handle, machineAttributes: { "vmi-name": "vm" } };
    const attributes = ownerAttributes(machine, clock.nowNs());
    await node.ipam.allocator.assignIp({ address: MINE, handle, attributes, owner: OWNER });
    const asked = { workload: machine, mustBeNew: false };

    const assigning = assignRequested([MINE, address("fd80:40::9")], asked, node.call("ADD"), node.ipam);

    await expect(assigning).rejects.toMatchObject({ word: "address-taken" });
    expect(await node.allocated()).toMatchObject({ [handle]: ["10.40.0.9"] });
  });

  it.each([
    ["asked for", "IP=10.40.0.9"],
    ["chosen", ""],
  ])("that is given back late leaves the address, %s, with the same container's next ADD", async (_, args) => {
    const first = await node.add({ args });
    await node.del();
    await node.add({ args: "IP=10.40.0.9" });
    const held = await node.allocated();
    await first.giveBack();
    expect(await node.allocated()).toEqual(held);
  });
});
