import { expressionOf, probe } from "../../support/dataplane-probe.ts";
import { desiredFor } from "../../support/desired-state.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node } from "../../support/node.ts";

/** Evaluates with a socket of the route family called `socket`, in the node's namespace. */
const withSocket = <T>(node: Node, expression: string, before?: string) =>
  probe<T>(
    node,
    `(async () => {
      const { NetlinkSocket, NETLINK_ROUTE } = await import("${process.cwd()}/dataplane/netlink/socket.ts");
      const { NetlinkError } = await import("${process.cwd()}/dataplane/netlink/message.ts");
      const { getLink, listLinks } = await import("${process.cwd()}/dataplane/rtnetlink/link.ts");
      using socket = NetlinkSocket.open(NETLINK_ROUTE);
      return ${expression};
    })()`,
    before === undefined ? {} : { before },
  );

const node = fresh(Node.create);

describe("a conversation with the kernel", () => {
  it("lists more links than one datagram holds", async () => {
    const batch = Array.from({ length: 100 }, (_, index) => `link add many${index} type bridge\n`).join("");
    expect(await node.run(["/usr/sbin/ip", "-batch", "-"], { stdin: batch })).toMatchObject({ exit: 0 });

    const { value } = await withSocket<string[]>(node, "listLinks(socket).map(({ name }) => name)");

    expect(value?.sort()).toEqual((await node.ip("-j", "link", "show")).map(({ ifname }) => ifname).sort());
    expect(value).toHaveLength(101);
  });

  it("gives the kernel's own words with a refusal", async () => {
    // An RTM_NEWLINK that creates a kind which does not exist: struct ifinfomsg, then IFLA_LINKINFO with IFLA_INFO_KIND "nokind".
    const request = `{ type: 16, flags: 0x600, payload: Uint8Array.of(...new Array(16).fill(0), 16, 0, 18, 128, 11, 0, 1, 0, ...Buffer.from("nokind\\0"), 0) }`;

    const { error } = await withSocket(node, `socket.request(${request})`);

    expect(error?.message).toBe("operation not supported (EOPNOTSUPP): Unknown device type");
  });

  it("tells a link that is not there from other failures", async () => {
    expect(await withSocket(node, `getLink(socket, { name: "absent" }) ?? "none"`)).toEqual({ value: "none" });
    expect((await withSocket(node, `getLink(socket, { name: "a name that is far too long" })`)).error?.message).toMatch(/ERANGE/);
  });

  it("goes on when there was more news than the socket holds, which is lost", async () => {
    const lines = Array.from({ length: 400 }, (_, index) => `link set dev lo mtu ${60_000 + index}\\n`).join("");
    const work = `(() => {
      using monitor = NetlinkSocket.open(NETLINK_ROUTE, 1);
      const { exitCode } = Bun.spawnSync(["/usr/sbin/ip", "-batch", "-"], { stdin: Buffer.from("${lines}") });
      const first = monitor.news().length;
      Bun.spawnSync(["/usr/sbin/ip", "link", "set", "dev", "lo", "mtu", "50000"]);
      return { exitCode, hasLost: first < 400, isHeardAgain: monitor.news().length > 0 };
    })()`;

    expect(await withSocket(node, work)).toEqual({ value: { exitCode: 0, hasLost: true, isHeardAgain: true } });
  });

  it("S4: reads a bounded part of the news at a look, whoever sends it, and goes on there at the next", async () => {
    // More forged news than a look reads, before the kernel's own.
    const forge = `
import socket, struct
forger = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
for _ in range(100):
  forger.sendto(struct.pack("=IHHII", 32, 17, 0, 0, 0) + bytes(16), (0, 1))`;
    const work = `(() => {
      using monitor = NetlinkSocket.open(NETLINK_ROUTE, 1);
      Bun.spawnSync(["/usr/bin/python3", "-c", ${JSON.stringify(forge)}]);
      for (const mtu of ["60000", "60001"]) Bun.spawnSync(["/usr/sbin/ip", "link", "set", "dev", "lo", "mtu", mtu]);
      return [monitor.news().length, monitor.news().length, monitor.news().length];
    })()`;

    expect(await withSocket(node, work)).toEqual({ value: [0, 2, 0] });
  });

  it("L2: has the kernel's answers and news only, whoever else sends some", async () => {
    // struct nlmsghdr with an acknowledgement of success, and one with the news that link 1 was deleted, which both say what they are asked to.
    const forge = `
import socket, struct, sys
port, sequence = int(sys.argv[1]), int(sys.argv[2])
forger = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
forger.sendto(struct.pack("=IHHII", 36, 2, 0, sequence, port) + bytes(20), (port, 0))
link = struct.pack("=BxHiII", 0, 0, 1, 0, 0)
forger.sendto(struct.pack("=IHHII", 32, 17, 0, 0, 0) + link, (0, 1))`;
    const { value, error } = await withSocket<unknown[]>(
      node,
      `await (async () => {
        const { RTMGRP_LINK } = await import("${process.cwd()}/dataplane/netlink/socket.ts");
        using monitor = NetlinkSocket.open(NETLINK_ROUTE, RTMGRP_LINK);
        // A socket has a port as soon as it has sent something.
        getLink(socket, { index: 1 });
        const sequence = new DataView(socket.prepare({ type: 18, payload: new Uint8Array(16) }).buffer).getUint32(8, true);
        const { readFileSync } = await import("node:fs");
        const ports = readFileSync("/proc/self/net/netlink", "utf8").split("\\n").slice(1).map((line) => line.trim().split(/ +/)[2]);
        for (const port of ports.filter((port) => port !== undefined && port !== "0")) {
          Bun.spawnSync(["/usr/bin/python3", "-c", ${JSON.stringify(forge)}, port, String(sequence)]);
        }
        const asked = getLink(monitor, { index: 1 })?.name;
        return [ports.length > 2, socket.isAnswered(), monitor.news().length, asked];
      })()`,
    );
    expect({ value, error }).toEqual({ value: [true, false, 0, "lo"], error: undefined });
  });

  it("seven:3: cannot be filled by another program, and gets its answer while one tries", async () => {
    // Sends a message of 1 KiB again and again, until the socket takes no more.
    const flood = `
import socket, struct, sys
flooder = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
message = struct.pack("=IHHII", 1024, 16, 0, 0, 0) + bytes(1008)
sent = 0
try:
  while sent < 10000:
    flooder.sendto(message, socket.MSG_DONTWAIT, (int(sys.argv[1]), 0))
    sent += 1
except OSError:
  pass
print(sent)`;
    const { value, error } = await withSocket<unknown[]>(
      node,
      `await (async () => {
        getLink(socket, { index: 1 });
        const { readFileSync } = await import("node:fs");
        const ports = readFileSync("/proc/self/net/netlink", "utf8").split("\\n").slice(1).map((line) => line.trim().split(/ +/)[2]);
        const own = ports.filter((port) => port !== undefined && port !== "0");
        const taken = own.map((port) => Number(String(Bun.spawnSync(["/usr/bin/python3", "-c", ${JSON.stringify(flood)}, port]).stdout)));
        return [own.length, taken, getLink(socket, { index: 1 })?.name, listLinks(socket).length];
      })()`,
    );
    expect({ value, error }).toEqual({ value: [1, [0], "lo", 1], error: undefined });
  });
});

describe("the sockets of the host", () => {
  it("are the host's, whatever sandbox the thread is in when they are used, and are not opened there", async () => {
    const pod = await node.addPod();
    await node.ip("link", "add", "outside", "type", "bridge");
    await node.podIp(pod, "link", "add", "inside", "type", "bridge");

    const { value, error } = await probe<unknown>(
      node,
      `(async () => {
        const { listLinks } = await import("${process.cwd()}/dataplane/rtnetlink/link.ts");
        const { inNamespace } = await import("${process.cwd()}/lib/system/netns.ts");
        const { Sandbox } = await import("${process.cwd()}/lib/system/sandbox.ts");
        using sandbox = Sandbox.named("${pod.netnsPath}");
        const links = () => listLinks(host.route).map(({ name }) => name).sort();
        const refusal = (() => { try { return inNamespace(sandbox, links); } catch (error) { return error.message; } })();
        return [refusal, links(), inNamespace(sandbox, links)];
      })()`,
    );

    expect({ value, error }).toEqual({
      value: ["a socket of the host cannot be opened while this thread is in a sandbox", ["lo", "outside"], ["lo", "outside"]],
      error: undefined,
    });
  });

  it("are two for a process that adds a pod and looks at it, and none is left behind", async () => {
    const pod = await node.addPod();
    const desired = desiredFor(pod, { addresses: ["10.60.0.1/32"] });

    const { value, error } = await probe<number[]>(
      node,
      `(async () => {
        const { readdirSync, readlinkSync } = await import("node:fs");
        const own = () => readdirSync("/proc/self/fd").filter((fd) => { try { return readlinkSync("/proc/self/fd/" + fd).startsWith("socket:"); } catch { return false; } }).length;
        const before = own();
        await apply(${expressionOf(desired)}, false);
        for (let times = 0; times < 3; times++) await dataplane.inspect(${expressionOf(desired)});
        await dataplane.applyNode({ forwardedFamilies: [4], guardedPrefixes: [] });
        await dataplane.list();
        const kept = own() - before;
        host[Symbol.dispose]();
        return [kept, own() - before];
      })()`,
    );
    expect({ value, error }).toEqual({ value: [2, 0], error: undefined });
  });
});
