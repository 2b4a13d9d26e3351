/** Applies a patch of a kustomization to one object; never changes an object in place. */

export interface YamlMap {
  readonly [key: string]: unknown;
}

interface Target {
  readonly kind?: unknown;
  readonly name?: unknown;
}

export type Patch =
  | { readonly target: Target; readonly merge: YamlMap }
  | { readonly target: Target; readonly operations: readonly YamlMap[] };

/** Merges maps, replaces everything else. @throws Error for a list: Kustomize merges some of them by key, this does not */
export function mergeMaps(base: YamlMap, patch: YamlMap): YamlMap {
  const merged: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(patch)) {
    if (Array.isArray(value)) throw new Error(`"${key}" is a list; use operations of JSON 6902`);
    const former = merged[key];
    merged[key] = isMap(value) && isMap(former) ? mergeMaps(former, value) : value;
  }
  return merged;
}

/** Does `add`, `replace` and `remove` of RFC 6902. @throws Error for any other operation, and for a path that does not exist */
export function applyOperations(object: YamlMap, operations: readonly YamlMap[]): YamlMap {
  return operations.reduce<YamlMap>((result, { op, path, value }) => {
    if ((op !== "add" && op !== "replace" && op !== "remove") || typeof path !== "string")
      throw new Error(`operation ${String(op)} is not supported`);
    const steps = path
      .split("/")
      .slice(1)
      .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
    const changed = withValue(result, steps, op, value);
    if (!isMap(changed)) throw new Error(`${path} would replace the whole object`);
    return changed;
  }, object);
}

function withValue(container: unknown, [step, ...rest]: readonly string[], op: string, value: unknown): unknown {
  if (step === undefined) return value;
  if (Array.isArray(container)) {
    const index = step === "-" ? container.length : Number(step);
    const isThere = Number.isInteger(index) && index < container.length;
    if (rest.length === 0 && op === "add" && index <= container.length) return container.toSpliced(index, 0, value);
    if (!isThere) throw new Error(`a list has no element ${step}`);
    if (rest.length === 0 && op === "remove") return container.toSpliced(index, 1);
    return container.with(index, withValue(container[index], rest, op, value));
  }
  if (!isMap(container)) throw new Error(`there is nothing at ${step}`);
  if (!(step in container) && (op !== "add" || rest.length > 0)) throw new Error(`there is no ${step}`);
  if (rest.length === 0 && op === "remove") return Object.fromEntries(Object.entries(container).filter(([key]) => key !== step));
  return { ...container, [step]: withValue(container[step], rest, op, value) };
}

function isMap(value: unknown): value is YamlMap {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
