/**
 * Answers the probes of a connectivity test, in a pod or on a host, for the minutes of the test: says who it is, takes and gives bytes, and
 * remembers which datagrams came. Everybody who reaches the port may ask it: what it does is bounded, and it sends datagrams only to
 * addresses that have shaken hands.
 */
import { createSocket, type Socket as DatagramSocket } from "node:dgram";
import { createServer, type Server, type Socket } from "node:net";
import { RecentMap } from "../../../lib/system/recent-map.ts";

/** Limits the bytes of one transfer. */
export const MOST_BYTES = 16 * 1024 * 1024;
const MOST_CONNECTIONS = 200;
const MOST_REMEMBERED = 1_000;
/** Exceeds any request: a word, and two numbers or a token. */
const MOST_OF_A_REQUEST = 200;
const IDLE_MS = 30_000;
const CHUNK = new Uint8Array(64 * 1024);

interface Listening {
  /** Ports that it could open. */
  readonly ports: readonly number[];
  close(): void;
}

/**
 * Listens on TCP ports of both families and, by the first of them, for datagrams.
 * @param name what it says when it is asked who it is
 * @throws what the kernel refuses, such as a port that another program has
 */
export async function serveProbes(name: string, ports: readonly number[]): Promise<Listening> {
  const seen = new RecentMap<string, number>(MOST_REMEMBERED);
  const [datagramPort = 0] = ports;
  const datagrams = await listenForDatagrams(datagramPort, seen);
  const servers: Server[] = [];
  for (const port of ports) servers.push(await listen((socket) => converse(socket, name, seen, datagrams), port));
  return {
    ports,
    close() {
      for (const server of servers) server.close();
      for (const socket of datagrams.values()) socket.close();
    },
  };
}

/** Listens on the wildcard of both families, or of IPv4 alone where the kernel has no IPv6. */
async function listen(serve: (socket: Socket) => void, port: number): Promise<Server> {
  const server = createServer(serve);
  server.maxConnections = MOST_CONNECTIONS;
  const on = (host: string) =>
    new Promise<void>((done, failed) => {
      server.once("error", failed);
      server.listen(port, host, () => {
        server.off("error", failed);
        done();
      });
    });
  await on("::").catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "EAFNOSUPPORT") return on("0.0.0.0");
    throw error;
  });
  return server;
}

type Datagrams = ReadonlyMap<4 | 6, DatagramSocket>;

async function listenForDatagrams(port: number, seen: RecentMap<string, number>): Promise<Datagrams> {
  const sockets = new Map<4 | 6, DatagramSocket>();
  for (const family of [4, 6] as const) {
    const socket = createSocket(family === 4 ? { type: "udp4" } : { type: "udp6", ipv6Only: true });
    socket.on("message", (message) => seen.set(tokenOf(message), message.length));
    const isBound = await new Promise<boolean>((done) => {
      socket.once("error", () => done(false));
      socket.bind(port, () => done(true));
    });
    if (isBound)
      sockets.set(
        family,
        socket.on("error", () => undefined),
      );
  }
  return sockets;
}

/** A datagram begins with its token; the rest only fills it. */
function tokenOf(message: Uint8Array): string {
  return Buffer.from(message.subarray(0, 64)).toString("latin1").split(" ", 1)[0] ?? "";
}

/**
 * Serves one connection: a line, and what it asks for. `name` | `take N`, and N bytes | `give N` | `seen TOKEN` | `send PORT N TOKEN`
 */
function converse(socket: Socket, name: string, seen: RecentMap<string, number>, datagrams: Datagrams): void {
  let head = "";
  let isTaking = false;
  let missing = 0;
  socket.setTimeout(IDLE_MS, () => socket.destroy());
  socket.on("error", () => socket.destroy());
  const take = (count: number) => {
    missing -= count;
    if (missing <= 0) socket.end("taken\n");
  };
  socket.on("data", (data) => {
    if (isTaking) return take(data.length);
    head += data.toString("latin1");
    const end = head.indexOf("\n");
    if (end < 0 && head.length <= MOST_OF_A_REQUEST) return;
    const [word = "", ...rest] = head.slice(0, Math.max(end, 0)).split(" ");
    const [first = "", size = "", token = ""] = rest;
    switch (word) {
      case "name":
        return void socket.end(`${name}\n`);
      case "take":
        isTaking = true;
        missing = bounded(first);
        return take(head.length - end - 1);
      case "give":
        return give(socket, bounded(first));
      case "seen":
        return void socket.end(`${seen.get(first) ?? 0}\n`);
      case "send":
        sendBack(socket, datagrams, Number(first), bounded(size), token);
        return void socket.end("sent\n");
      default:
        socket.destroy();
    }
  });
}

function bounded(count: string): number {
  const number = Number(count);
  return Number.isInteger(number) && number >= 0 ? Math.min(number, MOST_BYTES) : 0;
}

function give(socket: Socket, count: number): void {
  let left = count;
  const more = () => {
    while (left > 0) {
      const chunk = CHUNK.subarray(0, Math.min(left, CHUNK.length));
      left -= chunk.length;
      if (!socket.write(chunk)) return void socket.once("drain", more);
    }
    socket.end();
  };
  more();
}

/** Sends one datagram to the address that has just proven by its handshake that it is there. */
function sendBack(socket: Socket, datagrams: Datagrams, port: number, size: number, token: string): void {
  const mapped = socket.remoteAddress ?? "";
  const address = mapped.replace(/^::ffff:(?=\d+\.)/, "");
  if (!Number.isInteger(port) || port < 1 || port > 65_535 || size > 65_000) return;
  datagrams.get(address.includes(":") ? 6 : 4)?.send(datagramOf(token, size), port, address, () => undefined);
}

/** @returns a datagram of `size` bytes of payload that begins with the token */
export function datagramOf(token: string, size: number): Uint8Array {
  return Buffer.from(`${token} `.padEnd(size, "."), "latin1").subarray(0, Math.max(size, token.length + 1));
}
