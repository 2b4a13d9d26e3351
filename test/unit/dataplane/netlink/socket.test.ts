/** A conversation whose other side is scripted: what the kernel does not do on demand. */
import { dlopen } from "bun:ffi";
import { DumpTooLargeError, encodeMessage, NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR } from "../../../../dataplane/netlink/message.ts";
import { NETLINK_ROUTE, NetlinkSocket } from "../../../../dataplane/netlink/socket.ts";
import { fresh } from "../../../support/fixtures.ts";
import { Peer, REQUEST } from "../../../support/netlink-peer.ts";

const { symbols: libc } = dlopen("libc.so.6", { getsockopt: { args: ["i32", "i32", "i32", "ptr", "ptr"], returns: "i32" } });
const [SOL_SOCKET, SO_RCVTIMEO] = [1, 20];
const EEXIST = 17;
/** include/uapi/linux/netlink.h */
const NLM_F_MULTI = 0x2;

const peer = fresh(() => new Peer());

/** A part of a dump, and its end. */
const part = (sequence: number, octet: number, flags = 0) => peer.says(sequence, 16, new Uint8Array(4).fill(octet), NLM_F_MULTI | flags);
const end = (sequence: number, flags = 0) => peer.says(sequence, NLMSG_DONE, new Uint8Array(4), NLM_F_MULTI | flags);

describe("a question to the kernel", () => {
  it("is not answered by what answers an earlier one", () => {
    peer.acknowledges(peer.next - 1, EEXIST);
    peer.says(peer.next - 1, 16, Uint8Array.of(1, 1, 1, 1));
    peer.says(peer.next, 16, Uint8Array.of(2, 2, 2, 2));
    peer.acknowledges(peer.next, 0);

    expect(peer.socket.request(REQUEST).map(({ payload }) => payload[0])).toEqual([2]);
  });

  it("that somebody else sends is answered when its own answer is there, and not before", () => {
    peer.socket.prepare(REQUEST);
    expect(peer.socket.isAnswered()).toBe(false);
    peer.acknowledges(peer.next - 1, EEXIST);
    expect(peer.socket.isAnswered()).toBe(false);
    peer.acknowledges(peer.next, 0);
    expect(peer.socket.isAnswered()).toBe(true);
  });

  it("does not wait for ever", () => {
    using socket = NetlinkSocket.open(NETLINK_ROUTE);
    const limit = new BigInt64Array(2);
    expect(libc.getsockopt(socket.fd, SOL_SOCKET, SO_RCVTIMEO, limit, Uint32Array.of(16))).toBe(0);
    expect([...limit]).toEqual([10n, 0n]);
  });

  it("L2: has a number that cannot be guessed", () => {
    const firsts = Array.from({ length: 8 }, () => {
      using one = new Peer();
      return one.next;
    });
    expect(new Set(firsts).size).toBe(8);
    expect(Math.max(...firsts)).toBeGreaterThan(65536);
  });
});

describe("a dump", () => {
  it.each([
    ["in its parts", NLM_F_DUMP_INTR, 0],
    ["at its end", 0, NLM_F_DUMP_INTR],
  ])("that a change disturbed %s is begun again, and nothing of it is used", (_, inPart, atEnd) => {
    part(peer.next, 1, inPart);
    end(peer.next, atEnd);
    part(peer.next + 1, 2);
    end(peer.next + 1);

    expect(peer.socket.dump(REQUEST).map(({ payload }) => payload[0])).toEqual([2]);
  });

  it("of a list that never stands still is given up", () => {
    for (let tries = 0; tries < 10; tries++) end(peer.next + tries, NLM_F_DUMP_INTR);
    expect(() => peer.socket.dump(REQUEST)).toThrow("the list changed while it was read, 10 times");
  });
});

describe("a dump with a limit", () => {
  it("S4: is read whole where it has just as many messages, and given up where it has one more", () => {
    for (const octet of [1, 2]) part(peer.next, octet);
    end(peer.next);
    for (const octet of [1, 2, 3]) part(peer.next + 1, octet);
    end(peer.next + 1);

    expect(peer.socket.dump(REQUEST, 2).map(({ payload }) => payload[0])).toEqual([1, 2]);
    expect(() => peer.socket.dump(REQUEST, 2)).toThrow(DumpTooLargeError);
  });

  it("S4: counts what it read before a change disturbed it", () => {
    for (const octet of [1, 2]) part(peer.next, octet, NLM_F_DUMP_INTR);
    end(peer.next);
    part(peer.next + 1, 1);
    end(peer.next + 1);
    expect(() => peer.socket.dump(REQUEST, 3)).toThrow(DumpTooLargeError);
  });
});

describe("a batch", () => {
  const [ACK, ECANCELED, EPERM] = [4, 125, 1];
  const request = (flags = 0) => ({ ...REQUEST, flags });

  it("is done when everything that asked for it is acknowledged", () => {
    peer.acknowledges(peer.next + 1, 0);
    peer.acknowledges(peer.next + 2, 0);
    peer.socket.batch([request(), request(ACK), request(ACK)]);
  });

  it("is not done by what answers an earlier one, nor refused by it", () => {
    peer.acknowledges(peer.next - 1, EEXIST);
    peer.acknowledges(peer.next, 0);
    peer.socket.batch([request(ACK)]);
  });

  it("fails with the error of its cause, not with what was only called off because of it", () => {
    const words = (error: number) => new Uint8Array(Int32Array.of(-error, 0, 0, 0, 0).buffer);
    const datagram = [
      { type: NLMSG_ERROR, flags: 0, sequence: peer.next, payload: words(ECANCELED) },
      { type: NLMSG_ERROR, flags: 0, sequence: peer.next + 1, payload: words(EEXIST) },
      { type: NLMSG_ERROR, flags: 0, sequence: peer.next + 2, payload: words(ECANCELED) },
    ].map(encodeMessage);
    peer.sends(Buffer.concat(datagram));
    expect(() => peer.socket.batch([request(ACK), request(ACK), request(ACK)])).toThrow(expect.objectContaining({ errno: EEXIST }));
  });

  it("fails when only its first message, which asked for nothing, is refused", () => {
    peer.acknowledges(peer.next, EPERM);
    expect(() => peer.socket.batch([request(), request(ACK)])).toThrow(expect.objectContaining({ errno: EPERM }));
  });
});

describe("an answer that is longer than what it is read into", () => {
  it("is an error, not half an answer", () => {
    peer.says(peer.next, 16, new Uint8Array(10_000));
    peer.acknowledges(peer.next, 0);
    expect(() => peer.socket.request({ ...REQUEST, type: 19 })).toThrow("was cut off");
  });

  it("S4: is read whole when a question is asked again", () => {
    peer.says(peer.next, 16, new Uint8Array(10_000));
    peer.acknowledges(peer.next, 0);
    peer.says(peer.next + 1, 16, new Uint8Array(10_000));
    peer.acknowledges(peer.next + 1, 0);
    expect(peer.socket.request(REQUEST).map(({ payload }) => payload.length)).toEqual([10_000]);
  });

  it("is read whole when it is a dump's", () => {
    peer.says(peer.next, 16, new Uint8Array(30_000), NLM_F_MULTI);
    end(peer.next);
    expect(peer.socket.dump(REQUEST).map(({ payload }) => payload.length)).toEqual([30_000]);
  });
});

describe("a question whose number is not the last", () => {
  it("is not the one that is waited for: a late acknowledgement of it settles nothing", () => {
    peer.socket.prepare(REQUEST);
    peer.socket.prepare(REQUEST);
    peer.acknowledges(peer.next, 0);
    expect(peer.socket.isAnswered()).toBe(false);
    peer.acknowledges(peer.next + 1, EEXIST);
    expect(() => peer.socket.isAnswered()).toThrow(expect.objectContaining({ errno: EEXIST }));
  });
});
