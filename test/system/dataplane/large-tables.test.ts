/**
 * How much the dataplane reads of tables that others have filled, counted in messages of the kernel: the work for one link is bounded, or does
 * not depend on the size of the table at all.
 */
import { type Answer, apply, drift, expressionOf, inspect, probe, remove } from "../../support/dataplane-probe.ts";
import { desiredFor, HOST_INTERFACE } from "../../support/desired-state.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node, type Pod } from "../../support/node.ts";

const BOTH = ["10.60.0.0/32", "fd60::/128"];
const MOST_READ = 4096;

interface Counted {
  /** Messages of all dumps. */
  readonly read: number;
  readonly outcome: unknown;
}

/** Does something with the dataplane, and counts what the kernel's dumps had meanwhile. */
const counted = (node: Node, work: string): Promise<Answer<Counted>> =>
  probe(
    node,
    `(async () => {
      const { NetlinkSocket } = await import("${process.cwd()}/dataplane/netlink/socket.ts");
      const { dump } = NetlinkSocket.prototype;
      let read = 0;
      NetlinkSocket.prototype.dump = function (request, most) {
        try {
          const messages = dump.call(this, request, most);
          read += messages.length;
          return messages;
        } catch (error) {
          read += most ?? 0;
          throw error;
        }
      };
      const outcome = await ${work}.catch((error) => error.message);
      return { read, outcome };
    })()`,
  );

const batch = async (node: Node, lines: readonly string[], pod?: Pod) =>
  expect(await node.run(["/usr/sbin/ip", "-batch", "-"], { stdin: lines.join("\n") }, pod)).toMatchObject({ exit: 0 });

const routes = (count: number, device: string) =>
  Array.from({ length: count }, (_, index) => `route add 10.${100 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}/32 dev ${device}`);

const other = ["link add other0 type bridge", "link set other0 up"];

const node = fresh(Node.create);
const pod = fresh(() => node.addPod());

describe("A table that others have filled", () => {
  it("S4: names the route of a sandbox with 50,000 that is in the way of a new link, and reads at most a part of them", async () => {
    await batch(node, [...other, ...routes(50_000, "other0"), "route add 169.254.1.1 dev other0"], pod);

    const { value } = await counted(node, `apply(${expressionOf(desiredFor(pod, { addresses: BOTH }))}, false)`);

    expect(value?.outcome).toContain("Dst: 169.254.1.1/32, Scope: link, Iface: other0");
    expect(value?.read).toBeLessThan(100);
    await node.expectClean();
  });

  it("S4: does not look for a default route among more than 4,096 others", async () => {
    await batch(node, [...other, ...routes(50_000, "other0"), "route add default dev other0"], pod);

    const { value } = await counted(node, `apply(${expressionOf(desiredFor(pod, { addresses: BOTH }))}, false)`);

    expect(value?.outcome).toContain("one of more than 4096");
    expect(value?.read).toBeLessThan(MOST_READ + 100);
    await node.expectClean();
  });

  it("S4: compares and mends a host end without reading the host's routes", async () => {
    const desired = desiredFor(pod, { addresses: BOTH });
    await apply(node, desired);
    await batch(node, [
      ...other,
      ...routes(20_000, "other0"),
      `route del 10.60.0.0 dev ${HOST_INTERFACE}`,
      "route add 10.60.0.0 dev other0",
    ]);

    const inspected = await counted(node, `dataplane.inspect(${expressionOf(desired)}, {})`);
    expect(inspected.value?.outcome).toEqual([
      { side: "host", object: "route 10.60.0.0/32", wanted: `dev ${HOST_INTERFACE} scope link`, found: "dev other0 scope link" },
    ]);
    expect(inspected.value?.read).toBeLessThan(100);
    const refused = await counted(node, `dataplane.mend(${expressionOf(desired)}, undefined)`);
    expect(refused.value?.outcome).toContain("Iface: other0");
    expect(refused.value?.read).toBeLessThan(100);

    await node.ip("route", "del", "10.60.0.0", "dev", "other0");
    const mended = await counted(node, `dataplane.mend(${expressionOf(desired)}, undefined)`);
    expect(mended.value?.outcome).toMatchObject({ left: [] });
    expect(mended.value?.read).toBeLessThan(100);
  });

  it("S4: reads at most 4,096 entries of a sandbox for one comparison, over all of its lists", async () => {
    const desired = desiredFor(pod, { addresses: BOTH });
    await apply(node, desired);
    const addresses = Array.from({ length: 2500 }, (_, index) => `addr add 10.99.${index >> 8}.${index & 255}/32 dev eth0`);
    await batch(node, addresses, pod);
    expect(await inspect(node, desired)).toEqual({ value: [] });

    await batch(node, routes(2500, "eth0"), pod);

    expect((await inspect(node, desired)).error?.word).toBe("sandbox-too-large");
  });

  it("S4: finds a neighbour among 10,000 without reading them", async () => {
    const desired = desiredFor(pod, { addresses: BOTH, neighbours: [{ address: "169.254.1.1", mac: "ee:ee:ee:ee:ee:ee" }] });
    await apply(node, desired);
    const neighbours = Array.from(
      { length: 10_000 },
      (_, index) => `neigh add 10.98.${index >> 8}.${index & 255} lladdr 02:00:00:00:00:01 nud permanent dev eth0`,
    );
    await batch(node, neighbours, pod);

    const found = await counted(node, `dataplane.inspect(${expressionOf(desired)}, {})`);

    expect(found.value?.outcome).toEqual([]);
    expect(found.value?.read).toBeLessThan(100);
  });

  it("S4: compares, mends and removes a link to which the container has given hundreds of names", async () => {
    const desired = desiredFor(pod, { addresses: BOTH });
    await apply(node, desired);
    // 50 KiB of names: the kernel's answer about the link is larger than most others.
    const names = Array.from({ length: 400 }, (_, index) => `link property add dev eth0 altname ${index}${"x".repeat(120)}`);
    await batch(node, names, pod);

    expect(await inspect(node, desired)).toEqual({ value: [] });
    expect(await drift(node, desired)).toEqual({ value: [] });
    const link = { hostInterface: HOST_INTERFACE, owner: desired.host.owner, sandbox: pod.netnsPath };
    expect((await remove(node, link)).error).toBeUndefined();
    await node.expectClean();
  });
});
