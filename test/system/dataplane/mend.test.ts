/** Mending a host end: what somebody took from it comes back, and nothing else is touched, least of all inside the sandbox. */
import { formatPrefix } from "../../../lib/addresses/address.ts";
import { apply, drift, mend } from "../../support/dataplane-probe.ts";
import { desiredFor, HOST_INTERFACE } from "../../support/desired-state.ts";
import { fresh } from "../../support/fixtures.ts";
import { networkView } from "../../support/kernel-view.ts";
import { until } from "../../support/kubernetes/until.ts";
import { Node } from "../../support/node.ts";

const DUAL_STACK = ["10.60.0.0/32", "fd60::/128"];
const NOTHING = { value: { mended: [], left: [] } };

async function indexOf(node: Node): Promise<number> {
  const [link] = await node.ip("-j", "link", "show", HOST_INTERFACE);
  return Number(link?.ifindex);
}

const node = fresh(Node.create);
const pod = fresh(() => node.addPod());

describe("mending an attachment", () => {
  it("touches nothing that is as it should be", async () => {
    const desired = desiredFor(pod, { addresses: DUAL_STACK });
    await apply(node, desired);

    expect(await drift(node, desired)).toEqual({ value: [] });
    expect(await mend(node, desired)).toEqual(NOTHING);
  });

  it("puts back host routes, settings, and an end that is down", async () => {
    const desired = desiredFor(pod, { addresses: DUAL_STACK });
    await apply(node, desired);
    const before = await node.ip("-j", "route", "show");
    await node.ip("link", "set", HOST_INTERFACE, "down");
    await node.run(["/bin/sh", "-c", `echo 0 > /proc/sys/net/ipv4/conf/${HOST_INTERFACE}/proxy_arp`]);

    const { value, error } = await mend(node, desired);

    expect(error).toBeUndefined();
    expect(value?.mended.map(({ object }) => object)).toEqual(
      expect.arrayContaining(["route 10.60.0.0/32", `setting net/ipv4/conf/${HOST_INTERFACE}/proxy_arp`, `link ${HOST_INTERFACE} state`]),
    );
    expect(value?.left).toEqual([]);
    // The kernel looks for another host with the link-local address first, on a busy machine for longer than a comparison waits.
    await until("the host end to be whole", async () => JSON.stringify(await drift(node, desired)) === '{"value":[]}');
    expect(await node.ip("-j", "route", "show")).toEqual(before);
    expect(await node.sysctl(`net/ipv4/conf/${HOST_INTERFACE}/proxy_arp`)).toBe("1");
  });

  it("takes an address that the kernel still checks for duplicates neither for mended nor for left", async () => {
    const desired = desiredFor(pod, { addresses: DUAL_STACK });
    await apply(node, desired);
    const settings = `/proc/sys/net/ipv6/conf/${HOST_INTERFACE}`;
    await node.run(["/bin/sh", "-c", `echo 1 > ${settings}/accept_dad; echo 1000 > ${settings}/dad_transmits`]);
    const [linkLocal = ""] = desired.host.addresses.map(formatPrefix);
    await node.ip("address", "del", linkLocal, "dev", HOST_INTERFACE);
    await node.ip("address", "add", linkLocal, "dev", HOST_INTERFACE);
    expect(await node.ip("-j", "-6", "address", "show", "dev", HOST_INTERFACE, "tentative")).not.toEqual([]);

    const { value } = await mend(node, desired);

    expect(value?.mended.map(({ object }) => object)).toEqual([`setting net/ipv6/conf/${HOST_INTERFACE}/accept_dad`]);
    expect(value?.left).toEqual([]);
  });

  it("seven 1: sets a host MAC that somebody changed, and says so only of what it did", async () => {
    const desired = desiredFor(pod, { neighbours: [{ address: "169.254.1.1", mac: "ee:ee:ee:ee:ee:ee" }] });
    await apply(node, desired);
    await node.ip("link", "set", HOST_INTERFACE, "address", "02:00:00:00:00:99");

    const { value } = await mend(node, desired);

    expect(value?.mended.map(({ object, found }) => [object, found])).toEqual([[`link ${HOST_INTERFACE} MAC`, "02:00:00:00:00:99"]]);
    expect((await node.ip("-j", "link", "show", HOST_INTERFACE))[0]?.address).toBe("ee:ee:ee:ee:ee:ee");
  });

  it("seven 1: writes an alias again that was cleared, where the index proves whose the link is", async () => {
    const desired = desiredFor(pod);
    await apply(node, desired);
    const [before] = await node.ip("-j", "-d", "link", "show", HOST_INTERFACE);
    await node.run(["/bin/sh", "-c", `echo > /sys/class/net/${HOST_INTERFACE}/ifalias || ip link set ${HOST_INTERFACE} alias ''`]);
    expect((await node.ip("-j", "link", "show", HOST_INTERFACE))[0]?.ifalias ?? "").toBe("");

    expect((await mend(node, desired, (await indexOf(node)) + 1)).value).toMatchObject({ mended: [], left: [{ found: "" }] });
    expect((await mend(node, desired, await indexOf(node))).value).toMatchObject({ mended: [{ found: "" }], left: [] });

    expect((await node.ip("-j", "link", "show", HOST_INTERFACE))[0]?.ifalias).toBe(before?.ifalias);
  });

  it.each([
    ["a default route that an init container took away", ["route", "del", "default"]],
    ["an address that was removed", ["addr", "del", "10.60.0.0/32", "dev", "eth0"]],
    ["an end that was set down on purpose", ["link", "set", "eth0", "down"]],
    ["a default route of another interface", ["route", "replace", "default", "dev", "lo"]],
  ])("G6: leaves %s to the container, and finds no difference", async (_, change) => {
    const desired = desiredFor(pod, { addresses: DUAL_STACK });
    await apply(node, desired);
    await node.podIp(pod, ...change);
    const before = await networkView(node, pod);

    expect(await drift(node, desired)).toEqual({ value: [] });
    expect(await mend(node, desired)).toEqual(NOTHING);

    expect(await networkView(node, pod)).toEqual(before);
  });

  it("names a pair that is gone by both its ends, and leaves making it to an ADD or a build, which prove its addresses", async () => {
    const desired = desiredFor(pod);
    await apply(node, desired);
    await node.ip("link", "del", HOST_INTERFACE);

    const gone = [
      { side: "host", object: `link ${HOST_INTERFACE}`, wanted: "present", found: "missing" },
      { side: "pod", object: "link eth0", wanted: "present", found: "missing" },
    ];
    expect(await drift(node, desired)).toEqual({ value: gone });
    expect(await mend(node, desired)).toEqual({ value: { mended: [], left: gone } });
    await node.expectClean();
  });

  it("leaves the link of the pod's newer sandbox alone, whose name is the same", async () => {
    const older = await node.addPod();
    const newer = await node.addPod();
    const workload = "default/web";
    const first = desiredFor(older, { owner: { containerId: "first", workload } });
    await apply(node, first);
    await apply(node, desiredFor(newer, { owner: { containerId: "second", workload }, addresses: ["10.60.0.9/32"] }));
    const link = await node.ip("-j", "link", "show", HOST_INTERFACE);

    const { value } = await mend(node, first);

    expect(value?.mended).toEqual([]);
    expect(value?.left.map(({ object }) => object)).toContain(`link ${HOST_INTERFACE} alias`);
    expect(await node.ip("-j", "link", "show", HOST_INTERFACE)).toEqual(link);
    expect((await node.podIp(older, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
  });

  it("does not make a second pair when somebody renamed the end inside the sandbox", async () => {
    const desired = desiredFor(pod);
    await apply(node, desired);
    await node.podIp(pod, "link", "set", "eth0", "down");
    await node.podIp(pod, "link", "set", "eth0", "name", "net7");
    await node.ip("route", "del", "10.60.0.0/32");

    expect((await mend(node, desired)).value).toMatchObject({
      mended: [],
      left: expect.arrayContaining([{ side: "pod", object: "link eth0", wanted: "present", found: "missing" }]),
    });
    expect((await node.podIp(pod, "-j", "link", "show", "net7"))[0]?.ifname).toBe("net7");
    expect((await node.leftovers()).routes.filter((route) => route.startsWith("10."))).toEqual([]);
  });
});
