/** How much a build redoes (A§5.5). Each level includes those below it. */
const LEVELS = { "no-rebuild": 1, reload: 2, "rewrite+load": 3, "compile+load": 4 } as const;

/**
 * 1: links, addresses, routes and settings compared with the desired state and mended. 2 to 4 add the seams of A§5.8: programs loaded
 * again, rewritten, compiled.
 */
export type Level = (typeof LEVELS)[keyof typeof LEVELS];

export function levelName(level: Level): string {
  return Object.entries(LEVELS).find(([, number]) => number === level)?.[0] ?? "invalid";
}

export function higher(one: Level, other: Level): Level {
  return one > other ? one : other;
}
