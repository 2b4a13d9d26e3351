/** Links that go, or cannot be asked for, while their deletion is prepared: the other side of the socket is a peer. */
import { JoinedDeletions } from "../../../../dataplane/linux/deletions.ts";
import { encodeAttributes, text } from "../../../../dataplane/netlink/message.ts";
import { fresh } from "../../../support/fixtures.ts";
import { Peer } from "../../../support/netlink-peer.ts";

const [RTM_NEWLINK, IFLA_IFNAME] = [16, 3];
const [EPERM, ENODEV] = [1, 19];

const kernel = fresh(() => new Peer());

function linkOf(index: number): Uint8Array {
  const name = encodeAttributes([text(IFLA_IFNAME, `cali${index}`)]);
  const payload = Uint8Array.of(...new Array(16).fill(0), ...name);
  new DataView(payload.buffer).setInt32(4, index, true);
  return payload;
}

/** Answers the next question with the link. */
function shows(sequence: number, index: number): void {
  kernel.says(sequence, RTM_NEWLINK, linkOf(index));
  kernel.acknowledges(sequence, 0);
}

function deletionsOf(isRight: () => boolean, ...indexes: readonly number[]) {
  const deletions = new JoinedDeletions({ route: kernel.socket });
  return Promise.allSettled(indexes.map((index) => deletions.delete({ index, name: `cali${index}` }, isRight)));
}

const NOT_DELETED = { status: "fulfilled", value: false };

describe("links that are deleted together", () => {
  it("are finished where they go between the look at them and the mark", async () => {
    for (const at of [0, 1]) {
      shows(kernel.next + 2 * at, at + 1);
      kernel.acknowledges(kernel.next + 2 * at + 1, ENODEV);
    }
    expect(await deletionsOf(() => true, 1, 2)).toEqual([NOT_DELETED, NOT_DELETED]);
  });

  it("each have an outcome of their own", async () => {
    shows(kernel.next, 1);
    kernel.acknowledges(kernel.next + 1, EPERM);
    kernel.acknowledges(kernel.next + 2, ENODEV);
    expect(await deletionsOf(() => true, 1, 2)).toEqual([
      { status: "rejected", reason: expect.objectContaining({ errno: EPERM }) },
      NOT_DELETED,
    ]);
  });

  it("stay where they are others by now", async () => {
    for (const at of [0, 1]) shows(kernel.next + at, at + 1);
    expect(await deletionsOf(() => false, 1, 2)).toEqual([NOT_DELETED, NOT_DELETED]);
  });
});

describe("a link that is deleted alone", () => {
  it("stays where it is another one by now, and is finished where it is gone", async () => {
    shows(kernel.next, 1);
    kernel.acknowledges(kernel.next + 1, ENODEV);
    expect(await deletionsOf(() => false, 1)).toEqual([NOT_DELETED]);
    expect(await deletionsOf(() => true, 1)).toEqual([NOT_DELETED]);
  });

  it("fails where the kernel refuses to show it", async () => {
    kernel.acknowledges(kernel.next, EPERM);
    expect(await deletionsOf(() => true, 1)).toMatchObject([{ status: "rejected", reason: { errno: EPERM } }]);
  });
});
