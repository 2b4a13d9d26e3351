/** Tells which variables change what the JavaScript runtime does (privileges.ts); apart from the error, which not every caller loads. */

const REFUSED = /^BUN_(OPTIONS|INSPECT|JSC_|CONFIG_VERBOSE_FETCH)/;

/** Lists the names of those that are set, sorted. */
export function refusedVariables(env: Readonly<Record<string, string | undefined>>): string[] {
  return Object.keys(env)
    .filter((name) => REFUSED.test(name) && env[name] !== undefined)
    .sort();
}
