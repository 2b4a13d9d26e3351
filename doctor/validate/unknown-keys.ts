/** Keys that no decoder looks at: the plugins ignore them, which is seldom what their writer wanted. */
import { type Members, memberName } from "../../lib/config/codec.ts";
import { isObject } from "../../lib/json/decode.ts";
import type { Step } from "../../lib/json/position.ts";
import { type Judgement, warning } from "./finding.ts";
import { suggestionFor } from "./suggest.ts";

/**
 * Every unknown key of an object and of the known objects and lists in it.
 * @param others keys that other programs read, with everything in them
 */
export function unknownKeys(members: Members, value: unknown, root: readonly Step[], others: readonly string[] = []): readonly Judgement[] {
  if (Array.isArray(value)) return value.flatMap((item, index) => unknownKeys(members, item, [...root, index]));
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inside]) => {
    // A key that begins with an underscore is a comment, by custom.
    if (others.includes(key) || key.startsWith("_")) return [];
    const path = [...root, key];
    const name = memberName(members, key);
    const codec = name === undefined ? undefined : members[name];
    if (codec !== undefined) return codec.members === undefined ? [] : unknownKeys(codec.members, inside, path);
    return [unknownKey(key, path, [...Object.keys(members), ...others])];
  });
}

export function unknownKey(key: string, path: readonly Step[], known: readonly string[]): Judgement {
  return warning("key-unknown", path, `the key ${JSON.stringify(key)} is not known, and ignored`, suggestionFor(key, known));
}
