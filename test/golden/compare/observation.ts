/**
 * One call as it is compared: exit status, result or error, stored objects, kernel and files, with links, addresses and routes
 * named by what they are and not by their place in a list.
 */

import type { Seen } from "../recording/recording.ts";
import { isRecord, type Json, type JsonRecord, jsonOrUndefined, listOf, recordOf, textOf, without } from "./json.ts";

export interface Observation extends JsonRecord {
  readonly exit: Json;
}

export function observationOf(seen: Seen): Observation {
  return {
    exit: seen.exit,
    ...outputOf(seen.stdout),
    ...(seen.stderr === undefined ? {} : { stderr: seen.stderr }),
    ...(seen.kernel === undefined
      ? {}
      : { kernel: Object.fromEntries(Object.entries(seen.kernel).map(([name, side]) => [name, namespaceOf(side)])) }),
    objects: { ...seen.state },
    ...(seen.files === undefined ? {} : { files: filesByValue(seen.files) }),
    ...(seen.requests === undefined ? {} : { requests: seen.requests }),
    ...(seen.waitedForLock === undefined ? {} : { waitedForLock: seen.waitedForLock }),
  };
}

/**
 * Standard output: an error object apart, everything else as value and exact text (the text tells of indentation and key order).
 * An error must be printed as libcni prints it, with an indentation of four.
 */
function outputOf(stdout: string): JsonRecord {
  const value = jsonOrUndefined(stdout);
  if (isRecord(value) && typeof value.code === "number" && typeof value.msg === "string") {
    return { error: { ...value, layout: stdout === JSON.stringify(value, null, 4) ? "indented by 4" : stdout } };
  }
  return { stdout: value === undefined ? { text: stdout } : { value, text: stdout } };
}

/** What a spy was given on standard input counts by its value, since the order of keys says nothing; of a log only that it is there. */
function filesByValue(files: Readonly<Record<string, string>>): JsonRecord {
  return Object.fromEntries(
    Object.entries(files).map(([path, content]) => {
      if (path.startsWith("/var/log/")) return [path, "a log"];
      return [path, path.endsWith("/stdin") ? (jsonOrUndefined(content) ?? content) : content];
    }),
  );
}

function namespaceOf(side: Json): Json {
  if (!isRecord(side)) return side;
  return {
    links: keyed(side.links, (link) => textOf(link.ifname), "ifname"),
    addresses: keyed(side.addresses, (address) => `${textOf(address.dev)} ${textOf(address.address)}`, "dev", "address"),
    routes4: keyed(side.routes4, routeName, "dst", "dev", "gateway"),
    routes6: keyed(side.routes6, routeName, "dst", "dev", "gateway"),
    sysctls: recordOf(side.sysctls),
    neighbours: keyed(side.neighbours, (neighbour) => `${textOf(neighbour.dst)} dev ${textOf(neighbour.dev)}`, "dst", "dev"),
  };
}

function routeName(route: JsonRecord): string {
  const via = route.gateway === undefined ? "" : ` via ${textOf(route.gateway)}`;
  return `${textOf(route.dst)}${via} dev ${textOf(route.dev)}`;
}

/** A list as an object by name, in the order of the names; members that the name says already are left out. */
function keyed(list: Json | undefined, nameOf: (entry: JsonRecord) => string, ...said: readonly string[]): JsonRecord {
  const entries = listOf(list).map((entry) => [nameOf(recordOf(entry)), without(recordOf(entry), ...said)] as const);
  return Object.fromEntries([...entries].sort(([a], [b]) => (a < b ? -1 : 1)));
}
