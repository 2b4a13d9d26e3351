/** The pair of links made ahead, while the addresses are found: it must make no difference to anybody but the clock. */
import { apply, type PreparedOptions, prepareAndApply } from "../../support/dataplane-probe.ts";
import { type DesiredOptions, desiredFor, HOST_INTERFACE } from "../../support/desired-state.ts";
import { kernelView } from "../../support/kernel-view.ts";
import { type JsonRecord, Node, type Pod } from "../../support/node.ts";

const BOTH = ["10.60.0.0/32", "fd60::/128"];
const MAC = "02:11:22:33:44:55";

/** Everything that the kernel has of an attachment. */
async function stateOf(node: Node, pod: Pod, options: DesiredOptions) {
  const { host, pod: podEnd } = desiredFor(pod, options);
  const settings: Record<string, string | undefined> = {};
  for (const { path } of host.sysctls) settings[path] = await node.sysctl(path);
  for (const { path } of [...podEnd.sysctlsBeforeUp, ...podEnd.sysctls]) settings[path] = await node.sysctl(path, pod);
  return {
    host: await kernelView(node, HOST_INTERFACE),
    pod: await kernelView(node, podEnd.name, pod),
    neighbours: [
      await node.ip("-j", "neigh", "show", "nud", "permanent"),
      await node.podIp(pod, "-j", "neigh", "show", "nud", "permanent"),
    ],
    settings,
    links: [(await node.leftovers()).links, (await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)],
  };
}

/** What an ADD prepares does not know of addresses yet. */
type Known = "families unknown" | "families known";

function preparedWith(known: Known, pod: Pod, options: DesiredOptions = {}): PreparedOptions {
  if (known === "families unknown") return { prepared: desiredFor(pod, { ...options, addresses: [] }), isComplete: false };
  const desired = desiredFor(pod, options);
  return { prepared: { ...desired, host: { ...desired.host, routes: [] }, pod: { ...desired.pod, addresses: [] } }, isComplete: true };
}

async function expectNothingLeft(node: Node, pod: Pod): Promise<void> {
  expect(await node.leftovers()).toEqual({ links: [], routes: [] });
  expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
}

/** A bridge shows what is left of its timers. */
const withoutTimers = ({ linkinfo, ...link }: JsonRecord) => ({
  ...link,
  kind: JSON.stringify(linkinfo ?? {}).replace(/"[a-z_]+_timer":[\d.]+,?/g, ""),
});

const nameOf = ({ ifname }: JsonRecord) => ifname;

describe.each<Known>(["families unknown", "families known"])("a pair that was prepared, %s,", (known) => {
  const prepared = (pod: Pod, options: DesiredOptions = {}) => preparedWith(known, pod, options);

  it.each<[string, DesiredOptions]>([
    ["IPv4", {}],
    ["IPv6", { addresses: ["fd60::/128"] }],
    ["both families, a fixed neighbour", { addresses: BOTH, neighbours: [{ address: "169.254.1.1", mac: "ee:ee:ee:ee:ee:ee" }] }],
    ["MTU and queues", { addresses: BOTH, mtu: 1400, queues: 3 }],
    ["no address at all", { addresses: [] }],
    ["a netkit, or what the kernel has for it", { kind: "netkit", addresses: BOTH }],
    ["another interface", { podInterface: "net1", addresses: BOTH }],
  ])("ends as one that was not: %s", async (_, given) => {
    const options = { ...given, mac: MAC };
    await using plain = await Node.create();
    await using ahead = await Node.create();
    const [plainPod, aheadPod] = [await plain.addPod(), await ahead.addPod()];

    const expected = await apply(plain, desiredFor(plainPod, options));
    const story = await prepareAndApply(ahead, desiredFor(aheadPod, options), prepared(aheadPod, options));

    expect(expected.error).toBeUndefined();
    expect(story).toMatchObject({ applied: expected.value, newDescriptors: 0 });
    expect(story.atGiveBack).toBeUndefined();
    expect(await stateOf(ahead, aheadPod, options)).toEqual(await stateOf(plain, plainPod, options));
  });

  it("has its routes, where they are known, as soon as it is prepared again, and ends as one that was not", async () => {
    const options = { addresses: BOTH, mac: MAC, neighbours: [{ address: "169.254.1.1", mac: "ee:ee:ee:ee:ee:ee" }] };
    await using plain = await Node.create();
    await using ahead = await Node.create();
    const [plainPod, aheadPod] = [await plain.addPod(), await ahead.addPod()];

    const expected = await apply(plain, desiredFor(plainPod, options));
    const story = await prepareAndApply(ahead, desiredFor(aheadPod, options), { ...prepared(aheadPod, options), later: "prepare" });

    expect(story).toMatchObject({ applied: expected.value, newDescriptors: 0 });
    const isGateway = ({ dst }: JsonRecord) => dst === "169.254.1.1";
    expect(story.podRoutes?.some(isGateway)).toBe(known === "families known");
    expect(await stateOf(ahead, aheadPod, options)).toEqual(await stateOf(plain, plainPod, options));
  });

  it("has no address, says already whose it is, and is up when nothing else is missing", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();

    const { links, addresses } = await prepareAndApply(node, desiredFor(pod), { ...prepared(pod), fails: "before" });

    const link = links.find(({ ifname }) => ifname === HOST_INTERFACE);
    const operstate = known === "families known" ? "UP" : "DOWN";
    expect(link).toMatchObject({ operstate, address: "ee:ee:ee:ee:ee:ee", ifalias: "tortie:net1/cid1/eth0" });
    expect(addresses.map(nameOf)).not.toContain(HOST_INTERFACE);
  });

  it.each(["before", "after"] as const)(
    "is gone when the ADD fails %s its addresses are on it, and so is every descriptor",
    async (fails) => {
      await using node = await Node.create();
      const pod = await node.addPod();

      const story = await prepareAndApply(node, desiredFor(pod, { addresses: BOTH }), { ...prepared(pod), fails });

      expect(story).toMatchObject({ error: { message: fails === "before" ? "no address" : "something later failed" }, newDescriptors: 0 });
      expect(story.links.map(nameOf)).toContain(HOST_INTERFACE);
      await expectNothingLeft(node, pod);
    },
  );

  it("has gone before the addresses that it carries are given back", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();

    const story = await prepareAndApply(node, desiredFor(pod, { addresses: BOTH }), { ...prepared(pod), fails: "after" });

    expect(story.applied).toMatchObject({ kind: "veth" });
    expect(story.atGiveBack).toEqual(["lo"]);
  });

  it("is refused like one that was not when its addresses do not fit it", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const options = { mtu: 1279, addresses: BOTH };

    const story = await prepareAndApply(node, desiredFor(pod, options), prepared(pod, options));

    expect(story).toMatchObject({ error: { word: "mtu-invalid", message: expect.stringContaining("1279") }, newDescriptors: 0 });
    await expectNothingLeft(node, pod);
  });

  it.each([
    ["a new MAC", `ip link set ${HOST_INTERFACE} address 02:00:00:00:00:09`, undefined],
    ["nothing at all: it is removed", `ip link del ${HOST_INTERFACE}`, undefined],
    ["another link in its place", `ip link del ${HOST_INTERFACE}; ip link add ${HOST_INTERFACE} type bridge`, undefined],
    ["nothing, and what ADD removes itself is removed", "true", "remove"],
    ["nothing", "true", "prepare"],
    ["a new MAC, which is seen at once", `ip link set ${HOST_INTERFACE} address 02:00:00:00:00:09`, "prepare"],
  ] as const)("is mended, or made again, when somebody gives it %s", async (_, between, later) => {
    await using node = await Node.create();
    const pod = await node.addPod();

    const options = { ...prepared(pod), between: `PATH=/usr/sbin:/usr/bin:/bin; ${between}`, ...(later && { later }) };
    const story = await prepareAndApply(node, desiredFor(pod), options);

    expect(story).toMatchObject({ newDescriptors: 0, applied: { kind: "veth", warnings: [] } });
    const view = await kernelView(node, HOST_INTERFACE);
    expect(view.link).toMatchObject({ kind: "veth", address: "ee:ee:ee:ee:ee:ee", operstate: "UP", ifalias: "tortie:net1/cid1/eth0" });
    expect((await node.leftovers()).links).toEqual([HOST_INTERFACE]);
    expect((await kernelView(node, "eth0", pod)).link).toMatchObject({ address: story.applied?.podMac, operstate: "UP" });
  });
});

describe("a pair that was set up for other addresses", () => {
  it.each<[string, readonly string[], readonly string[]]>([
    ["more", ["10.60.0.0/32"], BOTH],
    ["fewer", BOTH, ["10.60.0.0/32"]],
    ["others", ["fd60::/128"], ["10.60.0.0/32"]],
  ])("is made anew for %s families than expected, routes and all", async (_, expected, addresses) => {
    await using plain = await Node.create();
    await using ahead = await Node.create();
    const [plainPod, aheadPod] = [await plain.addPod(), await ahead.addPod()];

    await apply(plain, desiredFor(plainPod, { addresses, mac: MAC }));
    const story = await prepareAndApply(ahead, desiredFor(aheadPod, { addresses, mac: MAC }), {
      ...preparedWith("families known", aheadPod, { addresses: expected, mac: MAC }),
      later: "prepare",
    });

    expect(story).toMatchObject({ applied: { kind: "veth", warnings: [] }, newDescriptors: 0 });
    const options = { addresses: BOTH, mac: MAC };
    expect(await stateOf(ahead, aheadPod, options)).toEqual(await stateOf(plain, plainPod, options));
  });
});

describe("preparing where something is in the way", () => {
  const prepared = (pod: Pod, options: DesiredOptions = {}) => preparedWith("families known", pod, options);

  it.each([
    ["the host's end of an older sandbox", ["type", "veth", "peer", "name", "x0"]],
    ["a bridge", ["type", "bridge"]],
  ])("changes nothing: %s; applying replaces it", async (_, kind) => {
    await using node = await Node.create();
    const pod = await node.addPod();
    await node.ip("link", "add", HOST_INTERFACE, ...kind);
    await node.ip("link", "set", HOST_INTERFACE, "up", "alias", "tortie:net1/older/eth0");
    const before = (await node.ip("-j", "-d", "link", "show")).map(withoutTimers);

    const failed = await prepareAndApply(node, desiredFor(pod), { ...prepared(pod), fails: "before" });
    expect(failed.newDescriptors).toBe(0);
    expect(failed.links.map(withoutTimers)).toEqual(before);
    expect((await node.ip("-j", "-d", "link", "show")).map(withoutTimers)).toEqual(before);
    expect(await node.podIp(pod, "-j", "link", "show")).toHaveLength(1);

    const story = await prepareAndApply(node, desiredFor(pod), prepared(pod));
    expect(story).toMatchObject({ newDescriptors: 0, applied: { kind: "veth" } });
    expect(story.links.map(withoutTimers)).toEqual(before);
    expect((await kernelView(node, HOST_INTERFACE)).link).toMatchObject({ ifalias: "tortie:net1/cid1/eth0", operstate: "UP" });
  });

  it("changes nothing where the pod has such an interface, which applying names", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    await node.podIp(pod, "link", "add", "eth0", "type", "veth", "peer", "name", "x0");
    const inPod = await node.podIp(pod, "-j", "-d", "link", "show");

    const story = await prepareAndApply(node, desiredFor(pod), prepared(pod));

    expect(story.links.map(nameOf)).toEqual(["lo"]);
    expect(story).toMatchObject({ error: { word: "interface-exists" }, newDescriptors: 0 });
    expect(await node.podIp(pod, "-j", "-d", "link", "show")).toEqual(inPod);
    expect(await node.leftovers()).toEqual({ links: [], routes: [] });
  });

  it.each<[string, DesiredOptions, string]>([
    ["an MTU that no link takes", { mtu: 67 }, "mtu-invalid"],
    ["a MAC that no link takes", { mac: "01:00:00:00:00:00" }, "mac-invalid"],
    ["too many queues", { queues: 5000 }, "queues-invalid"],
  ])("is no failure, but applying is: %s", async (_, options, word) => {
    await using node = await Node.create();
    const pod = await node.addPod();

    const story = await prepareAndApply(node, desiredFor(pod, options), prepared(pod, options));

    expect(story.links.map(nameOf)).toEqual(["lo"]);
    expect(story).toMatchObject({ error: { word }, newDescriptors: 0 });
    await expectNothingLeft(node, pod);
  });

  it("is no failure where there is no sandbox, but applying is", async () => {
    await using node = await Node.create();
    const pod = { name: "none", netnsPath: `${node.dir}/none` };

    const story = await prepareAndApply(node, desiredFor(pod), prepared(pod));

    expect(story).toMatchObject({ error: { word: "netns-missing" }, newDescriptors: 0 });
    expect(await node.leftovers()).toEqual({ links: [], routes: [] });
  });
});
