/** How long connections stay, and how many a user has: by ticks of a second. */
import { type Closable, Connections, IDLE_SECONDS, type Incoming, REQUEST_SECONDS } from "../../../../lib/resident/connections.ts";

class Socket implements Closable {
  isOpen = true;
  destroy(): void {
    this.isOpen = false;
  }
}

/** A request whose body can come to its end. */
class Request implements Incoming {
  readonly headers: Incoming["headers"];
  end: () => void = () => undefined;
  constructor(headers: Incoming["headers"] = {}) {
    this.headers = headers;
  }
  once(_event: "end", listener: () => void): void {
    this.end = listener;
  }
}

const READER = 1234;
const MOST_OF_A_USER = 3;
const mostOf = (uid: number) => (uid === 0 ? Number.POSITIVE_INFINITY : MOST_OF_A_USER);
const ticks = (connections: Connections, count: number) => {
  for (let second = 0; second < count; second++) connections.tick();
};

function connected(uid = READER): { connections: Connections; socket: Socket } {
  const [connections, socket] = [new Connections(mostOf), new Socket()];
  expect(connections.accept(socket, uid)).toBe(true);
  return { connections, socket };
}

describe("A connection to the socket", () => {
  it.each([0, READER])("S6: that says nothing is closed, whoever has made it (uid %d)", (uid) => {
    const { connections, socket } = connected(uid);
    ticks(connections, REQUEST_SECONDS);
    expect(socket.isOpen).toBe(true);
    ticks(connections, 1);
    expect(socket.isOpen).toBe(false);
  });

  it("S6: has the same seconds for the body, however late the head was", () => {
    const { connections, socket } = connected();
    ticks(connections, REQUEST_SECONDS - 1);
    connections.began(socket, new Request({ "content-length": "9" }));
    ticks(connections, 2);
    expect(socket.isOpen).toBe(false);
  });

  it.each([{}, { "content-length": "0" }])("S6: stays as long as its request is served: %j", (headers) => {
    const { connections, socket } = connected();
    connections.began(socket, new Request(headers));
    ticks(connections, 600);
    expect(socket.isOpen).toBe(true);
  });

  it.each([{ "content-length": "9" }, { "transfer-encoding": "chunked" }])("S6: stays once the body is whole: %j", (headers) => {
    const { connections, socket } = connected();
    const request = new Request(headers);
    connections.began(socket, request);
    request.end();
    ticks(connections, 600);
    expect(socket.isOpen).toBe(true);
  });

  it("S6: may be idle a while after an answer, and its next request has its own seconds", () => {
    const { connections, socket } = connected();
    connections.began(socket, new Request());
    connections.answered(socket);
    ticks(connections, IDLE_SECONDS);
    expect(socket.isOpen).toBe(true);
    connections.began(socket, new Request({ "content-length": "9" }));
    ticks(connections, REQUEST_SECONDS + 1);
    expect(socket.isOpen).toBe(false);
  });

  it("S6: is refused to a user who has the most, until one of them ends; never to root", () => {
    const connections = new Connections(mostOf);
    const sockets = Array.from({ length: MOST_OF_A_USER }, () => new Socket());
    for (const socket of sockets) expect(connections.accept(socket, READER)).toBe(true);
    const one = new Socket();
    expect(connections.accept(one, READER)).toBe(false);
    expect(one.isOpen).toBe(false);
    expect(connections.accept(new Socket(), READER + 1)).toBe(true);
    for (let count = 0; count <= MOST_OF_A_USER; count++) expect(connections.accept(new Socket(), 0)).toBe(true);
    for (const socket of sockets.slice(0, 1)) connections.closed(socket);
    expect(connections.accept(new Socket(), READER)).toBe(true);
    expect(connections.accept(new Socket(), READER)).toBe(false);
  });
});
