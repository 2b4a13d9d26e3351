/** Without Felix beside us: pods reach each other, their node and the outside, in both families (issue: pods must work without it). */
import { addressesOf } from "../../support/cni-result.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node, type Pod } from "../../support/node.ts";
import { addOutside } from "../../support/outside.ts";

const UPLINK = { link: "uplink", host: ["192.0.2.1/24", "2001:db8::1/64"], outside: ["192.0.2.2/24", "2001:db8::2/64"] };

async function ping(node: Node, from: Pod, address: string): Promise<number | null> {
  const family = address.includes(":") ? "-6" : "-4";
  return (await node.run(["ping", family, "-n", "-c", "1", "-W", "3", address], {}, from)).exit;
}

const node = fresh(Node.create);

describe("A pod of the local datastore", () => {
  it("reaches another pod of the node and the outside, by IPv4 and IPv6", async () => {
    const outside = await addOutside(node, UPLINK);
    const conf = localConf(node, { ipam: dualIpam("46") });
    const [one, two] = [await node.addPod(), await node.addPod()];
    await node.cni("ADD", { pod: one, containerId: "one", conf });
    const second = await node.cni("ADD", { pod: two, containerId: "two", conf });

    for (const address of [...addressesOf(second.json), "192.0.2.1", "192.0.2.2", "2001:db8::2"]) {
      expect([address, await ping(node, one, address)]).toEqual([address, 0]);
    }
    expect(await node.sysctl("net/ipv4/ip_forward")).toBe("1");
    expect(await node.sysctl("net/ipv6/conf/all/forwarding")).toBe("1");
    // The pod's address itself is unknown outside: only masquerading can have brought the answer.
    expect(await ping(node, outside, addressesOf(second.json)[0] ?? "")).not.toBe(0);
  });

  it("does not reach the outside when its pool says natOutgoing false", async () => {
    await addOutside(node, UPLINK);
    const pools = [{ cidr: "10.244.0.0/16", natOutgoing: false }];
    const pod = await node.addPod();
    await node.cni("ADD", { pod, conf: localConf(node, { ipam: { type: "tortie-ipam", pools } }) });

    expect(await ping(node, pod, "192.0.2.1")).toBe(0);
    expect(await ping(node, pod, "192.0.2.2")).not.toBe(0);
  });

  it("shares one nftables table with all pods, which tortiectl removes on request", async () => {
    const conf = localConf(node, { ipam: dualIpam("46") });
    await node.cni("ADD", { pod: await node.addPod(), containerId: "one", conf });
    const first = await nftRuleset(node);
    await node.cni("ADD", { pod: await node.addPod(), containerId: "two", conf });

    expect(await nftRuleset(node)).toEqual(first);
    expect(first).toContain("masquerade");
    expect(await node.run([`${node.binDir}/tortiectl`, "nat", "remove"])).toMatchObject({ exit: 0 });
    expect(await nftRuleset(node)).not.toContain("tortie");
  });
});

/** With handles, so that a table that was made again would show. */
async function nftRuleset(node: Node): Promise<string> {
  const run = await node.run(["nft", "-a", "list", "ruleset"]);
  expect(run.exit).toBe(0);
  return run.stdout;
}
