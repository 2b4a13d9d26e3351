/** Networks of two local datastores on one node: what the node holds for the pods of one does not depend on calls for the other. */
import { localConf } from "../../support/conf.ts";
import { Node, type Pod } from "../../support/node.ts";
import { addOutside } from "../../support/outside.ts";

describe("Two local datastores on one node", () => {
  it("P1: both keep masquerading and the guard of sources, whichever was added last", async () => {
    await using node = await Node.create();
    await addOutside(node, { link: "uplink", host: ["192.0.2.1/24"], outside: ["192.0.2.2/24"] });
    const confOf = (name: string, cidr: string) =>
      localConf(node, { name, datastore_path: `${node.dir}/${name}.db`, ipam: { type: "tortie-ipam", pools: [{ cidr }] } });
    const [one, two] = [await node.addPod(), await node.addPod()];
    await node.cni("ADD", { pod: one, containerId: "one", conf: confOf("first", "10.71.0.0/16") });
    await node.cni("ADD", { pod: two, containerId: "two", conf: confOf("second", "10.72.0.0/16") });

    const { stdout } = await node.run(["nft", "list", "table", "inet", "tortie"]);
    for (const cidr of ["10.71.0.0/16", "10.72.0.0/16"]) expect(stdout).toContain(cidr);
    const ping = async (pod: Pod, ...options: string[]) =>
      (await node.run(["/usr/bin/ping", "-n", "-c1", "-W1", ...options, "192.0.2.2"], {}, pod)).exit;
    expect([await ping(one), await ping(two)]).toEqual([0, 0]);
  });
});
