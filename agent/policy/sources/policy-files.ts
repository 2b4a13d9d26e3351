/**
 * Reads what a file of the policy directory holds: documents of the kinds NetworkPolicy and Namespace, as `kubectl apply` takes them. The
 * file may be anything: a pipe, half a document, one that unfolds into a billion nodes. Whatever is wrong refuses the file as a whole.
 */
import { constants } from "node:fs";
import { type Fields, has, isObject, isText, mapOf, objects, section, text } from "../../../lib/json/decode.ts";
import { closeFile, openFile, readOnce, statusOfOpen } from "../../../lib/system/files.ts";
import { sha256 } from "../../../lib/system/hash.ts";
import { isSubdomain } from "../../../lib/system/subdomain.ts";
import type { Labels, PolicyObject } from "../../../policy/model.ts";

/** Limits one file; parsing so much takes some 50 ms. */
const MOST_BYTES = 1024 * 1024;
/** Limits what a file unfolds to, and how deep: a megabyte without aliases has fewer. */
const MOST_NODES = 300_000;
const DEEPEST = 64;
const LONGEST_NAMESPACE = 63;

/** What one file says. */
export interface PolicyFile {
  /** Changes with each byte of it. */
  readonly print: string;
  readonly policies: readonly PolicyObject[];
  readonly namespaces: readonly { readonly name: string; readonly labels: Labels }[];
  /** "Deployment.apps" of each other object. */
  readonly others: readonly string[];
  /** The text ends as a whole one does, with the end of a line. */
  readonly hasEnd: boolean;
}

/** @returns its bytes as they are now @throws Error saying why it is not read; SystemError */
export function readPolicyFile(path: string): Uint8Array {
  // A pipe without a writer would keep the agent waiting.
  const fd = openFile(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const { isFile, size } = statusOfOpen(fd);
    if (!isFile) throw new Error("it is no regular file");
    if (size > MOST_BYTES) throw new Error(`it has ${size} bytes, and ${MOST_BYTES} at most are read`);
    return readOnce(fd, size + 1, path);
  } finally {
    closeFile(fd);
  }
}

/** @throws Error saying what is wrong with it */
export function parsePolicyFile(bytes: Uint8Array): PolicyFile {
  if (bytes.length > MOST_BYTES) throw new Error(`it has more than ${MOST_BYTES} bytes`);
  const content = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  const parsed: unknown = Bun.YAML.parse(content);
  assertSmall(parsed);
  const print = sha256(bytes);
  const policies: PolicyObject[] = [];
  const namespaces: { readonly name: string; readonly labels: Labels }[] = [];
  const others: string[] = [];
  for (const document of documentsOf(parsed)) {
    const { apiVersion, kind } = { apiVersion: text(document, "apiVersion"), kind: text(document, "kind") };
    if (kind === "") throw new Error("a document has no kind");
    if (apiVersion === "networking.k8s.io/v1" && kind === "NetworkPolicy") policies.push(policyOf(document, print));
    else if (apiVersion === "v1" && kind === "Namespace") namespaces.push(namespaceOf(document));
    else others.push(apiVersion.includes("/") ? `${kind}.${apiVersion.slice(0, apiVersion.indexOf("/"))}` : kind);
  }
  return { print, policies, namespaces, others, hasEnd: content === "" || content.endsWith("\n") };
}

/** Several documents come as a list; a list of Kubernetes has them as items. */
function documentsOf(parsed: unknown): readonly Fields[] {
  const documents = (Array.isArray(parsed) ? parsed : [parsed]).filter((document) => document !== null);
  return documents.flatMap((document: unknown) => {
    if (!isObject(document)) throw new Error("a document is no object");
    return text(document, "kind") === "List" ? objects(document, "items") : [document];
  });
}

/** Counts a node again wherever an alias stands for it: so does whoever walks through it later. @throws Error */
function assertSmall(parsed: unknown): void {
  let left = MOST_NODES;
  const walk = (value: unknown, depth: number): void => {
    if (--left < 0) throw new Error(`it unfolds to more than ${MOST_NODES} values`);
    if (typeof value !== "object" || value === null) return;
    if (depth > DEEPEST) throw new Error(`it is nested more than ${DEEPEST} levels deep`);
    for (const part of Object.values(value)) walk(part, depth + 1);
  };
  walk(parsed, 0);
}

function policyOf(document: Fields, print: string): PolicyObject {
  const metadata = section(document, "metadata");
  const name = nameOf(metadata, "NetworkPolicy");
  const namespace = text(metadata, "namespace") || "default";
  if (!isNamespace(namespace)) throw new Error(`NetworkPolicy ${name}: ${JSON.stringify(namespace)} is no name of a namespace`);
  const spec = isObject(document.spec) ? document.spec : {};
  return { namespace, name, uid: text(metadata, "uid"), resourceVersion: print.slice(0, 12), spec };
}

function namespaceOf(document: Fields): { readonly name: string; readonly labels: Labels } {
  const metadata = section(document, "metadata");
  const name = nameOf(metadata, "Namespace");
  if (!isNamespace(name)) throw new Error(`${JSON.stringify(name)} is no name of a namespace`);
  const labels = has(metadata, "labels") ? metadata.labels : {};
  if (!mapOf(isText)(labels)) throw new Error(`Namespace ${name}: labels must be texts; true, no and numbers need quotes`);
  return { name, labels };
}

function nameOf(metadata: Fields, kind: string): string {
  const name = text(metadata, "name");
  if (!isSubdomain(name)) throw new Error(`${kind}: ${JSON.stringify(name)} is no name of an object`);
  return name;
}

/** RFC 1123 label. */
function isNamespace(name: string): boolean {
  return name.length <= LONGEST_NAMESPACE && isSubdomain(name) && !name.includes(".");
}
