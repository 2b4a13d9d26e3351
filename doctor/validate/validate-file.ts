/** One file: a network configuration list, or Kubernetes objects as YAML or JSON. What it is, its content says. */
import { readFileSync } from "node:fs";
import { messageOf } from "../../lib/errors/errors.ts";
import { isObject } from "../../lib/json/decode.ts";
import { parseJson } from "../../lib/json/parse.ts";
import { JsonSyntaxError } from "../../lib/json/syntax-error.ts";
import { validateConflist } from "./conflist.ts";
import type { FileFinding } from "./finding.ts";
import { validateObject } from "./objects.ts";

/** @param pluginPath as for `validateConflist` */
export async function validateFile(file: string, pluginPath: string | undefined): Promise<readonly FileFinding[]> {
  const failed = (message: string, position?: FileFinding["position"]): readonly FileFinding[] => [
    { file, position, severity: "error", subject: "file", message },
  ];
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    return failed(messageOf(error));
  }
  const isJson = /^\s*[{[]/.test(text);
  if (isJson) {
    try {
      parseJson(text);
    } catch (error) {
      return failed(messageOf(error), error instanceof JsonSyntaxError ? { line: error.line, column: error.column } : undefined);
    }
  }
  let documents: readonly unknown[];
  try {
    // The objects of a YAML file; JSON is read as such, because blocks have numbers that YAML's would round.
    const parsed: unknown = isJson ? JSON.parse(text) : Bun.YAML.parse(text);
    documents = Array.isArray(parsed) ? parsed : [parsed];
  } catch (error) {
    return failed(`not YAML: ${messageOf(error)}`);
  }
  if (isJson && documents.length === 1 && isObject(documents[0]) && !("apiVersion" in documents[0]))
    return validateConflist(file, pluginPath);
  const objects = documents.flatMap(objectsIn);
  const judged = objects.map((object) => (isObject(object) ? validateObject(object, file) : undefined));
  // Manifests hold objects of others too; a file of nothing else was given by mistake.
  if (judged.every((found) => found === undefined)) return failed("neither a network configuration nor an object that Tortie reads");
  return judged.flatMap((found) => found ?? []);
}

function objectsIn(document: unknown): readonly unknown[] {
  return isObject(document) && document.kind === "List" && Array.isArray(document.items) ? document.items : [document];
}
