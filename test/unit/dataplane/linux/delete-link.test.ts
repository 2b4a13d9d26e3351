/** A deletion that the kernel never carries out: the other side of the sockets is silent. */
import { deleteLink } from "../../../../dataplane/linux/deletions.ts";
import { encodeAttributes, text } from "../../../../dataplane/netlink/message.ts";
import { Peer } from "../../../support/netlink-peer.ts";

const [RTM_NEWLINK, IFLA_IFNAME] = [16, 3];

describe("a deletion that never ends", () => {
  afterEach(() => jest.useRealTimers());

  it("is given up after 20 seconds, with the thread free all the while", async () => {
    using kernel = new Peer();
    using news = new Peer();
    const link = Uint8Array.of(...new Array(16).fill(0), ...encodeAttributes([text(IFLA_IFNAME, "eth0")]));
    kernel.says(kernel.next, RTM_NEWLINK, link);
    kernel.acknowledges(kernel.next, 0);
    jest.useFakeTimers();

    let failure: unknown;
    const deletion = deleteLink({ socket: kernel.socket, monitor: news.socket }, "eth0", { where: "on the host" }).catch(
      (error: unknown) => {
        failure = error;
      },
    );
    await jest.advanceTimersByTimeAsync(19_900);
    expect(failure).toBeUndefined();
    await jest.advanceTimersByTimeAsync(200);
    await deletion;

    expect(failure).toMatchObject({
      word: "link-delete-timeout",
      message: "timed out deleting device on the host: eth0 is still there after 20 s",
    });
  });
});
