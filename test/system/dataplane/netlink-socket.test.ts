import { probe } from "../../support/dataplane-probe.ts";
import { Node } from "../../support/node.ts";

/** Evaluates with a socket of the route family called `socket`, in the node's namespace. */
const withSocket = <T>(node: Node, expression: string, before?: string) =>
  probe<T>(
    node,
    `(async () => {
      const { NetlinkSocket, NetlinkError, NETLINK_ROUTE } = await import("${process.cwd()}/dataplane/netlink/socket.ts");
      const { getLink, listLinks } = await import("${process.cwd()}/dataplane/linux/link.ts");
      using socket = NetlinkSocket.open(NETLINK_ROUTE);
      return ${expression};
    })()`,
    before === undefined ? {} : { before },
  );

describe("a conversation with the kernel", () => {
  it("lists more links than one datagram holds", async () => {
    await using node = await Node.create();
    const batch = Array.from({ length: 100 }, (_, index) => `link add many${index} type bridge\n`).join("");
    expect(await node.run(["/usr/sbin/ip", "-batch", "-"], { stdin: batch })).toMatchObject({ exit: 0 });

    const { value } = await withSocket<string[]>(node, "listLinks(socket).map(({ name }) => name)");

    expect(value?.sort()).toEqual((await node.ip("-j", "link", "show")).map(({ ifname }) => ifname).sort());
    expect(value).toHaveLength(101);
  });

  it("gives the kernel's own words with a refusal", async () => {
    await using node = await Node.create();
    // An RTM_NEWLINK that creates a kind which does not exist: struct ifinfomsg, then IFLA_LINKINFO with IFLA_INFO_KIND "nokind".
    const request = `{ type: 16, flags: 0x600, payload: Uint8Array.of(...new Array(16).fill(0), 16, 0, 18, 128, 11, 0, 1, 0, ...Buffer.from("nokind\\0"), 0) }`;

    const { error } = await withSocket(node, `socket.request(${request})`);

    expect(error?.message).toBe("operation not supported (EOPNOTSUPP): Unknown device type");
  });

  it("tells a link that is not there from other failures", async () => {
    await using node = await Node.create();
    expect(await withSocket(node, `getLink(socket, { name: "absent" }) ?? "none"`)).toEqual({ value: "none" });
    expect((await withSocket(node, `getLink(socket, { name: "a name that is far too long" })`)).error?.message).toMatch(/ERANGE/);
  });
});
