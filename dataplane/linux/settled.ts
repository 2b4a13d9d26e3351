/**
 * Waits for addresses that the kernel is still preparing. A new IPv6 address is tentative for milliseconds even where duplicate
 * detection is off, and for one to two seconds where it is on (net/ipv6/addrconf.c, addrconf_dad_work). Such an address is not broken.
 */
import type { Difference } from "../desired-state.ts";
import { pause } from "./delete-link.ts";

/** What a comparison finds for an address that the kernel has not finished preparing. */
export const TENTATIVE = "tentative";
/** Two seconds of detection with the default settings, and some room. */
const SETTLING_LIMIT_MS = 3000;

/** Repeats a comparison while a tentative address is all it finds. @returns what the last comparison found */
export async function settled(compare: () => Difference[]): Promise<Difference[]> {
  const end = performance.now() + SETTLING_LIMIT_MS;
  for (let looks = 0; ; looks++) {
    const found = compare();
    const isSettling = found.length > 0 && found.every((difference) => difference.found === TENTATIVE);
    if (!isSettling || performance.now() >= end) return found;
    await pause(looks);
  }
}
