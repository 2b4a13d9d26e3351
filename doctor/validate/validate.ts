/** A file's documents, each judged by the code that would read it. */
import { isObject } from "../../lib/json/decode.ts";
import { type Document, documentsOf, isReadable } from "./documents.ts";
import type { Finding, Judgement } from "./finding.ts";
import { isNetwork, judgeNetwork } from "./network.ts";
import { formatPath } from "./paths.ts";
import { judgeObject } from "./resources.ts";
import { judgeVersions } from "./versions.ts";

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
    findings.push({ file, ...numbered(number), ...place, severity: "error", code: "document-unreadable", path: "", message });
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
    ...numbered(document.number),
    ...document.placeOf(path),
    ...rest,
    path: formatPath(path),
    ...(suggestion === undefined ? {} : { suggestion }),
  };
}

function numbered(number: number | undefined): { readonly document?: number } {
  return number === undefined ? {} : { document: number };
}
