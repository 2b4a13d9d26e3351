/** Whether pods of this host still have a network of Tortie's: what waits for them asks the kernel, which forgets none and adds none. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isAttachmentAlias } from "../dataplane/alias.ts";
import { type Clock, SYSTEM_CLOCK } from "../lib/system/clock.ts";
import type { Log } from "./install.ts";

const LINKS = "/sys/class/net";
const LOOK_MS = 1_000;
/** A line a minute says that it still waits. */
const LOOKS_A_LINE = 60;

/** Names of the host ends that bear Tortie's alias (Documentation/ABI/testing/sysfs-class-net, `ifalias`). */
export function linksOfPods(folder = LINKS): readonly string[] {
  return readdirSync(folder).filter((name) => isAttachmentAlias(aliasOf(join(folder, name, "ifalias"))));
}

export interface Wait {
  readonly links?: () => readonly string[];
  readonly clock?: Pick<Clock, "sleep">;
}

/** @returns whether none is left; `false` when the signal was raised first */
export async function untilNoPodIsLeft(
  log: Log,
  signal: AbortSignal,
  { links = linksOfPods, clock = SYSTEM_CLOCK }: Wait = {},
): Promise<boolean> {
  for (let looks = 0; !signal.aborted; looks += 1) {
    const { length } = links();
    if (length === 0) return true;
    if (looks % LOOKS_A_LINE === 0) log(`${length} pods of this host have a network of tortie's; waiting until they are gone`);
    await clock.sleep(LOOK_MS, signal);
  }
  return false;
}

/** A link may go while it is looked at. */
function aliasOf(path: string): string {
  try {
    return readFileSync(path, "utf8").trimEnd();
  } catch {
    return "";
  }
}
