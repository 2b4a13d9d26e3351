import { fresh } from "../../support/fixtures.ts";
import { IpamNode } from "../../support/ipam-node.ts";

const CONF = { ipam: { pools: [{ cidr: "10.40.0.0/24" }] } };
const node = fresh(() => new IpamNode(CONF));

function previous(...addresses: string[]) {
  return { conf: { prevResult: { cniVersion: "1.0.0", ips: addresses.map((address) => ({ address })) } } };
}

describe("IPAM CHECK", () => {
  it("passes while every address of prevResult is the container's, whatever prefix length it has", async () => {
    const [first = ""] = await node.addresses();
    await node.check(previous(first));
    await node.check(previous(first.replace("/26", "/32")));
    const [second = ""] = await node.addresses();
    await node.check(previous(first, second));
  });

  it("names each address that is not the container's any more", async () => {
    const [own = ""] = await node.addresses();
    const [other = ""] = await node.addresses({ container: "c2" });
    await expect(node.check(previous(own, other, "10.40.0.200/32"))).rejects.toMatchObject({
      word: "check-failed",
      message: expect.stringContaining(`${other}, 10.40.0.200/32`),
    });
    await node.del();
    await expect(node.check(previous(own))).rejects.toMatchObject({ word: "check-failed" });
  });

  it("changes nothing and needs no lock", async () => {
    await using node = new IpamNode(CONF, {
      lock: () => {
        throw new Error("locked");
      },
    });
    const [own = ""] = await node.addresses();
    node.logged.length = 0;
    const before = await node.datastore.blocks.list();
    await node.check(previous(own));
    expect(await node.datastore.blocks.list()).toEqual(before);
    expect(node.logged).toEqual([]);
  });

  it("knows a container without prevResult by its handle only", async () => {
    await expect(node.check()).rejects.toMatchObject({ word: "container-unknown", code: 3 });
    await node.add();
    await node.check();
  });
});
