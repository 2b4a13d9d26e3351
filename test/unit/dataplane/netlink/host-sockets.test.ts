import { HostSockets } from "../../../../dataplane/netlink/host-sockets.ts";
import { NETLINK_NETFILTER, NETLINK_ROUTE } from "../../../../dataplane/netlink/socket.ts";
import { Peer, REQUEST } from "../../../support/netlink-peer.ts";

const EEXIST = 17;

/** Sockets whose other sides are peers, in the order in which they are opened. */
function scripted(script: (peer: Peer, opened: number) => void, sequence?: number) {
  const protocols: number[] = [];
  const peers: Peer[] = [];
  const sockets = new HostSockets((protocol) => {
    const peer = new Peer(sequence);
    script(peer, protocols.push(protocol));
    peers.push(peer);
    return peer.socket;
  });
  return Object.assign(sockets, { protocols, peers });
}

/** Answers to the next requests, each with the number of the socket that has it. */
function answersTo(peer: Peer, requests: number, opened: number): void {
  for (let at = 0; at < requests; at++) {
    peer.says(peer.next + at, 16, Uint8Array.of(opened, 0, 0, 0));
    peer.acknowledges(peer.next + at, 0);
  }
}

const askedOf = ({ route }: HostSockets) => route.request(REQUEST)[0]?.payload[0];

describe("the sockets of the host", () => {
  it("are opened when they are first needed, one for each protocol, and kept", () => {
    using sockets = scripted((peer, opened) => answersTo(peer, 3, opened));
    expect(sockets.protocols).toEqual([]);

    expect([askedOf(sockets), askedOf(sockets)]).toEqual([1, 1]);
    expect(sockets.netfilter.request(REQUEST)[0]?.payload[0]).toBe(2);
    expect(askedOf(sockets)).toBe(1);
    expect(sockets.protocols).toEqual([NETLINK_ROUTE, NETLINK_NETFILTER]);
  });

  it("are kept when the kernel refuses a request", () => {
    using sockets = scripted((peer) => {
      peer.acknowledges(peer.next, EEXIST);
      peer.acknowledges(peer.next + 1, EEXIST);
      peer.acknowledges(peer.next + 2, 0);
    });
    expect(() => sockets.route.request(REQUEST)).toThrow("EEXIST");
    expect(() => sockets.route.batch([{ ...REQUEST, flags: 4 }])).toThrow("EEXIST");
    sockets.route.request(REQUEST);
    expect(sockets.protocols).toHaveLength(1);
  });

  it("are replaced when a list was not read to its end, and what is left of it answers nothing", () => {
    using sockets = scripted((peer, opened) => {
      if (opened === 1) {
        for (let part = 0; part < 3; part++) peer.says(peer.next, 16, new Uint8Array(4), 2);
        peer.next++;
      }
      answersTo(peer, 1, opened);
    });
    expect(() => sockets.route.dump(REQUEST, 1)).toThrow("more than 1");
    expect(askedOf(sockets)).toBe(2);
  });

  it("are replaced when a request could not be sent, for whoever holds them", () => {
    using sockets = scripted((peer, opened) => answersTo(peer, 3, opened));
    const { route } = sockets;
    route.request(REQUEST);
    sockets.peers[0]?.hangUp();
    expect(() => route.request(REQUEST)).toThrow("ECONNREFUSED");
    expect(route.request(REQUEST)[0]?.payload[0]).toBe(2);
    expect(route.request(REQUEST)[0]?.payload[0]).toBe(2);
  });

  it("are replaced before their numbers come to an end", () => {
    using sockets = scripted((peer, opened) => answersTo(peer, 3, opened), 2 ** 32 - 2 ** 20 - 3);
    expect([askedOf(sockets), askedOf(sockets), askedOf(sockets)]).toEqual([1, 1, 2]);
  });

  it("are not opened again after their end", () => {
    const sockets = scripted((peer, opened) => answersTo(peer, 1, opened));
    askedOf(sockets);
    sockets[Symbol.dispose]();
    expect(() => askedOf(sockets)).toThrow("closed");
    expect(sockets.protocols).toHaveLength(1);
  });
});
