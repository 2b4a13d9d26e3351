import { rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import type { CallCommand } from "../../handover/call.ts";
import { DO_IT_YOURSELF } from "../../handover/call-frame.ts";
import { callLength, decodeCall, encodeAnswer, type SentAnswer } from "../../handover/decode-frame.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { Connections } from "../../lib/resident/connections.ts";
import { callOfFrame, type FramedCall } from "./call-of-frame.ts";
import { errorAnswer } from "./error-answer.ts";
import { type CallService, Starts } from "./lanes.ts";
import { bindSocket, type Peer, peerOf } from "./socket.ts";

export interface CallServerInput {
  readonly socket: string;
  /** The agent's run directory: a call whose configuration names another one is its caller's to serve. */
  readonly directory: string;
  readonly service: CallService;
  onError(message: string, error: unknown): void;
  onAnswer?(command: CallCommand, status: number, milliseconds: number): void;
}

export interface CallServer {
  /**
   * Removes the socket, waits for running calls at most so long, then has them told to end and waits for their answers a moment longer.
   */
  stop(graceMs: number): Promise<void>;
}

const SOCKET_MODE = 0o600;
const SECOND_MS = 1_000;
const LOOK_MS = 10;
/** What calls that were told to end have for their answers. */
const LAST_ANSWERS_MS = 1_000;
/**
 * Inner limits are shorter than outer ones (A§2.8): a second for the answer's way, or half of a caller's time that is hardly longer, and
 * never more than containerd waits.
 */
const MARGIN_MS = 1_000;
const LONGEST_MS = 110_000;

const ASIDE: SentAnswer = { status: DO_IT_YOURSELF, body: "" };

export async function serveCalls(input: CallServerInput): Promise<CallServer> {
  const server = new Calls(input);
  const acceptor = createServer((socket) => server.accept(socket));
  await bindSocket(acceptor, input.socket, { mode: SOCKET_MODE });
  const timer = setInterval(() => server.connections.tick(), SECOND_MS);
  timer.unref();
  return {
    async stop(graceMs) {
      // Only ours: a successor may have put its own there.
      rmSync(input.socket, { force: true });
      acceptor.close();
      await server.end(graceMs);
      clearInterval(timer);
      server.connections.destroy();
    },
  };
}

class Calls {
  /** Root is the runtime, whose calls are limited by their lanes. */
  readonly connections = new Connections(() => Number.POSITIVE_INFINITY);
  readonly #input: CallServerInput;
  readonly #starts = new Starts();
  readonly #ending = new AbortController();
  /** Connections whose whole call has come, until they end. */
  readonly #running = new Set<Socket>();

  constructor(input: CallServerInput) {
    this.#input = input;
  }

  accept(socket: Socket): void {
    socket.on("error", () => socket.destroy());
    try {
      const peer = peerOf(socket);
      if (!this.connections.accept(socket, peer.uid)) return;
      socket.once("close", () => {
        this.connections.closed(socket);
        this.#running.delete(socket);
      });
      if (peer.uid === 0) {
        this.#read(socket, peer);
        return;
      }
      const denied = new TortieError("access-denied", `uid ${peer.uid} (pid ${peer.pid}) may not call over this socket`);
      socket.resume();
      this.#reply(socket, failure(denied));
    } catch (error) {
      this.#input.onError("a connection was refused", error);
      socket.destroy();
    }
  }

  /** Tells running calls to end when their time is over. */
  async end(graceMs: number): Promise<void> {
    await this.#idle(graceMs);
    this.#ending.abort(new TortieError("agent-stopping", "the agent was asked to end"));
    await this.#idle(LAST_ANSWERS_MS);
  }

  async #idle(limitMs: number): Promise<void> {
    const end = performance.now() + limitMs;
    while (this.#running.size > 0 && performance.now() < end) await Bun.sleep(LOOK_MS);
  }

  #read(socket: Socket, peer: Peer): void {
    const chunks: Buffer[] = [];
    let size = 0;
    let expected: number | undefined;
    const take = (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      try {
        expected ??= callLength(Buffer.concat(chunks));
        if (expected === undefined || size < expected) return;
        socket.off("data", take);
        // What is sent behind a call is nothing.
        socket.on("data", () => undefined);
        const call = callOfFrame(decodeCall(Buffer.concat(chunks)), this.#input.directory);
        this.connections.complete(socket);
        this.#running.add(socket);
        if (call === undefined) this.#reply(socket, ASIDE);
        else void this.#serve(socket, peer, call);
      } catch (error) {
        socket.off("data", take);
        socket.on("data", () => undefined);
        // Another version of the caller, or what is too long for the agent: the caller's own program does better.
        this.#reply(socket, { ...failure(error), status: DO_IT_YOURSELF });
      }
    };
    socket.on("data", take);
  }

  async #serve(socket: Socket, peer: Peer, { call, limitMs, traceparent }: FramedCall): Promise<void> {
    const { service, onAnswer, onError } = this.#input;
    const begin = performance.now();
    const gone = new AbortController();
    const leave = () => gone.abort(new TortieError("caller-gone", "the caller has gone away"));
    socket.once("end", leave);
    socket.once("close", leave);
    let answer: SentAnswer;
    try {
      using deadline = deadlineOf(limitMs);
      const signal = AbortSignal.any([gone.signal, this.#ending.signal, deadline.signal]);
      await this.#starts.next();
      answer = await service.serve(call, { peer, signal, traceparent });
    } catch (error) {
      if (!(error instanceof TortieError) || error.word === "internal") onError("a call failed over a defect", error);
      answer = failure(error);
    }
    // An answered caller that goes is not gone.
    socket.off("end", leave);
    socket.off("close", leave);
    onAnswer?.(call.command, answer.status, performance.now() - begin);
    this.#reply(socket, answer);
  }

  #reply(socket: Socket, answer: SentAnswer): void {
    socket.end(encodeAnswer(answer));
    this.connections.answered(socket);
  }
}

function failure(error: unknown): SentAnswer {
  const { status, body } = errorAnswer(error);
  return { status, body: JSON.stringify(body) };
}

/** Aborts before the caller stops waiting. */
function deadlineOf(whole: number): { readonly signal: AbortSignal } & Disposable {
  const milliseconds = Math.max(0, Math.min(whole - Math.min(MARGIN_MS, whole / 2), LONGEST_MS));
  const controller = new AbortController();
  const timer = setTimeout(
    () => controller.abort(new TortieError("agent-timeout", `not done within the ${milliseconds} ms that the caller waits`)),
    milliseconds,
  );
  return { signal: controller.signal, [Symbol.dispose]: () => clearTimeout(timer) };
}
