/** MAC and link-local addresses, which differ from play to play, named after the place where each was first seen. */
import { isRecord, type Json, mapTexts, recordOf } from "./json.ts";
import type { Observation } from "./observation.ts";

/** How volatile addresses look on one side. */
export interface Volatile {
  readonly pattern: RegExp;
  /** Whether a text that matches is volatile. */
  readonly isVolatile: (text: string) => boolean;
}

/** The recorder's own tokens: {{mac1}}, {{linklocal2}}, {{linklocal-other0}}. */
export const RECORDED_ADDRESSES: Volatile = { pattern: /\{\{(?:mac|linklocal)[\w-]*\}\}/g, isVolatile: () => true };

/** Real addresses; those that stand literally in the recording are not volatile. */
export function playedAddresses(recording: string): Volatile {
  return {
    pattern: /(?:[0-9a-f]{2}:){5}[0-9a-f]{2}|fe80::[0-9a-f]+(?::[0-9a-f]+)*/g,
    isVolatile: (text) => !recording.includes(text),
  };
}

/** "{{MAC of call 0 pod links eth0}}": the kernel is looked at first, because there an address has a link's name. */
export function nameAddresses(steps: readonly Observation[], { pattern, isVolatile }: Volatile): Observation[] {
  const names = new Map<string, string>();
  const rename = (text: string, path: readonly string[]) =>
    text.replace(pattern, (found) => {
      if (!isVolatile(found)) return found;
      const name = names.get(found) ?? newName(found, text, path, [...names.values()]);
      names.set(found, name);
      return name;
    });
  return steps.map(({ kernel, exit, ...rest }, index) => {
    const call = [`call ${index}`];
    const named: Pick<Observation, "kernel"> | Record<string, never> =
      kernel === undefined ? {} : { kernel: mapTexts(linksFirst(kernel), rename, call) };
    return { ...recordOf(mapTexts(rest, rename, call)), ...named, exit };
  });
}

/** The place, with the device of an "eth0 fe80::1/64" behind it, and a number when the place has several. */
function newName(found: string, text: string, path: readonly string[], taken: readonly string[]): string {
  const kind = /^fe80|linklocal/.test(found) ? "link-local" : "MAC";
  const place = `${kind} of ${[...path.slice(0, 4), ...(/^\w+ /.exec(text) ?? [])].join(" ").trim()}`;
  const same = taken.filter((name) => name.startsWith(`{{${place}`)).length;
  return `{{${place}${same === 0 ? "" : ` (${same + 1})`}}}`;
}

function linksFirst(kernel: Json): Json {
  const sides = Object.entries(recordOf(kernel)).map(([name, side]) => {
    if (!isRecord(side)) return [name, side] as const;
    const { links, addresses, ...rest } = side;
    return [name, { links: links ?? {}, addresses: addresses ?? {}, ...rest }] as const;
  });
  return Object.fromEntries(sides);
}
