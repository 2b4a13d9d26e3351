/**
 * Keeps what an agent says of itself: the locks of the only one of a run directory and of a host, its phase, and the state of one boot
 * (A§0.2, A§0.3).
 */
import { readdirSync, renameSync, rmSync } from "node:fs";
import type { AgentFile } from "../../handover/run-directory.ts";
import { messageOf, namingFault, TortieError } from "../../lib/errors/errors.ts";
import { type Check, warningCheck } from "../../lib/resident/health.ts";
import { systemErrorCode } from "../../lib/system/errno.ts";
import { ifReadable, isThere, makeDirectories, readText } from "../../lib/system/files.ts";
import { lockHolder, tryLockFile } from "../../lib/system/flock.ts";
import { type LockOwner, namespaceLockOwner, tryLockNamespace } from "../../lib/system/namespace-lock.ts";
import { writeWhole } from "../../lib/system/write-whole.ts";

/** Takes flock(2) on `agent.lock` as long as the process lives. @throws TortieError `agent-running` when another agent has it */
export function takeInstanceLock(path: string): Disposable {
  const lock = tryLockFile(path);
  if (lock !== undefined) return lock;
  throw new TortieError("agent-running", `another agent serves this run directory: ${path} is held by ${lockHolder(path)}`);
}

const NAMESPACE_LOCK = "tortie-node";
/** An agent that has just taken the name listens at once. */
const TRIES = 5;
const PAUSE_MS = 50;

export interface NamespaceLock {
  /** Nothing to release where somebody who is no agent keeps the name. */
  readonly lock: Disposable | undefined;
  /** User of the process that keeps the name, if that can be seen. */
  readonly squatter?: number | undefined;
}

/**
 * Takes the lock of the network namespace, whatever the run directory is: two agents would each remove the other's links and routes. A
 * process of another user that is not root can be no agent, and must not keep one from starting.
 * @throws TortieError `agent-running` when another agent has it
 */
export async function takeNamespaceLock(name = NAMESPACE_LOCK, user = process.geteuid?.()): Promise<NamespaceLock> {
  let owner: LockOwner | undefined;
  for (let tries = 0; tries < TRIES; tries++) {
    const lock = tryLockNamespace(name);
    if (lock !== undefined) return { lock };
    owner = namespaceLockOwner(name);
    if (owner !== undefined && [0, user].includes(owner.uid)) {
      const who = owner.pid > 0 ? `pid ${owner.pid}` : "a process of another PID namespace";
      throw new TortieError("agent-running", `another agent serves this host: ${who} holds the abstract socket @${name} of its network`);
    }
    await Bun.sleep(PAUSE_MS);
  }
  return { lock: undefined, squatter: owner?.uid };
}

export type Phase = AgentFile["phase"];

const FILE_MODE = 0o644;

/** Keeps the phase of the agent, as `agent.json` and every answer say it. */
export class PhaseFile {
  readonly #path: string;
  readonly #about: Omit<AgentFile, "phase">;
  #phase: Phase = "starting";
  /** Whether the file could not be written last time: it only informs, so the agent goes on. */
  #isStale = false;

  constructor(path: string, about: Omit<AgentFile, "phase">) {
    this.#path = path;
    this.#about = about;
    this.#write();
  }

  get phase(): Phase {
    return this.#phase;
  }

  set(phase: Phase): void {
    if (phase === this.#phase) return;
    this.#phase = phase;
    this.#write();
  }

  writeIfStale(): void {
    if (this.#isStale) this.#write();
  }

  #write(): void {
    const file: AgentFile = { ...this.#about, phase: this.#phase };
    try {
      writeWhole(this.#path, `${JSON.stringify(file, undefined, 2)}\n`, FILE_MODE);
      this.#isStale = false;
    } catch (error) {
      if (systemErrorCode(error) === undefined) throw error;
      this.#isStale = true;
    }
  }
}

/** As much as the largest record of an endpoint needs. */
const PROBE = "\0".repeat(8192);

/** Warns while no record of an endpoint can be written: ADDs are refused, DELs go on. Writes the phase when there is room again. */
export function roomCheck(run: string, phase: Pick<PhaseFile, "writeIfStale">): Check {
  const probe = `${run}/.room`;
  return warningCheck("run-directory", () => {
    try {
      writeWhole(probe, PROBE, 0o600, false);
      rmSync(probe, { force: true });
      phase.writeIfStale();
      return `${run} can be written`;
    } catch (error) {
      const named = namingFault(error);
      const next = named instanceof TortieError ? named.next : "let the agent write that directory";
      return { message: `no container can be added: ${messageOf(error)}`, next };
    }
  });
}

const STATE_MODE = 0o700;

export interface StateDirectory {
  readonly path: string;
  /** The directory was another boot's, and was put aside. */
  readonly wasReset: boolean;
}

/**
 * Opens the state of this boot: after a reboot no sandbox lives and no address is granted, whatever files are left (A§7.3). The boot id is in
 * a file of its own, written before anything else is.
 * @param run the run directory
 * @param emptied directories of the run directory whose files mean nothing after a reboot
 */
export function openState(run: string, bootId: string, emptied: readonly string[]): StateDirectory {
  const path = `${run}/state`;
  const bootFile = `${path}/boot-id`;
  const wasReset = isThere(path) && recordedBoot(bootFile) !== bootId;
  if (wasReset) {
    renameSync(path, `${run}/old-${process.pid}-${Date.now()}`);
    for (const directory of emptied) rmSync(directory, { recursive: true, force: true });
  }
  makeDirectories(path, STATE_MODE);
  if (recordedBoot(bootFile) !== bootId) writeWhole(bootFile, `${bootId}\n`, 0o600);
  return { path, wasReset };
}

/** Removes what `openState` put aside, now or before an earlier agent was killed. */
export function removeOldStates(run: string): void {
  for (const name of readdirSync(run)) if (name.startsWith("old-")) rmSync(`${run}/${name}`, { recursive: true, force: true });
}

function recordedBoot(path: string): string | undefined {
  return ifReadable(() => readText(path).trim());
}
