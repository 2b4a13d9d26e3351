/** Judges the documents of a file, one JSON text or any number of YAML documents, each by the code that would read it. */

import { isConflist } from "../../installer/lists.ts";
import { findPlugin } from "../../lib/cni/delegate.ts";
import type { Conflist } from "../../lib/cni/runtime/conflist.ts";
import { supportedVersions } from "../../lib/cni/runtime/run-plugin.ts";
import { HOST_SCOPE } from "../../lib/config/ipam-section.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { isObject } from "../../lib/json/decode.ts";
import { parseJson } from "../../lib/json/parse.ts";
import { positionOf, type Step } from "../../lib/json/position.ts";
import { JsonSyntaxError, type Place } from "../../lib/json/syntax-error.ts";
import { isJsonObject, memberOf } from "../../lib/json/value.ts";
import { type Document, type Finding, formatPath, type Judgement, suggestionFor, type Unreadable, warning } from "./finding.ts";
import { IPAM_PLUGINS, isNetwork, judgeNetwork, MAIN_PLUGINS } from "./network.ts";
import { judgeObject } from "./resources.ts";

/**
 * @param file as the user named it
 * @param binDir folders of plugins, joined by ":"; empty: no executable is asked for its version
 */
export async function validateText(file: string, text: string, binDir: string): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  const documents = await documentsOf(file, text);
  if (documents.length === 0)
    findings.push({ file, severity: "error", code: "document-unreadable", path: "", message: "there is no document in it" });
  for (const document of documents) {
    if (isReadable(document)) {
      findings.push(...(await judge(file, document, binDir)).map((judgement) => findingOf(file, document, judgement)));
      continue;
    }
    const { number, problem, ...place } = document;
    const message = `neither JSON nor YAML: ${problem}`;
    findings.push({ file, document: number, ...place, severity: "error", code: "document-unreadable", path: "", message });
  }
  return passingOver(findings, documents.length);
}

/** Manifests hold objects of others too; a file of nothing else was given by mistake. */
function passingOver(findings: readonly Finding[], documents: number): readonly Finding[] {
  const isForeign = ({ code }: Finding) => code === "document-unknown";
  const foreign = new Set(findings.filter(isForeign).map(({ document }) => document));
  if (findings.every(isForeign) && foreign.size === documents) return findings.map((finding) => ({ ...finding, severity: "error" }));
  return findings.filter((finding) => !isForeign(finding) || finding.severity === "error");
}

async function judge(file: string, { value, json }: Document, binDir: string): Promise<readonly Judgement[]> {
  if (isNetwork(value)) {
    const { judgements, list } = judgeNetwork(file, json);
    if (list === undefined || binDir === "") return judgements;
    return [...judgements, ...(await judgeVersions(list, !("plugins" in value), binDir))];
  }
  if (isObject(value) && "kind" in value) return judgeObject(value);
  const message = "neither a network configuration nor an object with a kind";
  return [{ severity: "error", code: "document-unknown", path: [], message }];
}

function findingOf(file: string, document: Document, { path, suggestion, ...rest }: Judgement): Finding {
  return {
    file,
    document: document.number,
    ...document.placeOf(path),
    ...rest,
    path: formatPath(path),
    suggestion,
  };
}

/** Reads the documents and leaves nothing of a file out silently: what cannot be parsed is in the answer as well. */
async function documentsOf(file: string, text: string): Promise<readonly (Document | Unreadable)[]> {
  if (isJson(file, text)) return [jsonDocument(text)];
  // Its library is large, and most files are JSON.
  const { yamlDocuments } = await import("./yaml-documents.ts");
  return yamlDocuments(text);
}

/** Runtimes read these names as JSON and nothing else. Elsewhere the first character tells. */
function isJson(file: string, text: string): boolean {
  if (isConflist(file)) return true;
  return !/\.ya?ml$/.test(file) && /^\s*[{[]/.test(text);
}

function jsonDocument(text: string): Document | Unreadable {
  try {
    // The stricter of the two, with the plugins' own words; JSON.parse then keeps the digits that codecs need as text.
    parseJson(text);
    return { value: JSON.parse(quoteLongNumbers(text)), json: text, number: undefined, placeOf: (path) => nearestPlace(text, path) };
  } catch (error) {
    const { line, column } = error instanceof JsonSyntaxError ? error : {};
    return { number: undefined, problem: messageOf(error), line, column };
  }
}

/** Finds the place of the longest part of the path that exists: a missing key is reported where it should stand. */
function nearestPlace(text: string, path: readonly Step[]): Partial<Place> {
  for (let length = path.length; length >= 0; length--) {
    const place = positionOf(text, path.slice(0, length));
    if (place !== undefined) return place;
  }
  return {};
}

/** Finds sequence numbers of blocks, which are beyond what JavaScript holds; the codecs take them as text too. */
const LONG_NUMBER = /("(?:sequenceNumber|\d{1,5})":\s*)(\d{16,})(?=\s*(?:[,}]|$))/g;

function quoteLongNumbers(text: string): string {
  return text.replace(LONG_NUMBER, '$1"$2"');
}

function isReadable(document: Document | Unreadable): document is Document {
  return "json" in document;
}

interface Named {
  readonly type: string;
  readonly path: readonly Step[];
}

/** @param binDir folders of plugins, joined by ":" */
export async function judgeVersions(list: Conflist, isSingle: boolean, binDir: string): Promise<readonly Judgement[]> {
  const judgements: Judgement[] = [];
  const answers = new Map<string, readonly string[] | string>();
  for (const { type, path } of namedPlugins(list, isSingle)) {
    let executable: string;
    try {
      executable = findPlugin(type, binDir);
    } catch (error) {
      const meant = suggestionFor(type, [...MAIN_PLUGINS, ...IPAM_PLUGINS]);
      const missing = warning("plugin-missing", path, `its version was not asked for: ${messageOf(error)}`, meant);
      // A plugin of ours with a letter wrong: nothing of its entry was judged.
      judgements.push(meant === undefined || meant === type ? { ...missing, suggestion: undefined } : { ...missing, severity: "error" });
      continue;
    }
    const answer = answers.get(executable) ?? (await supportedVersions(executable, list.cniVersion));
    answers.set(executable, answer);
    const problem = problemOf(answer, list.cniVersion);
    if (problem !== undefined) judgements.push({ severity: "error", code: "plugin-version", path, message: `${executable} ${problem}` });
  }
  return judgements;
}

/** Lists every plugin of the chain and the IPAM plugins that they call. Entries of other files have no place in this one. */
function namedPlugins(list: Conflist, isSingle: boolean): readonly Named[] {
  return list.plugins.flatMap(({ type, netconf }, index) => {
    const root = isSingle ? [] : ["plugins", index];
    const ipam = memberOf(netconf, "ipam");
    const ipamType = isJsonObject(ipam) ? memberOf(ipam, "type") : undefined;
    const delegate = typeof ipamType === "string" && ipamType !== "" && ipamType !== HOST_SCOPE;
    return [{ type, path: [...root, "type"] }, ...(delegate ? [{ type: ipamType, path: [...root, "ipam", "type"] }] : [])];
  });
}

function problemOf(answer: readonly string[] | string, wanted: string): string | undefined {
  if (typeof answer === "string") return `does not say which versions it supports: ${answer}`;
  return answer.includes(wanted) ? undefined : `does not support cniVersion ${wanted} of the list, only ${answer.join(", ")}`;
}
