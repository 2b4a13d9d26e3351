/** Mending an attachment: what somebody took from the kernel comes back, and nothing else is touched. */
import { apply, drift, mend } from "../../support/dataplane-probe.ts";
import { desiredFor, HOST_INTERFACE } from "../../support/desired-state.ts";
import { Node } from "../../support/node.ts";

const DUAL_STACK = ["10.60.0.0/32", "fd60::/128"];

describe("mending an attachment", () => {
  it("touches nothing that is as it should be", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const desired = desiredFor(pod, { addresses: DUAL_STACK });
    await apply(node, desired);

    expect(await drift(node, desired)).toEqual({ value: [] });
    expect(await mend(node, desired)).toEqual({ value: [] });
  });

  it("puts back host routes, pod addresses and routes, settings, and ends that are down", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const desired = desiredFor(pod, { addresses: DUAL_STACK });
    await apply(node, desired);
    const before = await node.ip("-j", "route", "show");
    await node.ip("route", "del", "10.60.0.0/32");
    await node.podIp(pod, "addr", "del", "10.60.0.0/32", "dev", "eth0");
    await node.podIp(pod, "link", "set", "eth0", "down");
    await node.run(["/bin/sh", "-c", `echo 0 > /proc/sys/net/ipv4/conf/${HOST_INTERFACE}/proxy_arp`]);

    const mended = await mend(node, desired);

    expect(mended.error).toBeUndefined();
    expect(mended.value?.map(({ object }) => object)).toEqual(
      expect.arrayContaining(["route 10.60.0.0/32", `setting net/ipv4/conf/${HOST_INTERFACE}/proxy_arp`, "link eth0 state"]),
    );
    expect(await drift(node, desired)).toEqual({ value: [] });
    expect(await node.ip("-j", "route", "show")).toEqual(before);
    expect(await node.sysctl(`net/ipv4/conf/${HOST_INTERFACE}/proxy_arp`)).toBe("1");
  });

  it("makes a link that is gone again, with the MAC that the container had", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const desired = desiredFor(pod, { addresses: DUAL_STACK });
    const mac = (await apply(node, desired)).value?.podMac;
    await node.ip("link", "del", HOST_INTERFACE);

    const mended = await mend(node, desired, mac);

    expect(mended.error).toBeUndefined();
    expect(await drift(node, desired)).toEqual({ value: [] });
    expect((await node.podIp(pod, "-j", "link", "show", "eth0"))[0]?.address).toBe(mac);
  });

  it("leaves the link of the pod's newer sandbox alone, whose name is the same", async () => {
    await using node = await Node.create();
    const older = await node.addPod();
    const newer = await node.addPod();
    const workload = "default/web";
    const first = desiredFor(older, { owner: { containerId: "first", workload } });
    await apply(node, first);
    await apply(node, desiredFor(newer, { owner: { containerId: "second", workload }, addresses: ["10.60.0.9/32"] }));
    const link = await node.ip("-j", "link", "show", HOST_INTERFACE);

    const mended = await mend(node, first);

    expect(mended.error?.word).toBe("interface-exists");
    expect(await node.ip("-j", "link", "show", HOST_INTERFACE)).toEqual(link);
  });

  it("does not make a second pair when somebody renamed the end inside the sandbox", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const desired = desiredFor(pod);
    await apply(node, desired);
    await node.podIp(pod, "link", "set", "eth0", "down");
    await node.podIp(pod, "link", "set", "eth0", "name", "net7");

    expect((await mend(node, desired)).error?.word).toBe("link-failed");
    expect((await node.podIp(pod, "-j", "link", "show", "net7"))[0]?.ifname).toBe("net7");
  });
});
