/** Each pretend machine is judged when its test is over (test/support/node.ts): what a test leaves wrong fails it. */
import { prefixesOf } from "../../support/cni-result.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { Node } from "../../support/node.ts";

/** A node with one container, which is not disposed of; and what its disposal says. */
async function ended(spoil: (node: Node, address: string) => Promise<void>): Promise<string> {
  const node = await Node.create();
  const pod = await node.addPod();
  const { json } = await node.cni("ADD", { pod, conf: localConf(node, { ipam: dualIpam("4") }) });
  await spoil(node, prefixesOf(json)[0] ?? "");
  const verdict = await node[Symbol.asyncDispose]().then(
    () => "nothing",
    ({ message }: Error) => message.replaceAll(node.name, "node"),
  );
  expect(await node.run(["/bin/true"])).not.toMatchObject({ exit: 0 });
  return verdict;
}

describe("A machine whose test is over", () => {
  it("passes with a container that runs, and with one that is gone", async () => {
    expect(await ended(async () => undefined)).toBe("nothing");
    expect(await ended(async (node) => void (await node.cni("DEL", { conf: localConf(node) })))).toBe("nothing");
  });

  it("fails its test, and is removed all the same, when an address is on two pods", async () => {
    const verdict = await ended(async (node, address) => {
      const other = await node.addPod();
      await node.podIp(other, "link", "add", "eth0", "type", "veth");
      await node.podIp(other, "address", "add", address, "dev", "eth0");
    });
    expect(verdict).toMatch(/^the judge finds on node, when its test is over:\n {2}doubled: \S+ is on node-pod1 eth0 and node-pod2 eth0$/);
  });

  it("fails it when a pod bears an address that was released, and a link is there without record", async () => {
    const verdict = await ended(async (node) => {
      await node.run(["/bin/rm", node.datastorePath, `${node.datastorePath}-wal`, `${node.datastorePath}-shm`]);
    });
    expect(verdict.split("\n").map((line) => line.replace(/\d+\.\d+\.\d+\.\d+/, "A"))).toEqual([
      "the judge finds on node, when its test is over:",
      "  not-granted: node-pod1 eth0 of net1.cid1 bears A, granted to nobody",
      '  unasked: link calicid1 "tortie:net1/cid1/eth0" on the host, without record',
    ]);
  });

  it("fails it when something is left of a container whose DEL succeeded", async () => {
    const verdict = await ended(async (node) => {
      node.ledger.begin({ verb: "DEL", network: "net1", containerId: "cid1", ifname: "eth0" })(true);
    });
    expect(verdict).toContain("not-released: endpoint of cid1 eth0\n  not-released: link of net1.cid1 eth0");
  });

  it("fails it when it cannot be looked at", async () => {
    const verdict = await ended(
      async (node) => void (await node.run(["/bin/sh", "-c", `echo "SQLite format 3" | tr "\\n" "\\0" > ${node.dir}/other.db`])),
    );
    expect(verdict).toMatch(/unseen: .*not a database/);
  });

  it("passes with what a test has excused, and with nothing else", async () => {
    const spoil = async (node: Node) => {
      node.excuse("the test takes the store away", "not-granted");
      await node.run(["/bin/rm", node.datastorePath, `${node.datastorePath}-wal`, `${node.datastorePath}-shm`]);
    };
    expect(await ended(spoil)).toMatch(/over:\n {2}unasked: [^\n]*$/);
    expect(
      await ended(async (node) => {
        node.excuse("links neither", "unasked");
        await spoil(node);
      }),
    ).toBe("nothing");
  });
});
