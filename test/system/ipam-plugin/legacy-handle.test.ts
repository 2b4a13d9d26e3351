/** DEL by the legacy handle `<namespace>.<pod>`, whose text is chosen by tenants. */
import { localConf, podArgs } from "../../support/conf.ts";
import { Node } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

describe("M1: DEL of a pod whose namespace is called like the network, and whose name is the id of another sandbox", () => {
  it("leaves the address of that sandbox alone, which goes on working", async () => {
    await using node = await Node.create();
    const conf = localConf(node);
    const [victim, attacker] = [await node.addPod(), await node.addPod()];
    expect(await node.cni("ADD", { pod: victim, containerId: "victim-id", args: podArgs("db", "prod"), conf })).toMatchObject({ exit: 0 });
    const args = podArgs("victim-id", "net1");
    expect(await node.cni("ADD", { pod: attacker, containerId: "attacker-id", args, conf })).toMatchObject({ exit: 0 });

    expect(await node.cni("DEL", { pod: attacker, containerId: "attacker-id", args, conf })).toMatchObject({ exit: 0 });

    const { handles, allocated } = await readStore(node);
    expect(handles.map(({ id }) => id)).toEqual(["net1.victim-id"]);
    expect(allocated).toHaveLength(1);
    const [eth0] = await node.podIp(victim, "-j", "-4", "address", "show", "dev", "eth0");
    expect(eth0).toMatchObject({ addr_info: [expect.objectContaining({ local: allocated[0] })] });
  });
});
