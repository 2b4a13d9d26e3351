/** A directory of grant files in memory, whose every call waits for a gate; and a walk through every order in which the gates can open. */

import type { GrantDirectory } from "../../ipam-plugin/host-scope/grant-directory.ts";
import { HostScope, type HostScopeParts } from "../../ipam-plugin/host-scope/host-scope.ts";
import { hostRange } from "../../ipam-plugin/host-scope/range.ts";
import { type Family, parseAddress } from "../../lib/addresses/address.ts";
import { prefix as prefixFrom } from "./addresses.ts";
import { seededRandom } from "./scheduler.ts";

/** Lets the caller go on when its turn has come. */
export type Turn = (what: string) => Promise<void>;

/** The files that all clients see. A file is an object, so that two names can be one file, as link(2) makes it. */
export class GrantFileSystem {
  readonly #files = new Map<string, { readonly text: string }>();
  #drafts = 0;
  #isLocked = false;
  readonly #waiting: (() => void)[] = [];

  /** The directory as one process sees it. */
  connect(turn: Turn = async () => undefined): GrantDirectory {
    const files = this.#files;
    const path = (family: Family, name: string) => `${family}/${name}`;
    return {
      list: async (family) => {
        await turn("list");
        return [...files.keys()].filter((key) => key.startsWith(`${family}/`)).map((key) => key.slice(2));
      },
      read: async (family, name) => {
        await turn(`read ${name}`);
        return files.get(path(family, name))?.text;
      },
      // Drafts have names that nobody else knows: their calls change nothing for anybody, whenever they come.
      write: async (family, name, text) => {
        files.set(path(family, name), { text });
      },
      link: async (family, from, to) => {
        await turn(`link ${to}`);
        const file = files.get(path(family, from));
        if (file === undefined || files.has(path(family, to))) return false;
        files.set(path(family, to), file);
        return true;
      },
      rename: async (family, from, to) => {
        await turn(`rename ${from} ${to}`);
        const file = files.get(path(family, from));
        if (file === undefined) return false;
        files.delete(path(family, from));
        files.set(path(family, to), file);
        return true;
      },
      remove: async (family, name) => {
        if (parseAddress(name) !== undefined) await turn(`remove ${name}`);
        files.delete(path(family, name));
      },
      lock: async () => {
        await turn("lock");
        while (this.#isLocked) await new Promise<void>((resolve) => this.#waiting.push(resolve));
        this.#isLocked = true;
        return {
          [Symbol.dispose]: () => {
            this.#isLocked = false;
            for (const wake of this.#waiting.splice(0)) wake();
          },
        };
      },
      draftName: () => `.new-${++this.#drafts}-draft`,
    };
  }

  /** Address → text of its grant. */
  grants(): ReadonlyMap<string, string> {
    const found = new Map<string, string>();
    for (const [key, { text }] of this.#files) if (parseAddress(key.slice(2)) !== undefined) found.set(key.slice(2), text);
    return found;
  }

  names(): readonly string[] {
    return [...this.#files.keys()].sort();
  }
}

export interface HostScopeOptions extends Partial<HostScopeParts> {
  readonly cidrs?: readonly string[];
  readonly excluded?: readonly string[];
}

/** A node's host scope with a clock that stands still and random numbers from a seed. */
export function hostScopeOf({ cidrs = ["10.60.0.0/29"], excluded = [], ...parts }: HostScopeOptions = {}): HostScope {
  let tokens = 0;
  return new HostScope({
    directory: new GrantFileSystem().connect(),
    ranges: () => ({
      ranges: cidrs.map((cidr) => hostRange(prefixFrom(cidr))),
      exclusions: excluded.map((cidr) => ({ prefix: prefixFrom(cidr), reason: `route ${cidr} dev eth1` })),
    }),
    strategy: "contiguous",
    cooldownMs: 30_000,
    nowMs: () => 1_787_405_600_000,
    random: seededRandom(1),
    newToken: () => `token-${++tokens}`,
    ...parts,
  });
}

/** Starts the tasks of one run on a world of its own. A task that fails fails the run, as does `judge`, which is asked after every step. */
export type StartWorld = (turn: Turn) => { readonly tasks: readonly Promise<unknown>[]; judge(): void };

/** Runs `world` once for each order in which its tasks' turns can come. @returns how many orders there were */
export async function everyOrder(world: StartWorld): Promise<number> {
  let path: readonly number[] = [];
  for (let orders = 1; ; orders++) {
    const chosen: { readonly choice: number; readonly width: number }[] = [];
    await oneOrder(world, (width) => {
      const choice = path[chosen.length] ?? 0;
      chosen.push({ choice, width });
      return choice;
    });
    const last = chosen.findLastIndex(({ choice, width }) => choice + 1 < width);
    if (last < 0) return orders;
    path = [...chosen.slice(0, last).map(({ choice }) => choice), (chosen[last]?.choice ?? 0) + 1];
  }
}

/** Runs `world` in so many orders that a seed chooses. */
export async function someOrders(world: StartWorld, count: number): Promise<void> {
  for (let seed = 1; seed <= count; seed++) {
    const random = seededRandom(seed);
    await oneOrder(world, (width) => Math.floor(random() * width));
  }
}

async function oneOrder(world: StartWorld, choose: (width: number) => number): Promise<void> {
  const waiting: { readonly what: string; readonly resume: () => void }[] = [];
  const { tasks, judge } = world((what) => new Promise((resolve) => waiting.push({ what, resume: resolve })));
  const ended = Promise.all(tasks);
  ended.catch(() => undefined);
  const trace: string[] = [];
  await settled();
  try {
    while (waiting.length > 0) {
      const [next] = waiting.splice(choose(waiting.length), 1);
      trace.push(next?.what ?? "");
      next?.resume();
      await settled();
      judge();
    }
    await ended;
  } catch (error) {
    throw new Error(`after ${trace.join(", ")}: ${error}`, { cause: error });
  }
}

function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
