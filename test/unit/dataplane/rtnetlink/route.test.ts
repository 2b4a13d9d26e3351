/** A route whose place is taken, by one that comes and goes while it is looked for. */
import { installRoute } from "../../../../dataplane/rtnetlink/route.ts";
import { prefix } from "../../../support/addresses.ts";
import { fresh } from "../../../support/fixtures.ts";
import { Peer } from "../../../support/netlink-peer.ts";

const EEXIST = 17;
const EPERM = 1;
const ROUTE = { destination: prefix("10.60.0.0/24"), scope: "link" } as const;

const peer = fresh(() => new Peer());

/** One try: the kernel refuses, and neither the link nor the whole table has a route to the destination. */
function refuses(from: number): number {
  peer.acknowledges(from, EEXIST);
  peer.listsNothing(from + 1);
  peer.listsNothing(from + 2);
  return from + 3;
}

describe("a route", () => {
  it("is tried again when the one that was in its place is gone", () => {
    peer.acknowledges(refuses(peer.next), 0);
    expect(installRoute(peer.socket, 7, "cali0", ROUTE)).toBeUndefined();
  });

  it("is given up when that has happened three times", () => {
    let next = peer.next;
    for (let tries = 0; tries < 3; tries++) next = refuses(next);
    expect(() => installRoute(peer.socket, 7, "cali0", ROUTE)).toThrow(
      expect.objectContaining({ word: "route-conflict", message: expect.stringContaining("(gone again, or one of more than 4096)") }),
    );
  });

  it("is not tried again where the kernel refuses it for another reason", () => {
    peer.acknowledges(peer.next, EPERM);
    expect(() => installRoute(peer.socket, 7, "cali0", ROUTE)).toThrow(expect.objectContaining({ word: "route-failed" }));
  });
});
