import { probe } from "../../support/dataplane-probe.ts";
import { Node } from "../../support/node.ts";

describe("A live sign of Felix", () => {
  it("S15: is its chains, not a route or a device that it left", async () => {
    await using node = await Node.create();
    const look = () => probe(node, `(await import("${process.cwd()}/dataplane/linux/host-facts.ts")).hasFelixChains(host)`);
    await node.ip("link", "add", "vxlan.calico", "type", "vxlan", "id", "4096", "dstport", "4789");
    await node.ip("link", "set", "vxlan.calico", "up");
    await node.ip("route", "add", "10.9.2.0/26", "dev", "vxlan.calico", "proto", "80");
    await node.run(["nft", "add table ip filter; add chain ip filter FORWARD"]);
    expect(await look()).toEqual({ value: false });

    await node.run(["nft", "add chain ip filter cali-FORWARD"]);
    expect(await look()).toEqual({ value: true });
  });
});
