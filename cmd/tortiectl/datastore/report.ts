/** What a migration does, did, or would do, for people and as JSON. */
import { stringifyJson } from "../../../lib/json/value.ts";
import type { KindDifference } from "../../../migration/difference.ts";
import type { Side } from "../../../migration/migrate.ts";
import { columns, type Terminal } from "../terminal.ts";

interface Outcome {
  readonly from: Side;
  /** Absent: a local store that is still to be made. */
  readonly to: Side | undefined;
  readonly kinds: readonly KindDifference[];
  readonly written: ReadonlyMap<string, number>;
}

/** Names in a sentence; the JSON has all. */
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

/** A bar that is redrawn in place on a terminal, otherwise a line for every thousand objects. */
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

/** A share as a bar; its last sign appears only when everything is done. */
function bar(done: number, all: number): string {
  const full = all === 0 ? WIDTH : Math.floor((done * WIDTH) / all);
  return "█".repeat(full) + "·".repeat(WIDTH - full);
}
