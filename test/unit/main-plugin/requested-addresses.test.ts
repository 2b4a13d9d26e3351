/** The annotation `ipAddrs`: whose address it is decides what an ADD may do to whoever has it. */
import { Allocator } from "../../../ipam-plugin/allocator/allocator.ts";
import { systemClock } from "../../../ipam-plugin/host.ts";
import { address } from "../../support/addresses.ts";
import { host } from "../../support/cluster.ts";
import { fresh } from "../../support/fixtures.ts";
import { PodNode } from "../../support/pod-node.ts";

const ANNOTATION = "cni.projectcalico.org/";

const node = fresh(PodNode.create);
/** Works behind the back of the verbs. */
const allocator = () => new Allocator({ datastore: node.datastore, clock: systemClock });

/** The pod asks for one address. */
beforeEach(() => node.annotate({ [`${ANNOTATION}ipAddrs`]: '["10.60.0.9"]' }));

/** The record says that this container has the address, as whoever may edit the pod can make it say. */
function claim(containerID: string): void {
  const record = { containerID, podIP: "10.60.0.9/32", podIPs: "10.60.0.9/32" };
  node.annotate(Object.fromEntries(Object.entries(record).map(([name, value]) => [ANNOTATION + name, value])));
}

/** Gives the address to somebody. */
async function give(handle: string, attributes: Readonly<Record<string, string>>): Promise<void> {
  await allocator().assignIp({ address: address("10.60.0.9"), handle, attributes, owner: host("worker-1") });
}

describe("An ADD for an address that the record has", () => {
  it.each([
    ["a pod of the same name in another namespace", { namespace: "prod", pod: "cart" }],
    ["another pod of the namespace", { namespace: "shop", pod: "db" }],
    ["a tunnel of the node", { node: "worker-1", type: "ipipTunnelAddress" }],
  ])("M1: leaves it with %s, to whose container the record was made to point", async (_, attributes) => {
    await give("net1.victim", attributes);
    claim("victim");

    await expect(node.add()).rejects.toMatchObject({ word: "address-taken" });

    expect(await node.handles()).toEqual({ "net1.victim": 1 });
    expect(node.effects).not.toContain("remove link");
  });

  it("leaves it with a sandbox of the pod that the record does not name", async () => {
    await give("net1.newest", { namespace: "shop", pod: "cart" });
    claim("older");

    await expect(node.add()).rejects.toMatchObject({ word: "address-taken" });

    expect(await node.handles()).toEqual({ "net1.newest": 1 });
    expect(node.effects).not.toContain("remove link");
  });

  it("keeps it where this very container has it: nothing is released or removed", async () => {
    const first = await node.add();
    node.effects.length = 0;

    expect((await node.add()).ips).toEqual(first.ips);

    expect(node.effects).not.toContain("remove link");
    expect(node.effects).not.toContain("update block");
  });

  it("is refused while the link that carries it is another attachment's, and the address stays", async () => {
    await node.add({ container: "old" });
    const [[name = ""] = []] = node.links;
    node.links.set(name, "tortie:net1/stranger/eth0 prod/db");

    await expect(node.add({ container: "new" })).rejects.toMatchObject({ word: "interface-exists" });

    expect(await node.handles()).toEqual({ "net1.old": 1 });
  });

  it("never releases it from somebody who got it while the old link was removed", async () => {
    await node.add({ container: "old" });
    node.meanwhile = {
      effect: "remove link",
      work: async () => {
        await allocator().releaseByHandle("net1.old");
        await give("net1.other", { namespace: "shop", pod: "db" });
      },
    };

    await expect(node.add({ container: "new" })).rejects.toMatchObject({ word: "release-mismatch" });

    expect(await node.handles()).toEqual({ "net1.other": 1 });
  });
});
