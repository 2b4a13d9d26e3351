import { apply, inspect } from "../../support/dataplane-probe.ts";
import { desiredFor, HOST_INTERFACE } from "../../support/desired-state.ts";
import { Node, type Pod } from "../../support/node.ts";

const BOTH = ["10.60.0.0/32", "fd60::/128"];

type Damage = (node: Node, pod: Pod) => Promise<unknown>;
const set =
  (path: string, value: string, inPod: boolean): Damage =>
  (node, pod) =>
    node.run(["/bin/sh", "-c", `echo ${value} > /proc/sys/${path}`], {}, inPod ? pod : undefined);

describe("inspecting an attachment", () => {
  it("finds nothing to say about one that was just made", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const desired = desiredFor(pod, { addresses: BOTH, mtu: 1400, queues: 2, mac: "ca:fe:ca:fe:ca:fe" });
    await apply(node, desired);
    expect(await inspect(node, desired)).toEqual({ value: [] });
  });

  it.each<[string, Damage, object]>([
    [
      "the host route",
      (node) => node.ip("route", "del", "10.60.0.0/32"),
      { side: "host", object: "route 10.60.0.0/32", wanted: `dev ${HOST_INTERFACE} scope link`, found: "missing" },
    ],
    [
      "the IPv6 host route",
      (node) => node.ip("-6", "route", "del", "fd60::/128"),
      { side: "host", object: "route fd60::/128", wanted: `dev ${HOST_INTERFACE} scope link`, found: "missing" },
    ],
    [
      "the pod's default route",
      (node, pod) => node.podIp(pod, "route", "replace", "default", "dev", "eth0"),
      { side: "pod", object: "route 0.0.0.0/0", wanted: "via 169.254.1.1 dev eth0 scope universe", found: "dev eth0 scope link" },
    ],
    [
      "the pod's address",
      (node, pod) => node.podIp(pod, "addr", "del", "fd60::/128", "dev", "eth0"),
      { side: "pod", object: "address fd60::/128 of eth0", wanted: "usable", found: "missing" },
    ],
    [
      "the host's link-local address",
      (node) => node.ip("addr", "del", "fe80::ecee:eeff:feee:eeee/64", "dev", HOST_INTERFACE),
      { side: "host", object: `address fe80::ecee:eeff:feee:eeee/64 of ${HOST_INTERFACE}`, wanted: "usable", found: "missing" },
    ],
    [
      "the host's MAC",
      (node) => node.ip("link", "set", HOST_INTERFACE, "address", "02:00:00:00:00:01"),
      { side: "host", object: `link ${HOST_INTERFACE} MAC`, wanted: "ee:ee:ee:ee:ee:ee", found: "02:00:00:00:00:01" },
    ],
    [
      "the alias",
      (node) => node.ip("link", "set", HOST_INTERFACE, "alias", "mine"),
      { side: "host", object: `link ${HOST_INTERFACE} alias`, wanted: "tortie:net1/cid1/eth0", found: "mine" },
    ],
    [
      "the MTU",
      (node, pod) => node.podIp(pod, "link", "set", "eth0", "mtu", "1300"),
      { side: "pod", object: "link eth0 MTU", wanted: "1500", found: "1300" },
    ],
    [
      "a host sysctl",
      set(`net/ipv4/conf/${HOST_INTERFACE}/proxy_arp`, "0", false),
      { side: "host", object: `sysctl net/ipv4/conf/${HOST_INTERFACE}/proxy_arp`, wanted: "1", found: "0" },
    ],
    ["a pod sysctl", set("net/ipv4/ip_forward", "1", true), { side: "pod", object: "sysctl net/ipv4/ip_forward", wanted: "0", found: "1" }],
  ])("names %s when somebody changed it, and nothing else", async (_name, damage, difference) => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const desired = desiredFor(pod, { addresses: BOTH });
    await apply(node, desired);

    await damage(node, pod);

    expect(await inspect(node, desired)).toEqual({ value: [difference] });
  });

  it("names a link that is down, and a link that is gone", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const desired = desiredFor(pod);
    await apply(node, desired);

    await node.podIp(pod, "link", "set", "eth0", "down");
    expect((await inspect(node, desired)).value).toContainEqual({ side: "pod", object: "link eth0 state", wanted: "up", found: "down" });

    await node.ip("link", "del", HOST_INTERFACE);
    const gone = (await inspect(node, desired)).value;
    expect(gone).toContainEqual({ side: "host", object: `link ${HOST_INTERFACE}`, wanted: "present", found: "missing" });
    expect(gone).toContainEqual({ side: "pod", object: "link eth0", wanted: "present", found: "missing" });
  });

  it("changes nothing", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    await inspect(node, desiredFor(pod, { addresses: BOTH }));
    expect(await node.leftovers()).toEqual({ links: [], routes: [] });
  });
});
