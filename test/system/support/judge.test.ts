/** The judge's eyes: real namespaces and a real store's file. Its rules: test/unit/support/judge. */
import { addressesOf } from "../../support/cni-result.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { judge } from "../../support/judge/judge.ts";
import { lookAtNamespace, lookAtStore } from "../../support/judge/look.ts";
import { type Expected, NOTHING_ALLOWED } from "../../support/judge/world.ts";
import { Node } from "../../support/node.ts";

describe("The judge on a node", () => {
  it("finds nothing wrong with a pod, and everything that is done to it behind the plugin's back", async () => {
    await using node = await Node.create();
    node.excuse("the test gives a pod the address of another", "doubled");
    const [pod, other] = [await node.addPod(), await node.addPod()];
    const conf = localConf(node, { ipam: dualIpam("46") });
    const { json } = await node.cni("ADD", { pod, conf });
    const addresses = addressesOf(json);
    const expected: Expected = {
      wanted: [{ network: "net1", containerId: "cid1", ifname: "eth0", sandbox: pod.name, addresses }],
      allowed: { ...NOTHING_ALLOWED, tables: new Set(["inet tortie"]) },
      isForwarding: true,
    };
    const verdict = async () =>
      (await judge(node, [pod, other], expected, lookAtStore(node.datastorePath))).map(({ rule, what }) => `${rule}: ${what}`);
    expect(await verdict()).toEqual([]);

    await node.podIp(other, "link", "add", "eth0", "type", "veth");
    await node.podIp(other, "address", "add", `${addresses[0]}/32`, "dev", "eth0");
    await node.podIp(pod, "route", "del", "default");
    await node.ip("route", "del", addresses[0] ?? "");

    expect(await verdict()).toEqual([
      `doubled: ${addresses[0]} is on ${pod.name} eth0 and ${other.name} eth0`,
      `not-granted: ${other.name} eth0 bears ${addresses[0]}, granted to net1.cid1`,
      `unasked: link veth0 in ${other.name}`,
      `unasked: link eth0 ${addresses[0]} in ${other.name}`,
      `lost: cid1 in ${pod.name} lacks route to ${addresses[0]}`,
      `lost: cid1 in ${pod.name} lacks route 0.0.0.0/0`,
    ]);
  });

  it("never looks at the namespace that it runs in", async () => {
    await expect(lookAtNamespace("/proc/self/ns/net")).rejects.toThrow(/own namespace/);
  });
});
