/** The progress of a migration: a bar that is redrawn in place on a terminal, otherwise a line for every thousand objects. */
import type { Terminal } from "../terminal.ts";

const WIDTH = 40;
const LINE_EVERY = 1000;

export interface Progress {
  readonly show: (kind: string, done: number, all: number) => void;
  /** Takes the bar away. */
  readonly end: () => void;
}

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
