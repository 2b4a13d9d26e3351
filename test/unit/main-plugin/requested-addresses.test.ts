/** The annotation `ipAddrs`: whose address it is decides what an ADD may do to whoever has it. */
import { parseAddress } from "../../../lib/addresses/address.ts";
import { type PodCall, PodNode } from "../../support/pod-node.ts";

const ANNOTATION = "cni.projectcalico.org/";

async function failure(node: PodNode, call: PodCall = {}): Promise<unknown> {
  return node.add(call).then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** A node whose pod asks for one address. */
async function asking(): Promise<PodNode> {
  const node = await PodNode.create();
  node.annotate({ [`${ANNOTATION}ipAddrs`]: '["10.60.0.9"]' });
  return node;
}

/** The record says that this container has the address, as whoever may edit the pod can make it say. */
function claim(node: PodNode, containerID: string): void {
  const record = { containerID, podIP: "10.60.0.9/32", podIPs: "10.60.0.9/32" };
  node.annotate(Object.fromEntries(Object.entries(record).map(([name, value]) => [ANNOTATION + name, value])));
}

/** Gives the address to somebody, behind the back of the verbs. */
async function give(node: PodNode, handle: string, attributes: Readonly<Record<string, string>>): Promise<void> {
  const { Allocator } = await import("../../../ipam-plugin/allocator/allocator.ts");
  const { systemClock } = await import("../../../ipam-plugin/host.ts");
  const address = parseAddress("10.60.0.9");
  if (address === undefined) throw new Error("that is an address");
  const allocator = new Allocator({ datastore: node.datastore, clock: systemClock });
  await allocator.assignIp({ address, handle, attributes, owner: { type: "host", name: "worker-1" } });
}

describe("An ADD for an address that the record has", () => {
  it.each([
    ["a pod of the same name in another namespace", { namespace: "prod", pod: "cart" }],
    ["another pod of the namespace", { namespace: "shop", pod: "db" }],
    ["a tunnel of the node", { node: "worker-1", type: "ipipTunnelAddress" }],
  ])("M1: leaves it with %s, to whose container the record was made to point", async (_, attributes) => {
    await using node = await asking();
    await give(node, "net1.victim", attributes);
    claim(node, "victim");

    expect(await failure(node)).toMatchObject({ word: "address-taken" });

    expect(await node.handles()).toEqual({ "net1.victim": 1 });
    expect(node.effects).not.toContain("remove host end");
  });

  it("leaves it with a sandbox of the pod that the record does not name", async () => {
    await using node = await asking();
    await give(node, "net1.newest", { namespace: "shop", pod: "cart" });
    claim(node, "older");

    expect(await failure(node)).toMatchObject({ word: "address-taken" });

    expect(await node.handles()).toEqual({ "net1.newest": 1 });
    expect(node.effects).not.toContain("remove host end");
  });

  it("keeps it where this very container has it: nothing is released or removed", async () => {
    await using node = await asking();
    const first = await node.add();
    node.effects.length = 0;

    expect((await node.add()).ips).toEqual(first.ips);

    expect(node.effects).not.toContain("remove host end");
    expect(node.effects).not.toContain("update block");
  });

  it("is refused while the link that carries it is another attachment's, and the address stays", async () => {
    await using node = await asking();
    await node.add({ container: "old" });
    const [[name = ""] = []] = node.links;
    node.links.set(name, "tortie:net1/stranger/eth0 prod/db");

    expect(await failure(node, { container: "new" })).toMatchObject({ word: "interface-exists" });

    expect(await node.handles()).toEqual({ "net1.old": 1 });
  });

  it("never releases it from somebody who got it while the old link was removed", async () => {
    await using node = await asking();
    await node.add({ container: "old" });
    node.meanwhile = {
      effect: "remove host end",
      work: async () => {
        const { Allocator } = await import("../../../ipam-plugin/allocator/allocator.ts");
        const { systemClock } = await import("../../../ipam-plugin/host.ts");
        await new Allocator({ datastore: node.datastore, clock: systemClock }).releaseByHandle("net1.old");
        await give(node, "net1.other", { namespace: "shop", pod: "db" });
      },
    };

    expect(await failure(node, { container: "new" })).toMatchObject({ word: "release-mismatch" });

    expect(await node.handles()).toEqual({ "net1.other": 1 });
  });
});
