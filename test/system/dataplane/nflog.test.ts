/** Packets that a real rule logs, as they arrive over netlink. */
import { probe } from "../../support/dataplane-probe.ts";
import { Node } from "../../support/node.ts";

const GROUP = 977;
const RULES = (group: number) => `
  table inet why {
    chain output {
      type filter hook output priority 0;
      udp dport 5353 log prefix "tortie:egress:denied" group ${group} counter drop
      tcp dport 5353 log prefix "tortie:ingress:tcp-without-syn" group ${group} drop
    }
  }`;

/** Listens to the group, does something, waits until enough packets or losses have come, and says what came. */
const during = (work: string, wanted: number, group = GROUP) => `(async () => {
  const { listenToGroup } = await import("${process.cwd()}/dataplane/nflog/group.ts");
  const { formatAddress } = await import("${process.cwd()}/lib/addresses/address.ts");
  const { getLink } = await import("${process.cwd()}/dataplane/rtnetlink/link.ts");
  const { createSocket } = await import("node:dgram");
  const packets = [];
  let lost = 0;
  const ended = [];
  const listener = { onPackets: (some) => packets.push(...some), onLost: (count) => { lost += count; }, onEnd: (error) => ended.push(String(error)) };
  const send = (type, to, count) => new Promise((done) => {
    const socket = createSocket(type);
    let left = count;
    for (let i = 0; i < count; i++) socket.send("x", 5353, to, () => { if (--left === 0) { socket.close(); done(); } });
  });
  using log = await listenToGroup(${group}, listener);
  const begin = performance.now();
  ${work}
  while (packets.length + lost < ${wanted} && performance.now() - begin < 20000) await Bun.sleep(5);
  const nameOf = (index) => index && getLink(host.route, { index })?.name;
  const text = ({ prefix, inInterface, outInterface, header }) => [
    prefix, nameOf(inInterface) ?? "-", nameOf(outInterface) ?? "-",
    header && formatAddress(header.source), header && formatAddress(header.destination), header?.protocol, header?.destinationPort, header?.tcpFlags ?? "-",
  ].join(" ");
  return { first: packets.slice(0, 3).map(text), count: packets.length, lost, ended };
})()`;

async function nodeWithRules(): Promise<Node> {
  const node = await Node.create();
  await node.ip("link", "set", "lo", "up");
  const { exit, stderr } = await node.run(["/usr/sbin/nft", RULES(GROUP)]);
  expect({ exit, stderr }).toEqual({ exit: 0, stderr: "" });
  return node;
}

describe("the kernel's packet log", () => {
  it("tells the rule's prefix, the interface's name, both ends and the port, of both families", async () => {
    await using node = await nodeWithRules();
    const work = `await send("udp4", "127.0.0.1", 1); await send("udp6", "::1", 1);`;
    expect(await probe(node, during(work, 2))).toEqual({
      value: {
        first: ["tortie:egress:denied - lo 127.0.0.1 127.0.0.1 17 5353 -", "tortie:egress:denied - lo ::1 ::1 17 5353 -"],
        count: 2,
        lost: 0,
        ended: [],
      },
    });
  });

  it("tells the flags of a TCP packet", async () => {
    await using node = await nodeWithRules();
    const work = `
      const { connect } = await import("node:net");
      const attempt = connect({ host: "127.0.0.1", port: 5353 });
      attempt.on("error", () => undefined);
      while (packets.length === 0) await Bun.sleep(5);
      attempt.destroy();`;
    const { value } = await probe<{ readonly first: readonly string[] }>(node, during(work, 1));
    expect(value?.first[0]).toMatch(/^tortie:ingress:tcp-without-syn - lo 127\.0\.0\.1 127\.0\.0\.1 6 5353 (2|194)$/);
  });

  it("shows or counts each of 2,000 packets", async () => {
    await using node = await nodeWithRules();
    const { value } = await probe<{ readonly count: number; readonly lost: number }>(
      node,
      during(`await send("udp4", "127.0.0.1", 2000);`, 2000),
    );
    expect((value?.count ?? 0) + (value?.lost ?? 0)).toBe(2000);
    expect(value?.count).toBeGreaterThan(100);
  });

  it("counts what came while nobody read, and goes on", async () => {
    await using node = await nodeWithRules();
    // The loop stands still while another process sends more than the socket has room for.
    const flood = `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(60000):
  try: s.sendto(b"x" * 1200, ("127.0.0.1", 5353))
  except PermissionError: pass`;
    const work = `
      await send("udp4", "127.0.0.1", 1);
      while (packets.length === 0) await Bun.sleep(5);
      Bun.spawnSync(["python3", "-c", ${JSON.stringify(flood)}]);
      await Bun.sleep(200);
      await send("udp4", "127.0.0.1", 1);`;
    const { value } = await probe<{ readonly count: number; readonly lost: number; readonly ended: readonly string[] }>(
      node,
      during(work, 60_002),
    );
    expect(value?.lost).toBeGreaterThan(0);
    expect((value?.count ?? 0) + (value?.lost ?? 0)).toBe(60_002);
    expect(value?.ended).toEqual([]);
  });

  it("belongs to one listener; who comes second is told so, and the first goes on", async () => {
    await using node = await nodeWithRules();
    const work = `
      const second = await listenToGroup(${GROUP}, listener).catch((error) => error);
      ended.push(second.name + ": " + second.message);
      await send("udp4", "127.0.0.1", 1);`;
    expect(await probe(node, during(work, 1))).toEqual({
      value: expect.objectContaining({
        count: 1,
        ended: [`GroupTakenError: group ${GROUP} of the kernel's packet log (NFLOG) has another listener`],
      }),
    });
  });

  it("is given back with its descriptor when the listener is disposed", async () => {
    await using node = await nodeWithRules();
    const work = `
      const { readdirSync } = await import("node:fs");
      const before = readdirSync("/proc/self/fd").length;
      for (let i = 0; i < 20; i++) { const other = await listenToGroup(${GROUP + 1}, listener); other[Symbol.dispose](); }
      await Bun.sleep(10);
      ended.push("more descriptors: " + (readdirSync("/proc/self/fd").length - before));`;
    expect(await probe(node, during(work, 0))).toEqual({ value: expect.objectContaining({ ended: ["more descriptors: 0"] }) });
  });
});
