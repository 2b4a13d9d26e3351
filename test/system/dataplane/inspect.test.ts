import { apply, inspect } from "../../support/dataplane-probe.ts";
import { desiredFor, HOST_INTERFACE } from "../../support/desired-state.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node, type Pod } from "../../support/node.ts";

const BOTH = ["10.60.0.0/32", "fd60::/128"];

type Damage = (node: Node, pod: Pod) => Promise<unknown>;
const set =
  (path: string, value: string, inPod: boolean): Damage =>
  (node, pod) =>
    node.run(["/bin/sh", "-c", `echo ${value} > /proc/sys/${path}`], {}, inPod ? pod : undefined);

const node = fresh(Node.create);
const pod = fresh(() => node.addPod());

describe("inspecting an attachment", () => {
  it("finds nothing to say about one that was just made", async () => {
    const desired = desiredFor(pod, { addresses: BOTH, mtu: 1400, queues: 2, mac: "ca:fe:ca:fe:ca:fe" });
    await apply(node, desired);
    expect(await inspect(node, desired, { mac: "ca:fe:ca:fe:ca:fe", mtu: 1400 })).toEqual({ value: [] });
  });

  it.each<[string, Damage]>([
    ["the MTU", (node, pod) => node.podIp(pod, "link", "set", "eth0", "mtu", "1300")],
    ["the host's MAC", (node) => node.ip("link", "set", HOST_INTERFACE, "address", "02:00:00:00:00:01")],
    ["the pod's MAC", (node, pod) => node.podIp(pod, "link", "set", "eth0", "address", "02:00:00:00:00:01")],
    ["a host sysctl", set(`net/ipv4/conf/${HOST_INTERFACE}/proxy_arp`, "0", false)],
    ["a pod sysctl", set("net/ipv4/ip_forward", "1", true)],
    ["the alias, which Calico does not write", (node) => node.run(["/bin/sh", "-c", `echo > /sys/class/net/${HOST_INTERFACE}/ifalias`])],
    ["the alias by that of an older version", (node) => node.ip("link", "set", HOST_INTERFACE, "alias", "tortie:net1/cid1/eth0")],
  ])("F4: says nothing when an administrator, another plugin or another version changed %s", async (_name, change) => {
    const desired = desiredFor(pod, { addresses: BOTH, mac: "ca:fe:ca:fe:ca:fe", owner: { workload: "default/web" } });
    await apply(node, desired);

    await change(node, pod);

    expect(await inspect(node, { ...desired, device: { ...desired.device, queues: 4 } })).toEqual({ value: [] });
  });

  it("F4: names an MTU and a MAC that are not what the result of the chain says", async () => {
    const desired = desiredFor(pod, { mac: "ca:fe:ca:fe:ca:fe" });
    await apply(node, desired);

    expect(await inspect(node, desired, { mac: "CA:FE:CA:FE:CA:FF", mtu: 1400 })).toEqual({
      value: [
        { side: "pod", object: "link eth0 MAC", wanted: "ca:fe:ca:fe:ca:ff", found: "ca:fe:ca:fe:ca:fe" },
        { side: "pod", object: "link eth0 MTU", wanted: "1400", found: "1500" },
      ],
    });
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
      "the host's MAC, of which the pod was told,",
      (node) => node.ip("link", "set", HOST_INTERFACE, "address", "02:00:00:00:00:01"),
      { side: "host", object: `link ${HOST_INTERFACE} MAC`, wanted: "ee:ee:ee:ee:ee:ee", found: "02:00:00:00:00:01" },
    ],
    [
      "the alias",
      (node) => node.ip("link", "set", HOST_INTERFACE, "alias", "mine"),
      { side: "host", object: `link ${HOST_INTERFACE} alias`, wanted: "tortie:net1/cid1/eth0", found: "mine" },
    ],
    [
      "the neighbour that the pod was told of",
      (node, pod) => node.podIp(pod, "neigh", "del", "169.254.1.1", "dev", "eth0"),
      { side: "pod", object: "neighbour 169.254.1.1 of eth0", wanted: "ee:ee:ee:ee:ee:ee", found: "missing" },
    ],
    [
      "the owner",
      (node) => node.ip("link", "set", HOST_INTERFACE, "alias", "tortie:net1/cid2/eth0"),
      { side: "host", object: `link ${HOST_INTERFACE} alias`, wanted: "tortie:net1/cid1/eth0", found: "tortie:net1/cid2/eth0" },
    ],
  ])("names %s when somebody changed it, and nothing else", async (_name, damage, difference) => {
    const desired = desiredFor(pod, { addresses: BOTH, neighbours: [{ address: "169.254.1.1", mac: "ee:ee:ee:ee:ee:ee" }] });
    await apply(node, desired);

    await damage(node, pod);

    expect(await inspect(node, desired)).toEqual({ value: [difference] });
  });

  it("names an address that is not usable yet", async () => {
    const desired = desiredFor(pod, { addresses: BOTH });
    await apply(node, desired);
    await set("net/ipv6/conf/eth0/accept_dad", "1", true)(node, pod);
    await set("net/ipv6/conf/eth0/dad_transmits", "1000", true)(node, pod);
    await node.podIp(pod, "addr", "del", "fd60::/128", "dev", "eth0");
    await node.podIp(pod, "addr", "add", "fd60::/128", "dev", "eth0");

    expect((await inspect(node, desired)).value).toEqual([
      { side: "pod", object: "address fd60::/128 of eth0", wanted: "usable", found: "tentative" },
    ]);
  });

  it("A16: reads an address with another end by its own side", async () => {
    const desired = desiredFor(pod, { addresses: ["10.60.0.0/32"] });
    await apply(node, desired);
    // The kernel removes the routes of an interface with its last IPv4 address.
    await node.podIp(pod, "addr", "add", "10.61.0.1/32", "dev", "eth0");
    await node.podIp(pod, "addr", "del", "10.60.0.0/32", "dev", "eth0");
    await node.podIp(pod, "addr", "add", "10.60.0.0", "peer", "10.60.9.9/32", "dev", "eth0");

    expect(await inspect(node, desired)).toEqual({ value: [] });
  });

  it("P2: waits for an address that is still checked for duplicates", async () => {
    const desired = desiredFor(pod, { addresses: BOTH });
    await apply(node, desired);
    await set("net/ipv6/conf/eth0/accept_dad", "1", true)(node, pod);
    await set("net/ipv6/conf/eth0/dad_transmits", "1", true)(node, pod);
    await node.podIp(pod, "addr", "del", "fd60::/128", "dev", "eth0");
    await node.podIp(pod, "addr", "add", "fd60::/128", "dev", "eth0");

    expect(await inspect(node, desired)).toEqual({ value: [] });
    expect(JSON.stringify(await node.podIp(pod, "-j", "-6", "address", "show", "to", "fd60::/128", "tentative"))).not.toContain("fd60::");
  });

  it.each<[string, (index: number) => string]>([
    ["50,000 routes", (index) => `route add 10.${100 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}/32 dev eth0`],
    ["5,000 addresses", (index) => `addr add 10.99.${index >> 8}.${index & 255}/32 dev eth0`],
  ])("S4: ends its look at a sandbox with %s, and reads no more of them", async (name, line) => {
    const desired = desiredFor(pod, { addresses: BOTH, neighbours: [{ address: "169.254.1.1", mac: "ee:ee:ee:ee:ee:ee" }] });
    await apply(node, desired);
    const count = Number.parseInt(name.replace(",", ""), 10);
    const stdin = Array.from({ length: count }, (_, index) => `${line(index)}\n`).join("");
    expect(await node.run(["/usr/sbin/ip", "-batch", "-"], { stdin }, pod)).toMatchObject({ exit: 0 });

    expect((await inspect(node, desired)).error).toMatchObject({
      word: "sandbox-too-large",
      message: expect.stringContaining("more than 4096"),
    });
  });

  it("names an address that another host has as well", async () => {
    node.excuse("the test gives the address to the host too", "doubled");
    const pod = await node.addPod();
    const desired = desiredFor(pod, { addresses: BOTH });
    await apply(node, desired);
    await set("net/ipv6/conf/eth0/accept_dad", "1", true)(node, pod);
    await set("net/ipv6/conf/eth0/dad_transmits", "1", true)(node, pod);
    await node.podIp(pod, "addr", "del", "fd60::/128", "dev", "eth0");
    await node.ip("addr", "add", "fd60::/128", "dev", desired.host.name, "nodad");
    await node.podIp(pod, "addr", "add", "fd60::/128", "dev", "eth0");
    const isDuplicate = async () => JSON.stringify(await node.podIp(pod, "-j", "addr", "show", "dev", "eth0")).includes('"dadfailed":true');
    while (!(await isDuplicate())) await Bun.sleep(50);

    expect((await inspect(node, desired)).value).toContainEqual({
      side: "pod",
      object: "address fd60::/128 of eth0",
      wanted: "usable",
      found: "duplicate of another host's",
    });
  });

  it("names a link that is down, and a link that is gone", async () => {
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
    await inspect(node, desiredFor(pod, { addresses: BOTH }));
    await node.expectClean();
  });
});
