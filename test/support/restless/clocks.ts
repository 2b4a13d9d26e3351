/**
 * A node's clocks differ from the machine's: for its programs alone. A time namespace shifts the time since the boot (time_namespaces(7)),
 * which is the same for the agent and the plugins. No namespace has a time of day of its own: a library that is loaded before libc's own
 * answers for that. It reaches what is linked dynamically, so not the forwarder, which asks for no time of day. Times of files stay the
 * machine's.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

const LIBRARY = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
  static int (*own)(clockid_t, struct timespec *);
  if (own == NULL) own = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  const char *shift = getenv("TORTIE_TEST_CLOCK");
  int failed = own(clock, time);
  if (failed == 0 && clock == CLOCK_REALTIME && shift != NULL) time->tv_sec += atoll(shift);
  return failed;
}
`;

export interface Shift {
  /** Seconds that the time of day is ahead of the machine's; it may be behind. */
  readonly ofDay: number;
  /** Seconds that the machine has slept. */
  readonly sinceBoot: number;
}

/**
 * What comes before a program so that its clocks are shifted.
 *
 * @param directory where the library is made, with the C compiler that the forwarder needs: without it the time of day stays the machine's
 */
export function shifted(directory: string, { ofDay, sinceBoot }: Shift): readonly string[] {
  const library = join(directory, "clock.so");
  if (!existsSync(library)) spawnSync("gcc", ["-shared", "-fPIC", "-x", "c", "-", "-o", library, "-ldl"], { input: LIBRARY });
  const preload = existsSync(library) ? ["/usr/bin/env", `LD_PRELOAD=${library}`, `TORTIE_TEST_CLOCK=${ofDay}`] : [];
  const boot = sinceBoot === 0 ? [] : ["/usr/bin/unshare", "--time", "--boottime", String(sinceBoot)];
  return [...boot, ...(ofDay === 0 ? [] : preload)];
}
