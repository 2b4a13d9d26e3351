/** A deletion that the kernel never carries out: the other side of the sockets is silent. */
import { deleteObserved } from "../../../../dataplane/linux/deletions.ts";
import { Peer } from "../../../support/netlink-peer.ts";

describe("a deletion that never ends", () => {
  afterEach(() => jest.useRealTimers());

  it("is given up after 20 seconds, with the thread free all the while", async () => {
    using kernel = new Peer();
    using news = new Peer();
    jest.useFakeTimers();

    let failure: unknown;
    const deletion = deleteObserved({ socket: kernel.socket, monitor: news.socket }, { index: 7, name: "eth0" }).catch((error: unknown) => {
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
  });
});
