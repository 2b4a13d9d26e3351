import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { apply } from "../../support/dataplane-probe.ts";
import { desiredFor, HOST_INTERFACE } from "../../support/desired-state.ts";
import { fresh } from "../../support/fixtures.ts";
import { kernelView } from "../../support/kernel-view.ts";
import { Node, type Pod } from "../../support/node.ts";

const BOTH = ["10.60.0.0/32", "fd60::/128"];

/** Nothing of an attachment may be left on either side. */
async function expectNothingLeft(node: Node, pod: Pod): Promise<void> {
  await node.expectClean();
  expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
}

const node = fresh(Node.create);
const pod = fresh(() => node.addPod());

describe("attaching that fails", () => {
  it("leaves nothing behind when something fails after it", async () => {
    const answer = await apply(node, desiredFor(pod, { addresses: BOTH }), { thenFail: true });

    expect(answer.error?.message).toBe("something later failed");
    await expectNothingLeft(node, pod);
  });

  it("names an interface that the pod already has, and touches neither it nor the host", async () => {
    await node.podIp(pod, "link", "add", "eth0", "type", "veth", "peer", "name", "x0");

    const { error } = await apply(node, desiredFor(pod));

    expect(error).toEqual({ word: "interface-exists", message: `file exists: sandbox ${pod.netnsPath} already has an interface eth0` });
    await node.expectClean();
    expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname).sort()).toEqual(["eth0", "lo", "x0"]);
  });

  it.each([
    ["a veth whose peer is elsewhere", ["type", "veth", "peer", "name", "x0"]],
    ["a bridge", ["type", "bridge"]],
  ])("replaces a host link of the wanted name: %s", async (_name, kind) => {
    await node.ip("link", "add", HOST_INTERFACE, ...kind);

    expect((await apply(node, desiredFor(pod))).error).toBeUndefined();

    expect((await node.leftovers()).links).toEqual([HOST_INTERFACE]);
    expect((await kernelView(node, HOST_INTERFACE)).link).toMatchObject({ kind: "veth", address: "ee:ee:ee:ee:ee:ee" });
  });

  it("replaces the pair of the same container, both ends, when it is added again", async () => {
    const first = await apply(node, desiredFor(pod));
    const second = await apply(node, desiredFor(pod));

    expect(second.error).toBeUndefined();
    expect(second.value?.podMac).not.toBe(first.value?.podMac);
    expect((await node.leftovers()).links).toEqual([HOST_INTERFACE]);
  });

  it("does not take a host link that another attachment owns, where the name is not this workload's alone", async () => {
    const [pod, other] = [await node.addPod(), await node.addPod()];
    await apply(node, desiredFor(other, { owner: { containerId: "other" } }));

    const { error } = await apply(node, desiredFor(pod));

    expect(error).toMatchObject({ word: "interface-exists", message: expect.stringContaining("tortie:net1/other/eth0") });
    expect((await kernelView(node, HOST_INTERFACE)).link).toMatchObject({ ifalias: "tortie:net1/other/eth0" });
    expect((await apply(node, desiredFor(pod, { owner: { containerId: "other" } }))).error).toBeUndefined();
  });

  it("names both routes when a host route is in the way, and leaves that one alone (recording route6-other-dev)", async () => {
    await node.ip("link", "add", "other0", "type", "veth", "peer", "name", "other1");
    for (const name of ["other0", "other1"]) await node.ip("link", "set", name, "up");
    await node.ip("-6", "route", "add", "fd60::/128", "dev", "other0");

    const { error } = await apply(node, desiredFor(pod, { addresses: BOTH }));

    expect(error?.word).toBe("route-conflict");
    expect(error?.message).toMatch(
      new RegExp(
        `^error adding host side routes for interface: ${HOST_INTERFACE}, error: route \\(Ifindex: \\d+, Dst: fd60::/128, Scope: link\\) already exists ` +
          `for an interface other than '${HOST_INTERFACE}': route \\(Ifindex: \\d+, Dst: fd60::/128, Scope: universe, Iface: other0\\)$`,
      ),
    );
    const { links, routes } = await node.leftovers();
    expect(links.sort()).toEqual(["other0", "other1"]);
    expect(routes).toContain("fd60:: dev other0");
  });

  it("is not disturbed by a shorter host route with the same network address (recording route-other-dev-shorter)", async () => {
    await node.ip("link", "add", "other0", "type", "veth", "peer", "name", "other1");
    await node.ip("link", "set", "other0", "up");
    await node.ip("route", "add", "10.60.0.0/26", "dev", "other0");

    expect((await apply(node, desiredFor(pod))).error).toBeUndefined();

    const routes = (await node.ip("-j", "route", "show")).map(({ dst, dev }) => `${dst} ${dev}`);
    expect(routes.sort()).toEqual([`10.60.0.0 ${HOST_INTERFACE}`, "10.60.0.0/26 other0"]);
  });

  it("counts a route of its own that somebody else was quicker to add, in each family (recordings route-same-dev-race, route6-same-dev-race)", async () => {
    // The same route wanted twice is the same as somebody else adding it in between.
    const desired = desiredFor(pod, { addresses: BOTH });
    const routes = [...desired.host.routes, ...desired.host.routes];

    expect((await apply(node, { ...desired, host: { ...desired.host, routes } })).error).toBeUndefined();

    expect(await kernelView(node, HOST_INTERFACE)).toMatchObject({
      routes4: [{ dst: "10.60.0.0" }],
      routes6: [{ dst: "fd60::" }, { dst: "fe80::/64" }],
    });
  });

  it("names the default route that the pod already has (recording add-pod-default-route-exists)", async () => {
    await node.podIp(pod, "link", "add", "net1", "type", "veth", "peer", "name", "x0");
    await node.podIp(pod, "link", "set", "x0", "up");
    await node.podIp(pod, "link", "set", "net1", "up");
    await node.podIp(pod, "addr", "add", "10.9.9.2/24", "dev", "net1");
    await node.podIp(pod, "route", "add", "default", "via", "10.9.9.1");

    const { error } = await apply(node, desiredFor(pod));

    expect(error?.word).toBe("route-conflict");
    expect(error?.message).toMatch(
      /^failed to add IPv4 route for 0\.0\.0\.0\/0 via 169\.254\.1\.1: file exists: .*Via: 10\.9\.9\.1.*Iface: net1/,
    );
    await node.expectClean();
    expect((await node.podIp(pod, "-j", "route", "show", "default"))[0]).toMatchObject({ dev: "net1", gateway: "10.9.9.1" });
  });

  it("names the file when /proc/sys is read-only", async () => {
    const { error } = await apply(node, desiredFor(pod), {
      before: "mount -o bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys",
    });

    const file = `/proc/sys/net/ipv4/conf/${HOST_INTERFACE}/route_localnet`;
    expect(error).toEqual({ word: "sysctl-failed", message: `failed to set ${file} to 1: open ${file}: read-only file system` });
    await expectNothingLeft(node, pod);
  });

  it("goes on with a warning when a setting that is not required cannot be made", async () => {
    const desired = desiredFor(pod);
    const missing = { path: "net/ipv4/no_such_setting", value: "1", required: false };

    const answer = await apply(node, { ...desired, host: { ...desired.host, sysctls: [missing, ...desired.host.sysctls] } });

    expect(answer.value?.warnings).toEqual([expect.stringContaining("/proc/sys/net/ipv4/no_such_setting: no such file or directory")]);
    expect(await node.sysctl(`net/ipv4/conf/${HOST_INTERFACE}/proxy_arp`)).toBe("1");
  });

  it.each([
    ["an MTU below the kernel's range", { mtu: 67 }, "mtu-invalid", /invalid argument: mtu 67 is out of range, 68 to 65535/],
    ["an MTU above the kernel's range", { mtu: 70000 }, "mtu-invalid", /invalid argument: mtu 70000 is out of range/],
    ["an MTU that IPv6 cannot live with", { mtu: 1279, addresses: BOTH }, "mtu-invalid", /mtu 1279 is too small for IPv6/],
    ["too many queues", { queues: 4097 }, "queues-invalid", /invalid argument: 4097 queues are out of range/],
    ["a host name that is too long", { host: "abcdefgh01234567890" }, "link-failed", /numerical result out of range.*abcdefgh01234567890/],
    [
      "a multicast MAC",
      { mac: "01:00:5e:00:00:01" },
      "mac-invalid",
      /failed to set MAC address 01:00:5e:00:00:01 on eth0: cannot assign requested/,
    ],
    [
      "an address twice",
      { addresses: ["10.60.0.0/32", "10.60.0.0/32"] },
      "address-failed",
      /failed to add IP addr 10\.60\.0\.0\/32 to eth0: file exists/,
    ],
  ])("says what is wrong with %s", async (_name, options, word, message) => {
    expect((await apply(node, desiredFor(pod, options))).error).toEqual({ word, message: expect.stringMatching(message) });
    await expectNothingLeft(node, pod);
  });

  it("takes the smallest MTU the kernel has, for IPv4", async () => {
    expect((await apply(node, desiredFor(pod, { mtu: 68 }))).error).toBeUndefined();
    expect((await node.podIp(pod, "-j", "link", "show", "eth0"))[0]?.mtu).toBe(68);
  });

  it("looks at the sandbox before it makes anything", async () => {
    const file = join(node.dir, "file");
    writeFileSync(file, "x");
    const at = (netnsPath: string) => apply(node, desiredFor({ name: "x", netnsPath }));

    expect((await at("/run/netns/absent")).error).toMatchObject({
      word: "netns-missing",
      message: expect.stringContaining("failed to Statfs"),
    });
    expect((await at(file)).error).toMatchObject({ word: "netns-invalid", message: expect.stringContaining("unknown FS magic") });
    await node.expectClean();
  });

  it("takes the smallest MTU that IPv6 has", async () => {
    expect((await apply(node, desiredFor(pod, { mtu: 1280, addresses: BOTH }))).error).toBeUndefined();
    expect((await kernelView(node, "eth0", pod)).link).toMatchObject({ mtu: 1280 });
  });

  it("leaves nothing when the host end does not keep its MAC", async () => {
    const desired = desiredFor(pod);

    // The kernel never shows a MAC in capitals, so this one is never there.
    const { error } = await apply(node, { ...desired, host: { ...desired.host, mac: "EE:EE:EE:EE:EE:EE" } });

    expect(error).toMatchObject({ word: "link-failed", message: expect.stringContaining("does not keep its MAC address") });
    await expectNothingLeft(node, pod);
  });
});
