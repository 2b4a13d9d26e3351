/** Serves the socket for calls of plugins (A§11.3): those that the agent serves itself, and those that it gives back to their caller. */
import { rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { type CallCommand, type CallerNamespace, type PreparedCall, prepareCall } from "../../handover/call.ts";
import { type CallFrame, DO_IT_YOURSELF, FLAGS } from "../../handover/call-frame.ts";
import { callLength, decodeCall, encodeAnswer, type SentAnswer } from "../../handover/decode-frame.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { Connections } from "../../lib/resident/connections.ts";
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

/** What serves a socket, or both. */
export interface Served {
  /**
   * Removes the socket, waits for running calls at most so long, has those of plugins told to end, waits for answers a moment longer, and
   * ends the connections that are left.
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

export async function serveCalls(input: CallServerInput): Promise<Served> {
  const server = new Calls(input);
  const acceptor = createServer((socket) => server.accept(socket));
  await bindSocket(acceptor, input.socket, { mode: SOCKET_MODE });
  const timer = setInterval(() => server.connections.tick(), SECOND_MS);
  timer.unref();
  return {
    async stop(graceMs) {
      // Removes only our own: a successor may have put its own there.
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
        // Ignores what is sent behind a call.
        socket.on("data", () => undefined);
        const call = callOfFrame(decodeCall(Buffer.concat(chunks)), this.#input.directory);
        this.connections.complete(socket);
        this.#running.add(socket);
        if (call === undefined) this.#reply(socket, ASIDE);
        else void this.#serve(socket, peer, call);
      } catch (error) {
        socket.off("data", take);
        socket.on("data", () => undefined);
        // The caller has another version, or the call is too long for the agent: the caller's own program does better.
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
    // A caller that goes after its answer has not given up.
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

export interface FramedCall {
  readonly call: PreparedCall;
  /** Milliseconds that the caller waits; by its configuration where it has not said. */
  readonly limitMs: number;
  /** W3C trace context of the caller, as it came. */
  readonly traceparent?: string;
}

/** IPAM plugins whose programs need nothing of the caller's environment, since they run in this process. */
const TORTIE_IPAM = "tortie-ipam";
const CALICO_IPAM = "calico-ipam";
const IN_PROCESS: readonly string[] = [TORTIE_IPAM, CALICO_IPAM, "tortie-host-scope", ""];

/**
 * Reads a call that has come over the socket (A§11.3).
 * @param ownDirectory the agent's run directory
 * @returns `undefined` for a call that its caller must serve: its configuration does not require an agent, something is wrong with it, or it
 * is meant for another agent
 */
export function callOfFrame(frame: CallFrame, ownDirectory: string): FramedCall | undefined {
  const call = prepareCall(frame.env, () => frame.stdin);
  if (call === undefined || call.settings.mode === "off") return undefined;
  const isJudged = (frame.flags & FLAGS.isJudged) !== 0;
  if (!isJudged && !isForUs(call, ownDirectory)) return undefined;
  const { command, netns, settings } = call;
  // Only a DEL may miss its sandbox; the caller's own program says what else is wrong with the path.
  if (!isJudged && frame.sandbox === undefined && netns.path !== "" && command !== "DEL") return undefined;
  const ownIpam = isOwnIpam(frame, settings.ipamType, isJudged) || undefined;
  return {
    call: { ...call, netns: netns.path === "" ? netns : { path: netns.path, ...sandboxOf(frame) }, ownIpam },
    limitMs: frame.deadlineMs === 0 ? settings.timeoutMs : frame.deadlineMs,
    traceparent: frame.env.TRACEPARENT,
  };
}

/** Judges for a caller that has not read the configuration, as the plugin does for itself. */
function isForUs({ settings, runDirectory }: PreparedCall, ownDirectory: string): boolean {
  return runDirectory.path === ownDirectory && IN_PROCESS.includes(settings.ipamType);
}

function sandboxOf({ sandbox }: CallFrame): Omit<CallerNamespace, "path"> {
  return sandbox === undefined ? {} : { dev: String(sandbox.dev), ino: String(sandbox.ino), fd: sandbox.fd };
}

function isOwnIpam({ flags }: CallFrame, ipamType: string, isJudged: boolean): boolean {
  if (isJudged) return (flags & FLAGS.ownIpam) !== 0;
  if (ipamType === TORTIE_IPAM) return (flags & FLAGS.ownTortieIpam) !== 0;
  return ipamType === CALICO_IPAM && (flags & FLAGS.ownCalicoIpam) !== 0;
}
