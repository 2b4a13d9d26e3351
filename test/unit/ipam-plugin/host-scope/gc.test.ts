/** GC of the node's own ranges: what is kept though the runtime does not list it. */

import { LONE_COLLECTION } from "../../../../ipam-plugin/call.ts";
import { hostScopeAdd, hostScopeRun } from "../../../../ipam-plugin/host-scope/verbs.ts";
import { hostScopeOf } from "../../../support/grant-directories.ts";
import { PodNode } from "../../../support/pod-node.ts";

describe("GC of host scope", () => {
  it("keeps what the runtime lists and what is in use by interface, and releases the rest of its network", async () => {
    await using node = PodNode.forContainers();
    const scope = hostScopeOf();
    const add = (container: string, interfaceName: string, network = "net1") =>
      hostScopeAdd(node.parts({ container, interfaceName, network }).call, scope);
    await add("listed", "eth0");
    await add("listed", "net1");
    await add("busy", "eth0");
    await add("busy", "net1");
    await add("elsewhere", "eth0", "net2");
    const conf = { "cni.dev/valid-attachments": [{ containerID: "listed", ifname: "eth0" }] };
    const collection = { ...LONE_COLLECTION, inUse: () => [{ containerID: "busy", ifname: "net1" }] };
    await hostScopeRun("GC", { ...node.parts({ conf }).call, collection }, scope);
    const held = (await scope.holdings()).flatMap(({ grant }) => (grant?.owner.kind === "attachment" ? grant.owner : []));
    expect(held.map(({ containerId, ifname }) => `${containerId} ${ifname}`).sort()).toEqual([
      "busy net1",
      "elsewhere eth0",
      "listed eth0",
    ]);
  });
});
