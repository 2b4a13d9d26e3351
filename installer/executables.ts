/**
 * The executables in the runtimes' plugin directories (C§9.3, steps 5 and 6). What a runtime calls by the main plugin's name is the forwarder
 * (forwarder/forwarder.c). It stands in front of the program, which lies beside it under that name and "-main". A build without a C compiler
 * has none; the main plugin's name is the program's own then.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { directoryOf, isThere, statusOf } from "../lib/system/files.ts";
import { areEqual, copyWhole, whyNotWritable } from "./files.ts";
import type { InstallSettings } from "./settings.ts";

type Wanted = Pick<InstallSettings, "binDirs" | "names" | "source" | "pluginSource" | "skipped" | "updates">;

/** One file to be put in place. */
interface Executable {
  readonly from: string;
  readonly target: string;
}

/**
 * What is to be put into each directory that can be written. A runtime looks into one of them; which one is known to its configuration
 * alone.
 *
 * @throws TortieError `install-failed` when no directory can be written, and none has all that is needed
 */
export function planExecutables(wanted: Wanted, log: (line: string) => void): readonly Executable[] {
  const sources = [...own(wanted), ...additional(wanted)];
  const refusals: string[] = [];
  const plan: Executable[] = [];
  for (const directory of wanted.binDirs) {
    const reason = whyNotWritable(directory);
    if (reason !== undefined) {
      refusals.push(`${directory}: ${reason}`);
      log(`${directory} cannot be written (${reason}): left out`);
      continue;
    }
    for (const { name, from } of sources) {
      const target = join(directory, name);
      if (wanted.updates || !isThere(target)) plan.push({ from, target });
      else log(`${target} is there and stays (UPDATE_CNI_BINARIES=false)`);
    }
  }
  if (refusals.length === wanted.binDirs.length) assertComplete(wanted, refusals, log);
  return plan;
}

/** @throws TortieError `install-failed` when a copy does not succeed, or differs from its source (C§9.3, step 5) */
export function copyExecutables(plan: readonly Executable[], log: (line: string) => void): void {
  /** The first file that was installed from a source into a directory. */
  const first = new Map<string, string>();
  for (const { from, target } of plan) {
    const place = `${directoryOf(target)}:${from}`;
    try {
      if (copyWhole(from, target, { twin: first.get(place) })) log(`${target} installed`);
      first.set(place, first.get(place) ?? target);
    } catch (error) {
      throw new TortieError("install-failed", `${target} cannot be installed from ${from}: ${messageOf(error)}`);
    }
    if (!areEqual(from, target)) throw new TortieError("install-failed", `${target} differs from ${from} after it was copied`);
  }
}

interface Source {
  readonly name: string;
  readonly from: string;
}

/** The forwarder comes last: it makes no call before its program is there. */
function own({ names, source }: Wanted): readonly Source[] {
  const { program, forwarder } = sourcesOf(source);
  const [main, ipam] = names.plugins;
  const programs = [forwarder === undefined ? main : programOf(main), ipam, ...names.tools].map((name) => ({ name, from: program }));
  return forwarder === undefined ? programs : [...programs, { name: main, from: forwarder }];
}

/** Plugins that an image stages beside its own executable (C§9.1). */
function additional(wanted: Wanted): readonly Source[] {
  const { pluginSource, skipped } = wanted;
  if (!isThere(pluginSource)) return [];
  const ownNames = own(wanted).map(({ name }) => name);
  return readdirSync(pluginSource)
    .sort()
    .filter((name) => !name.startsWith("install") && !ownNames.includes(name) && !skipped.has(name))
    .map((name) => ({ name, from: join(pluginSource, name) }))
    .filter(({ from }) => statusOf(from)?.isFile === true);
}

/** An image whose host keeps its directories read-only is content with executables that are there already, if it may be (I6, I7). */
function assertComplete({ binDirs, names: { plugins }, updates }: Wanted, refusals: readonly string[], log: (line: string) => void): void {
  const complete = binDirs.find((directory) => plugins.map((name) => join(directory, name)).every(isWhole));
  if (!updates && complete !== undefined) {
    log(`no directory can be written; ${complete} has ${plugins.join(" and ")} already`);
    return;
  }
  throw new TortieError("install-failed", `no directory for the executables can be written: ${refusals.join("; ")}`);
}

/** There, and not a forwarder without its program. */
function isWhole(plugin: string): boolean {
  return isThere(plugin) && (!isForwarder(plugin) || isThere(programOf(plugin)));
}

/** The text in the file that says what it is. */
const MARK = "TORTIE-FORWARDER ";
/** The program is a hundred times as large, and is not read. */
const MOST_BYTES = 4 << 20;

/** Files to install from. */
interface Sources {
  readonly program: string;
  /** `undefined` where the build has none. */
  readonly forwarder: string | undefined;
}

/** @param source the program by one of its names, or the forwarder */
function sourcesOf(source: string): Sources {
  if (isForwarder(source)) return { program: programOf(source), forwarder: source };
  const beside = join(directoryOf(source), "tortie");
  return { program: source, forwarder: isForwarder(beside) ? beside : undefined };
}

/** Where a forwarder finds its program. */
function programOf(forwarder: string): string {
  return `${forwarder}-main`;
}

export function isForwarder(path: string): boolean {
  const status = statusOf(path);
  return status?.isFile === true && status.size <= MOST_BYTES && readFileSync(path).includes(MARK);
}
