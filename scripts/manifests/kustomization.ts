/**
 * Does the part of Kustomize that this project's manifests use: resources (files and folders) and patches (JSON 6902, and merges of maps).
 * Refuses anything else in a kustomization, so `kubectl kustomize` gives the same result.
 */
import { readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Fields, isObject } from "../../lib/json/decode.ts";

const KEYS = new Set(["apiVersion", "kind", "resources", "patches"]);

/** Returns the objects of a folder with a kustomization, in the order of its resources. @throws Error naming the file and what is wrong in it */
export function renderFolder(folder: string): readonly Fields[] {
  const path = join(folder, "kustomization.yaml");
  const [kustomization, ...others] = readDocuments(path);
  if (kustomization === undefined || others.length > 0) throw new Error(`${path} must hold one document`);
  const unknown = Object.keys(kustomization).find((key) => !KEYS.has(key));
  if (unknown !== undefined) throw new Error(`${path}: "${unknown}" is not supported by scripts/render-manifests`);
  let objects: readonly Fields[] = listOf(kustomization.resources).flatMap((name) => {
    const resource = resolve(folder, String(name));
    return statSync(resource).isDirectory() ? renderFolder(resource) : readDocuments(resource);
  });
  assertDistinct(objects, path);
  for (const entry of listOf(kustomization.patches)) objects = patched(objects, readPatch(entry, folder), path);
  return objects;
}

/** Reads the documents of a YAML file. */
export function readDocuments(path: string): readonly Fields[] {
  return documentsOf(readFileSync(path, "utf8"), path);
}

function documentsOf(text: string, path: string): readonly Fields[] {
  const parsed: unknown = Bun.YAML.parse(text);
  return (Array.isArray(parsed) ? parsed : [parsed]).map((document) => {
    if (!isObject(document)) throw new Error(`${path} holds a document that is not a map`);
    return document;
  });
}

function readPatch(entry: unknown, folder: string): Patch {
  if (!isObject(entry)) throw new Error(`${folder}: a patch must be a map`);
  const text = typeof entry.path === "string" ? readFileSync(resolve(folder, entry.path), "utf8") : String(entry.patch);
  const content: unknown = Bun.YAML.parse(text);
  if (Array.isArray(content)) {
    if (!isObject(entry.target)) throw new Error(`${folder}: operations need a target`);
    return { target: entry.target, operations: content.filter(isObject) };
  }
  if (!isObject(content) || !isObject(content.metadata)) throw new Error(`${folder}: a patch must be a list of operations or an object`);
  return { target: { kind: content.kind, name: content.metadata.name }, merge: content };
}

function patched(objects: readonly Fields[], patch: Patch, path: string): readonly Fields[] {
  let count = 0;
  const result = objects.map((object) => {
    if (object.kind !== patch.target.kind || nameOf(object) !== patch.target.name) return object;
    count += 1;
    return "merge" in patch ? mergeMaps(object, patch.merge) : applyOperations(object, patch.operations);
  });
  if (count === 0) throw new Error(`${path}: no object for the patch of ${String(patch.target.kind)} ${String(patch.target.name)}`);
  return result;
}

function assertDistinct(objects: readonly Fields[], path: string): void {
  const seen = new Set<string>();
  for (const object of objects) {
    const identity = `${String(object.apiVersion)} ${String(object.kind)} ${String(nameOf(object))}`;
    if (seen.has(identity)) throw new Error(`${path}: ${identity} comes twice`);
    seen.add(identity);
  }
}

function nameOf(object: Fields): unknown {
  return isObject(object.metadata) ? object.metadata.name : undefined;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

interface Target {
  readonly kind?: unknown;
  readonly name?: unknown;
}

export type Patch =
  | { readonly target: Target; readonly merge: Fields }
  | { readonly target: Target; readonly operations: readonly Fields[] };

/** Merges maps, replaces everything else. @throws Error for a list: Kustomize merges some of them by key, this does not */
export function mergeMaps(base: Fields, patch: Fields): Fields {
  const merged: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(patch)) {
    if (Array.isArray(value)) throw new Error(`"${key}" is a list; use operations of JSON 6902`);
    const former = merged[key];
    merged[key] = isObject(value) && isObject(former) ? mergeMaps(former, value) : value;
  }
  return merged;
}

/** Does `add`, `replace` and `remove` of RFC 6902. @throws Error for any other operation, and for a path that does not exist */
export function applyOperations(object: Fields, operations: readonly Fields[]): Fields {
  return operations.reduce<Fields>((result, { op, path, value }) => {
    if ((op !== "add" && op !== "replace" && op !== "remove") || typeof path !== "string")
      throw new Error(`operation ${String(op)} is not supported`);
    const steps = path
      .split("/")
      .slice(1)
      .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
    const changed = withValue(result, steps, op, value);
    if (!isObject(changed)) throw new Error(`${path} would replace the whole object`);
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
  if (!isObject(container)) throw new Error(`there is nothing at ${step}`);
  if (!(step in container) && (op !== "add" || rest.length > 0)) throw new Error(`there is no ${step}`);
  if (rest.length === 0 && op === "remove") return Object.fromEntries(Object.entries(container).filter(([key]) => key !== step));
  return { ...container, [step]: withValue(container[step], rest, op, value) };
}
