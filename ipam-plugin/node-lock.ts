/**
 * Takes the node's lock: IPAM processes of one node take turns, ours and Calico's (I§1.8). It only spares the store conflicts. Addresses are
 * kept apart by compare-and-swap, so a failure to lock is not fatal.
 *
 * Calls of one process queue up in the order in which they came. The first of them tries the flock(2) of the file, again and again while
 * another process holds it: a call that blocks would stop the whole process, and with it the call that has to give the lock back.
 */
import { ipamLockTimeoutMs } from "../lib/config/limits.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import type { Logger } from "../lib/log/logger.ts";
import { lockHolder, tryLockFile } from "../lib/system/flock.ts";
import { Lane } from "../lib/system/lane.ts";
import type { IpamCall } from "./call.ts";

/** Limits the time for one allocation or release, which begins when the lock is taken (I§1.8, I§9). */
export const STEP_LIMIT_MS = 90_000;

const SHORTEST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 50;

/** Represents the lock while it is held. */
export interface NodeLock extends Disposable {
  /** Tells whether another holder had the lock, or was before us in line, when it was asked for. */
  readonly hadToWait: boolean;
}

export interface NodeLockOptions {
  /** The longest wait. Container runtimes kill a plugin after 120 s, and a killed plugin cannot say what it waited for. */
  readonly limitMs: number;
  readonly log: Pick<Logger, "writeNow">;
  /** Ends the wait when it aborts. */
  readonly signal?: AbortSignal;
}

interface LockCall extends Pick<IpamCall, "log" | "signal"> {
  readonly config: Pick<IpamCall["config"], "ipamLockFile" | "ipamLockTimeoutSeconds">;
}

/** Has what a host does to lock. */
export interface Locking {
  /** Takes the node's lock; disposing gives it back. */
  readonly lock: typeof takeNodeLock;
  /** A signal that aborts after so many milliseconds. */
  readonly deadline: (milliseconds: number) => AbortSignal;
}

/**
 * Runs `work` under the lock, with a signal that aborts when its time is over, and whether others held the lock first: what was read
 * before may be old then.
 *
 * @throws TortieError `node-lock-timeout`; the signal's reason
 */
export async function withNodeLock<T>(
  call: LockCall,
  host: Locking,
  work: (signal: AbortSignal, hadToWait: boolean) => Promise<T>,
): Promise<T> {
  using held = await lockUnlessImpossible(call, host);
  return await work(host.deadline(STEP_LIMIT_MS), held?.hadToWait ?? false);
}

/** Between two steps of a long work: another process that waits for the lock looks at least once. */
const GAP_MS = 60;

/**
 * Takes the lock for one step of a long work after the other. The lock is free in between, long enough for a waiting ADD to get it.
 * @throws as `withNodeLock`
 */
export function stepLock(call: LockCall, host: Pick<Locking, "lock">): () => Promise<Disposable> {
  const lane = new Lane({ running: 1 });
  return async () => {
    const { promise: left, resolve: leave } = Promise.withResolvers<void>();
    const { promise: entered, resolve: enter, reject } = Promise.withResolvers<Disposable>();
    const turn = async () => {
      const held = await lockUnlessImpossible(call, host);
      enter({
        [Symbol.dispose]() {
          held?.[Symbol.dispose]();
          setTimeout(leave, GAP_MS);
        },
      });
      await left;
    };
    lane.run(call.signal, turn).catch(reject);
    return entered;
  };
}

async function lockUnlessImpossible({ config, log, signal }: LockCall, { lock }: Pick<Locking, "lock">): Promise<NodeLock | undefined> {
  try {
    return await lock(config.ipamLockFile, { limitMs: ipamLockTimeoutMs(config.ipamLockTimeoutSeconds), log, signal });
  } catch (error) {
    if (error instanceof TortieError || signal.aborted) throw error;
    log.error(`going on without the lock of this node: ${messageOf(error)}`);
    return undefined;
  }
}

/** @throws TortieError `node-lock-timeout`; Error when the file cannot be opened or locked */
export async function takeNodeLock(path: string, options: NodeLockOptions): Promise<NodeLock> {
  const turn = queueUp(path);
  try {
    const free = turn.isNext ? tryLockFile(path) : undefined;
    const lock = free ?? (await waitForLock(path, turn, options));
    return {
      hadToWait: free === undefined,
      [Symbol.dispose]() {
        lock[Symbol.dispose]();
        turn.end();
      },
    };
  } catch (error) {
    turn.end();
    throw error;
  }
}

/** Logs the wait at once: the process may be killed before the wait ends. */
async function waitForLock(path: string, turn: Turn, { limitMs, log, signal }: NodeLockOptions): Promise<Disposable> {
  const end = performance.now() + limitMs;
  log.writeNow("info", `waiting for ${path}, held by ${lockHolder(path)}`);
  if (await comesBefore(turn, end, signal)) {
    for (let pause = SHORTEST_PAUSE_MS; ; pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS)) {
      signal?.throwIfAborted();
      const lock = tryLockFile(path);
      if (lock !== undefined) return lock;
      const left = end - performance.now();
      if (left <= 0) break;
      await Bun.sleep(Math.min(pause, left));
    }
  }
  throw new TortieError("node-lock-timeout", `waited ${limitMs / 1000} s for ${path}, held by ${lockHolder(path)}`);
}

interface Turn {
  /** The first in line of this process. */
  readonly isNext: boolean;
  /** Resolves when all who were before have ended their turn. */
  readonly came: Promise<void>;
  /** Ends the turn, which may be before it came. */
  end(): void;
}

/** Holds what begins each turn that has not ended, by path, in the order in which they were asked for. */
const queues = new Map<string, (() => void)[]>();

function queueUp(path: string): Turn {
  const queue = queues.getOrInsert(path, []);
  const { promise: came, resolve: begin } = Promise.withResolvers<void>();
  const isNext = queue.length === 0;
  queue.push(begin);
  if (isNext) begin();
  return {
    isNext,
    came,
    end() {
      const at = queue.indexOf(begin);
      if (at < 0) return;
      queue.splice(at, 1);
      const [next] = queue;
      // In a turn of the event loop of its own: on a local store the whole line would otherwise run before anything else does.
      if (at === 0 && next !== undefined) setImmediate(next);
      if (queue.length === 0 && queues.get(path) === queue) queues.delete(path);
    },
  };
}

/** @throws the reason of `signal` */
async function comesBefore({ came }: Turn, end: number, signal: AbortSignal | undefined): Promise<boolean> {
  const { promise: over, resolve, reject } = Promise.withResolvers<false>();
  const abort = () => reject(signal?.reason);
  if (signal?.aborted === true) abort();
  signal?.addEventListener("abort", abort);
  const timer = setTimeout(() => resolve(false), Math.max(0, end - performance.now()));
  try {
    return await Promise.race([came.then(() => true), over]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}
