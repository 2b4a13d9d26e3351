/** Runs `tortiectl datastore migrate`: opens both stores, runs the migration, and says what it did, for people or as JSON. */

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { TortieError } from "../../lib/errors/errors.ts";
import { stringifyJson } from "../../lib/json/value.ts";
import { isForeign, type KindDifference } from "../../migration/difference.ts";
import { compareStores, migrate, type Side } from "../../migration/migrate.ts";
import { openStore, type Store } from "./ipam/store.ts";
import { milliseconds } from "./options.ts";
import { columns, endOfProcess, type Terminal } from "./terminal.ts";

/** Equals the configuration's own default. */
const LOCAL_FILE = "/var/lib/tortie/tortie.db";

/**
 * Raises the plugins' five requests a second, which would pause a cluster of 5,000 pods for more than half an hour. There is one
 * connection, so that the API server sets the pace.
 */
const IN_A_HURRY = { K8S_CLIENT_QPS: "1000", K8S_CLIENT_BURST: "1000" };

export type StoreType = "local" | "kubernetes" | "etcdv3";

interface MigrateOptions {
  readonly from: StoreType;
  readonly to: StoreType;
  readonly datastore: string | undefined;
  readonly kubeconfig: string | undefined;
  readonly overwrite: boolean;
  readonly dryRun: boolean;
  /** Seconds. */
  readonly wait: number;
  readonly settle: number;
  readonly record: string;
  readonly json: boolean;
}

/** @returns exit status: 1 when nothing was migrated, or would not be (--dry-run) */
export async function migrateStore(options: MigrateOptions, terminal: Terminal): Promise<number> {
  const { from, to } = options;
  if (from === to) throw new TortieError("option-invalid", `--from and --to are both ${from}`);
  const [waitMs, settleMs] = [milliseconds("wait", options.wait), milliseconds("settle", options.settle)];
  await using source = await open(from, options, false);
  if (options.dryRun) return await compare(source, options, terminal);
  await using target = await open(to, options, true);
  const [ours, theirs] = [sideOf(source, from, options), sideOf(target, to, options)];
  const progress = progressOn(terminal, options.json);
  const report = await migrate(ours, theirs, {
    overwrite: options.overwrite,
    recordPath: options.record,
    waitMs,
    settleMs,
    nowMs: Date.now,
    // Ends the work before the next object, so that the stores become ready again.
    signal: endOfProcess(new TortieError("operation-interrupted", "the migration was interrupted")),
    onProgress: progress.show,
  }).finally(progress.end);
  printReport(terminal, options, { from: ours, to: theirs, ...report });
  return 0;
}

async function compare(source: Store, options: MigrateOptions, terminal: Terminal): Promise<number> {
  const { from, to } = options;
  const isToBeMade = to === "local" && !existsSync(options.datastore ?? LOCAL_FILE);
  await using target = isToBeMade ? undefined : await open(to, options, false);
  const [ours, theirs] = [sideOf(source, from, options), target && sideOf(target, to, options)];
  const kinds: readonly KindDifference[] = await compareStores(ours, theirs);
  printReport(terminal, options, { from: ours, to: theirs, kinds, written: new Map() });
  return kinds.some(isForeign) && !options.overwrite ? 1 : 0;
}

function open(type: StoreType, { datastore, kubeconfig = process.env.KUBECONFIG }: MigrateOptions, mayBeMade: boolean): Promise<Store> {
  const none = { datastore: undefined, conf: undefined, kubeconfig: undefined, json: false };
  if (type === "local") return openStore({ ...none, datastore: datastore ?? LOCAL_FILE }, mayBeMade);
  if (type === "etcdv3") return openStore({ ...none, datastore: "etcdv3" });
  if (kubeconfig === undefined) throw new TortieError("option-invalid", "which cluster? give --kubeconfig or set KUBECONFIG");
  return openStore({ ...none, kubeconfig }, false, IN_A_HURRY);
}

/** Describes a store without what its description says only once the server has been asked. */
function sideOf({ datastore, unreadable }: Store, type: StoreType, options: MigrateOptions): Side {
  const { description } = datastore;
  const identity = type === "local" ? `local ${resolve(options.datastore ?? LOCAL_FILE)}` : description.replace(/, group .*$/, "");
  return { datastore, identity, unreadable };
}

interface Outcome {
  readonly from: Side;
  /** Absent: a local store that is still to be made. */
  readonly to: Side | undefined;
  readonly kinds: readonly KindDifference[];
  readonly written: ReadonlyMap<string, number>;
}

/** Limits the names in a sentence; the JSON has all. */
const MOST_NAMED = 5;

export function printReport(
  terminal: Terminal,
  { dryRun, json }: { readonly dryRun: boolean; readonly json: boolean },
  { from, to, kinds, written }: Outcome,
): void {
  const [source, target] = [from.datastore.description, to?.datastore.description ?? "a new local datastore"];
  if (json) {
    const rows = kinds.map((one) => ({
      kind: one.kind.name,
      same: one.same,
      written: written.get(one.kind.name) ?? 0,
      missing: one.missing.length,
      differing: one.differing.map(({ object }) => object.id),
      extra: one.extra.map(({ id }) => id),
      withoutPlace: one.homeless.map(({ id }) => id),
      leftBehind: one.shortened,
    }));
    terminal.out(stringifyJson({ from: source, to: target, dryRun, kinds: rows }, 2));
    return;
  }
  const { green, bold, yellow } = terminal.colors;
  terminal.out(bold(`${source} → ${target}`));
  for (const line of columns(kinds.map((one) => rowOf(one, written, dryRun)))) terminal.out(line);
  for (const { kind, homeless, shortened } of kinds) {
    if (homeless.length > 0)
      terminal.out(`${yellow("note:")} no place in the target for ${kind.name} ${named(homeless.map(({ id }) => id))}`);
    if (shortened.length > 0) terminal.out(`${yellow("note:")} left behind of ${kind.name}: ${named(shortened)}`);
  }
  if (!dryRun) terminal.out(`${green("ok")} both hold the same`);
}

function rowOf({ kind, missing, differing, extra, same }: KindDifference, written: ReadonlyMap<string, number>, dryRun: boolean) {
  const numbers = dryRun
    ? [
        `${missing.length} to copy`,
        `${same} there already`,
        ...(differing.length > 0 ? [`${differing.length} differ`] : []),
        ...(extra.length > 0 ? [`${extra.length} in the target alone`] : []),
      ]
    : [`${written.get(kind.name) ?? 0} written`, `${same} the same`];
  return [kind.name, ...numbers];
}

function named(names: readonly string[]): string {
  const first = names.slice(0, MOST_NAMED).join(", ");
  return names.length > MOST_NAMED ? `${first} and ${names.length - MOST_NAMED} more` : first;
}

const WIDTH = 40;
const LINE_EVERY = 1000;

interface Progress {
  readonly show: (kind: string, done: number, all: number) => void;
  /** Takes the bar away. */
  readonly end: () => void;
}

/** Draws a bar that is redrawn in place on a terminal, otherwise a line for every thousand objects. */
export function progressOn({ redraw, err, colors }: Terminal, isJson: boolean): Progress {
  if (redraw !== undefined) {
    let last = "";
    return {
      show: (kind, done, all) => {
        const line = `${kind}  ${bar(done, all)}  ${done.toLocaleString("en")} of ${all.toLocaleString("en")}`;
        if (line !== last) redraw(colors.dim(line));
        last = line;
      },
      end: () => redraw(""),
    };
  }
  return {
    show: (kind, done, all) => {
      if (!isJson && (done === all || done % LINE_EVERY === 0)) {
        err(`${kind}  ${done.toLocaleString("en")} of ${all.toLocaleString("en")}`);
      }
    },
    end: () => undefined,
  };
}

/** Draws a share as a bar; its last sign appears only when everything is done. */
function bar(done: number, all: number): string {
  const full = all === 0 ? WIDTH : Math.floor((done * WIDTH) / all);
  return "█".repeat(full) + "·".repeat(WIDTH - full);
}
