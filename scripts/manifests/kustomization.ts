/**
 * Does the part of Kustomize that this project's manifests use: resources (files and folders) and patches (JSON 6902, and merges of maps).
 * Refuses anything else in a kustomization, so `kubectl kustomize` gives the same result.
 */
import { readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { applyOperations, mergeMaps, type Patch, type YamlMap } from "./patch.ts";

const KEYS = new Set(["apiVersion", "kind", "resources", "patches"]);

/** Returns the objects of a folder with a kustomization, in the order of its resources. @throws Error naming the file and what is wrong in it */
export function renderFolder(folder: string): readonly YamlMap[] {
  const path = join(folder, "kustomization.yaml");
  const [kustomization, ...others] = readDocuments(path);
  if (kustomization === undefined || others.length > 0) throw new Error(`${path} must hold one document`);
  const unknown = Object.keys(kustomization).find((key) => !KEYS.has(key));
  if (unknown !== undefined) throw new Error(`${path}: "${unknown}" is not supported by scripts/render-manifests`);
  let objects: readonly YamlMap[] = listOf(kustomization.resources).flatMap((name) => {
    const resource = resolve(folder, String(name));
    return statSync(resource).isDirectory() ? renderFolder(resource) : readDocuments(resource);
  });
  assertDistinct(objects, path);
  for (const entry of listOf(kustomization.patches)) objects = patched(objects, readPatch(entry, folder), path);
  return objects;
}

/** Reads the documents of a YAML file. */
export function readDocuments(path: string): readonly YamlMap[] {
  return documentsOf(readFileSync(path, "utf8"), path);
}

function documentsOf(text: string, path: string): readonly YamlMap[] {
  const parsed: unknown = Bun.YAML.parse(text);
  return (Array.isArray(parsed) ? parsed : [parsed]).map((document) => {
    if (!isMap(document)) throw new Error(`${path} holds a document that is not a map`);
    return document;
  });
}

function readPatch(entry: unknown, folder: string): Patch {
  if (!isMap(entry)) throw new Error(`${folder}: a patch must be a map`);
  const text = typeof entry.path === "string" ? readFileSync(resolve(folder, entry.path), "utf8") : String(entry.patch);
  const content: unknown = Bun.YAML.parse(text);
  if (Array.isArray(content)) {
    if (!isMap(entry.target)) throw new Error(`${folder}: operations need a target`);
    return { target: entry.target, operations: content.filter(isMap) };
  }
  if (!isMap(content) || !isMap(content.metadata)) throw new Error(`${folder}: a patch must be a list of operations or an object`);
  return { target: { kind: content.kind, name: content.metadata.name }, merge: content };
}

function patched(objects: readonly YamlMap[], patch: Patch, path: string): readonly YamlMap[] {
  let count = 0;
  const result = objects.map((object) => {
    if (object.kind !== patch.target.kind || nameOf(object) !== patch.target.name) return object;
    count += 1;
    return "merge" in patch ? mergeMaps(object, patch.merge) : applyOperations(object, patch.operations);
  });
  if (count === 0) throw new Error(`${path}: no object for the patch of ${String(patch.target.kind)} ${String(patch.target.name)}`);
  return result;
}

function assertDistinct(objects: readonly YamlMap[], path: string): void {
  const seen = new Set<string>();
  for (const object of objects) {
    const identity = `${String(object.apiVersion)} ${String(object.kind)} ${String(nameOf(object))}`;
    if (seen.has(identity)) throw new Error(`${path}: ${identity} comes twice`);
    seen.add(identity);
  }
}

function nameOf(object: YamlMap): unknown {
  return isMap(object.metadata) ? object.metadata.name : undefined;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isMap(value: unknown): value is YamlMap {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
