/**
 * Limits how long a connection may stay without being of use, and how many one caller may have (A§2.8, A§2.9). Connections that are handed
 * over to the HTTP server get no time limit from it, and each holds a descriptor that a call of a plugin may need.
 */

import type { Server as HttpServer } from "node:http";
import type { Socket } from "node:net";

const SECOND_MS = 1_000;
/** Seconds in which a request must have come in, its body included; the first one from the moment of the connection. */
export const REQUEST_SECONDS = 5;
/** Seconds between an answer and the next request. */
export const IDLE_SECONDS = 30;

/** What is needed of a socket. */
export interface Closable {
  destroy(): void;
}

/** What is needed of a request that is being served. */
export interface Incoming {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  once(event: "end", listener: () => void): unknown;
}

interface Place {
  readonly caller: number;
  /** Seconds that are left; `undefined` while a whole request is being served. */
  left: number | undefined;
}

export class Connections {
  readonly #mostOf: (caller: number) => number;
  readonly #places = new Map<Closable, Place>();
  readonly #counts = new Map<number, number>();

  /** @param mostOf how many connections at once a caller may have */
  constructor(mostOf: (caller: number) => number) {
    this.#mostOf = mostOf;
  }

  /** @returns `false` when this caller has as many as it may have: the connection is closed */
  accept(socket: Closable, caller: number): boolean {
    const others = this.#counts.get(caller) ?? 0;
    if (others >= this.#mostOf(caller)) {
      socket.destroy();
      return false;
    }
    this.#counts.set(caller, others + 1);
    this.#places.set(socket, { caller, left: REQUEST_SECONDS });
    return true;
  }

  closed(socket: Closable): void {
    const place = this.#places.get(socket);
    if (place === undefined || !this.#places.delete(socket)) return;
    const others = (this.#counts.get(place.caller) ?? 1) - 1;
    if (others === 0) this.#counts.delete(place.caller);
    else this.#counts.set(place.caller, others);
  }

  /** Says that the head of a request is there. What is left of the first request's time is all that its body has. */
  began(socket: Closable, request: Incoming): void {
    if (!hasBody(request.headers)) {
      this.complete(socket);
      return;
    }
    const place = this.#places.get(socket);
    if (place === undefined) return;
    place.left = Math.min(place.left ?? REQUEST_SECONDS, REQUEST_SECONDS);
    request.once("end", () => this.complete(socket));
  }

  /** Says that a whole request is there: its answer may take as long as it takes. */
  complete(socket: Closable): void {
    const place = this.#places.get(socket);
    if (place !== undefined) place.left = undefined;
  }

  /** Says that a request was answered. */
  answered(socket: Closable): void {
    const place = this.#places.get(socket);
    if (place !== undefined) place.left = IDLE_SECONDS;
  }

  /** Closes all of them. */
  destroy(): void {
    for (const socket of this.#places.keys()) socket.destroy();
  }

  /**
   * Runs each second. It counts its calls and not the clock: after a standstill of the whole process, what came in meanwhile is read
   * before anything is closed.
   */
  tick(): void {
    for (const [socket, place] of this.#places) {
      if (place.left === undefined) continue;
      place.left--;
      if (place.left < 0) socket.destroy();
    }
  }
}

/**
 * Hands accepted connections to an HTTP server, within the limits.
 *
 * @returns hands over one connection of a caller; `stop` ends the ticks and all connections
 */
export function limitConnections(
  server: HttpServer,
  mostOf: (caller: number) => number,
): { readonly serve: (socket: Socket, caller: number) => void; readonly stop: () => void } {
  const connections = new Connections(mostOf);
  server.on("request", (request, response) => {
    connections.began(request.socket, request);
    response.once("close", () => connections.answered(request.socket));
  });
  const timer = setInterval(() => connections.tick(), SECOND_MS);
  timer.unref();
  return {
    serve(socket, caller) {
      if (!connections.accept(socket, caller)) return;
      socket.once("close", () => connections.closed(socket));
      server.emit("connection", socket);
    },
    stop() {
      clearInterval(timer);
      connections.destroy();
    },
  };
}

/** RFC 9112, 6.3: a request has a body if one of these says so. */
function hasBody(headers: Incoming["headers"]): boolean {
  const length = headers["content-length"];
  return headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0");
}
