/**
 * What processes tell each other of members that failed: a plugin lives for one call and would pay a dead member's time-out in every one of
 * them. A file that is not there, broken or old says nothing, and one that cannot be written changes nothing: the memory only saves time.
 */
import { isNumber, isObject, mapOf, optional, parseObject } from "../../../json/decode.ts";
import { directoryOf, makeDirectories, readText, statusOf } from "../../../system/files.ts";
import { writeWhole } from "../../../system/write-whole.ts";
import { type Health, LONGEST_REST_MS } from "./members.ts";

/** Beside the agent's files, on a tmpfs: it does not outlive the boot. Plugins and agent write it. */
export const MEMBER_MEMORY = "/run/tortie/etcd-members.json";

const MODE = 0o600;
const DIRECTORY_MODE = 0o755;
/** A cluster has a handful of members; what is larger is not ours. */
const MOST_BYTES = 65_536;

export interface MemberMemory {
  /** By URL; times are those of `performance.now()` of this process. */
  read(): ReadonlyMap<string, Health>;
  /** @param health of the members that have failed lately; the others are well */
  write(health: ReadonlyMap<string, Health>): void;
}

export const NO_MEMORY: MemberMemory = { read: () => new Map(), write: () => {} };

export function memberMemory(path: string): MemberMemory {
  // The file has the time of day, which other processes share; a rest that reaches further than any can is of a clock that jumped.
  const passed = () => Date.now() - performance.now();
  return {
    read() {
      try {
        if ((statusOf(path)?.size ?? 0) > MOST_BYTES) return new Map();
        const entries = Object.entries(optional(parseObject(readText(path)), "members", mapOf(isObject)).members ?? {});
        const ages = passed();
        return new Map(
          entries.flatMap(([url, { failures, restsUntil }]) => {
            const isSane = isNumber(failures) && isNumber(restsUntil) && restsUntil <= Date.now() + LONGEST_REST_MS;
            return isSane ? [[url, { failures, restsUntil: restsUntil - ages }] as const] : [];
          }),
        );
      } catch {
        return new Map();
      }
    },
    write(health) {
      const ages = passed();
      const members = Object.fromEntries(
        [...health].map(([url, { failures, restsUntil }]) => [url, { failures, restsUntil: Math.round(restsUntil + ages) }]),
      );
      try {
        makeDirectories(directoryOf(path), DIRECTORY_MODE);
        writeWhole(path, JSON.stringify({ members }), MODE);
      } catch {
        // Nothing is lost but time.
      }
    },
  };
}
