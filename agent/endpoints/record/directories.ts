/**
 * Where the files of endpoints are (A§5.7): `<state>/<id>` holds what is in force; `<id>_next` is being built, `<id>_next_fail` is the
 * last build that failed, `<id>_stale` stands aside while the two others change places. `gone/` keeps the last endpoints that ended,
 * `bad/` what could not be read.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { systemErrorCode } from "../../../lib/system/errno.ts";

export { RECORD_FILE } from "../../../handover/record.ts";
export const LOG_FILE = "log.jsonl";
const DIRECTORY_MODE = 0o700;
const KEPT_GONE = 256;
const KEPT_BAD = 10;

const VARIANTS = ["", "_next", "_next_fail", "_stale"] as const;
export type Variant = (typeof VARIANTS)[number];

/** A directory of an endpoint as it was found. */
export interface FoundDirectory {
  readonly id: number;
  readonly variant: Variant;
}

const NAME = /^([1-9]\d{0,4})(_next_fail|_next|_stale|)$/;

export class EndpointDirectories {
  readonly stateDir: string;
  /** Names in `gone/` and `bad/`, oldest first, as far as they have been looked at: no other program writes there. */
  readonly #aside = new Map<"gone" | "bad", string[]>();

  constructor(stateDir: string) {
    this.stateDir = stateDir;
  }

  path(id: number, variant: Variant = ""): string {
    return join(this.stateDir, `${id}${variant}`);
  }

  /** @throws an error of node:fs, EEXIST when the id has a directory already */
  create(id: number, variant: Variant = ""): void {
    makeOwnDirectory(this.path(id, variant));
  }

  /** Whether the id has a directory, of whatever variant. */
  has(id: number): boolean {
    return VARIANTS.some((variant) => existsSync(this.path(id, variant)));
  }

  /** Every directory of an endpoint, whatever its variant. Other names are not looked at. */
  list(): FoundDirectory[] {
    return namesIn(this.stateDir).flatMap((name): FoundDirectory[] => {
      const parts = NAME.exec(name);
      if (parts === null) return [];
      const variant = VARIANTS.find((one) => one === parts[2]);
      return variant === undefined ? [] : [{ id: Number(parts[1]), variant }];
    });
  }

  remove(id: number, variant: Variant = ""): void {
    rmSync(this.path(id, variant), { recursive: true, force: true });
  }

  rename(id: number, from: Variant, to: Variant): void {
    renameSync(this.path(id, from), this.path(id, to));
  }

  /** Age in milliseconds since the directory was last changed; `undefined` when it is gone. */
  ageOf(id: number, variant: Variant, now: number): number | undefined {
    try {
      return now - statSync(this.path(id, variant)).mtimeMs;
    } catch (error) {
      if (systemErrorCode(error) === "ENOENT") return undefined;
      throw error;
    }
  }

  /** Puts an endpoint's directory aside, where `explain` finds its record and its log; the other variants go. */
  retire(id: number, now: number): void {
    this.#putAside(id, "gone", now, KEPT_GONE);
    for (const variant of ["_next", "_next_fail", "_stale"] as const) this.remove(id, variant);
  }

  /** Keeps what could not be read for a person to look at (A§7.3 step 3). @returns where it is now */
  setAsideBad(id: number, now: number): string {
    return this.#putAside(id, "bad", now, KEPT_BAD);
  }

  listGone(): string[] {
    return namesIn(join(this.stateDir, "gone"));
  }

  listBad(): string[] {
    return namesIn(join(this.stateDir, "bad"));
  }

  #putAside(id: number, folder: "gone" | "bad", now: number, kept: number): string {
    const parent = join(this.stateDir, folder);
    makeOwnDirectory(parent, true);
    const target = freeName(join(parent, `${id}-${now}`));
    renameSync(this.path(id), target);
    const names = this.#aside.get(folder) ?? namesIn(parent).sort((one, other) => timeOf(one) - timeOf(other));
    if (!names.includes(basename(target))) names.push(basename(target));
    this.#aside.set(folder, names);
    for (const name of names.splice(0, Math.max(0, names.length - kept))) rmSync(join(parent, name), { recursive: true, force: true });
    return target;
  }
}

/** The mode is that of A§0.2 whatever the process's umask is. */
function makeOwnDirectory(path: string, isThereFine = false): void {
  try {
    mkdirSync(path, { mode: DIRECTORY_MODE });
    chmodSync(path, DIRECTORY_MODE);
  } catch (error) {
    if (!isThereFine || systemErrorCode(error) !== "EEXIST") throw error;
  }
}

function namesIn(path: string): string[] {
  try {
    return readdirSync(path);
  } catch (error) {
    if (systemErrorCode(error) === "ENOENT") return [];
    throw error;
  }
}

/** `<id>-<milliseconds>`, with a number behind it where two fall into one millisecond. */
function timeOf(name: string): number {
  return Number(/-(\d+)/.exec(name)?.[1] ?? 0);
}

function freeName(wanted: string): string {
  for (let number = 0; ; number++) {
    const name = number === 0 ? wanted : `${wanted}.${number}`;
    try {
      statSync(name);
    } catch (error) {
      if (systemErrorCode(error) === "ENOENT") return name;
      throw error;
    }
  }
}
