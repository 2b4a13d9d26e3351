/** A deletion that the kernel never carries out: the other side of the sockets is silent. */
import { dlopen } from "bun:ffi";
import { closeSync, writeSync } from "node:fs";
import { deleteLink } from "../../../../dataplane/linux/delete-link.ts";
import { encodeAttributes, text } from "../../../../dataplane/netlink/attribute.ts";
import { encodeMessage, NLMSG_ERROR } from "../../../../dataplane/netlink/message.ts";
import { NetlinkSocket } from "../../../../dataplane/netlink/socket.ts";

const { symbols: libc } = dlopen("libc.so.6", { socketpair: { args: ["i32", "i32", "i32", "ptr"], returns: "i32" } });
const [AF_UNIX, SOCK_DGRAM] = [1, 2];
const [RTM_NEWLINK, IFLA_IFNAME] = [16, 3];

function silentPair(): [NetlinkSocket, number] {
  const pair = new Int32Array(2);
  expect(libc.socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)).toBe(0);
  const [own = -1, other = -1] = pair;
  return [new NetlinkSocket(own), other];
}

describe("a deletion that never ends", () => {
  afterEach(() => jest.useRealTimers());

  it("is given up after 20 seconds, with the thread free all the while", async () => {
    const [socket, kernel] = silentPair();
    const [monitor, news] = silentPair();
    const sequence = new DataView(socket.prepare({ type: 18, payload: new Uint8Array(16) }).buffer).getUint32(8, true) + 1;
    const link = Uint8Array.of(...new Array(16).fill(0), ...encodeAttributes([text(IFLA_IFNAME, "eth0")]));
    writeSync(kernel, encodeMessage({ type: RTM_NEWLINK, flags: 0, sequence, payload: link }));
    writeSync(kernel, encodeMessage({ type: NLMSG_ERROR, flags: 0, sequence, payload: new Uint8Array(20) }));
    jest.useFakeTimers();

    let failure: unknown;
    const deletion = deleteLink({ socket, monitor, where: "on the host" }, { name: "eth0" }).catch((error: unknown) => {
      failure = error;
    });
    await jest.advanceTimersByTimeAsync(19_900);
    expect(failure).toBeUndefined();
    await jest.advanceTimersByTimeAsync(200);
    await deletion;

    expect(failure).toMatchObject({
      word: "link-delete-timeout",
      message: "timed out deleting device on the host: eth0 is still there after 20 s",
    });
    for (const one of [socket, monitor]) one[Symbol.dispose]();
    for (const fd of [kernel, news]) closeSync(fd);
  });
});
