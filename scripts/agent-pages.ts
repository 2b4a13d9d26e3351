/**
 * Writes operations, models and options into api.md, agent.md and controller.md of docs/reference, from the tables of the programs
 * themselves: `bash scripts/bun scripts/agent-pages.ts`. A unit test fails when the pages are older.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { isRead, MODELS, type Operation } from "../agent/api/operation.ts";
import { BASE_PATH, OPERATION_NAMES, OPERATIONS } from "../agent/api/operations.ts";
import { AGENT } from "../agent/start/options.ts";
import { CONTROLLER } from "../controller/options.ts";
import type { Configurable } from "../lib/resident/options.ts";
import { variableOf } from "../lib/resident/options.ts";
import { listItem } from "./wrapped.ts";

export const API_PAGE = "docs/reference/api.md";
export const AGENT_PAGE = "docs/reference/agent.md";
export const CONTROLLER_PAGE = "docs/reference/controller.md";

interface Schema {
  readonly type?: string;
  readonly $ref?: string;
  readonly description?: string;
  readonly enum?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

const HEAD = `# The agent's API

*For authors of programs that ask the agent, and for administrators with curl.*

Generated from the agent's own tables by \`scripts/agent-pages.ts\`; \`GET ${BASE_PATH}/openapi.json\` serves the OpenAPI 3.1 document.

HTTP/1.1 with JSON on the Unix socket \`/run/tortie/tortie.sock\`, base path \`${BASE_PATH}\`:

\`\`\`sh
curl --unix-socket /run/tortie/tortie.sock http://agent${BASE_PATH}/endpoint
\`\`\`

Root may do everything, members of the socket's group may read, others get 403. An answer of 400 and more has the model Error; with
\`Accept: text/plain\` it is the message alone. Words are those of [errors.md](errors.md).

An endpoint is named \`[prefix:]value\`: a number (\`local:7\`, or \`7\` alone), \`container-id:<id>\`, \`attachment:<container>:<interface>\`,
\`pod-name:<namespace>/<pod>\`, \`ipv4:<address>\` or \`ipv6:<address>\`. A name of several endpoints is answered with 409, which lists them.
`;

export function apiPage(): string {
  const rows = OPERATION_NAMES.map((name) => operationRow(OPERATIONS[name]));
  const models = [...MODELS].map(([name, schema]) => modelText(name, schema as Schema));
  return [HEAD, "## Operations", "", "Each with who may call it: readers, or root alone.", "", ...rows, "", "## Models", "", ...models]
    .join("\n")
    .trimEnd()
    .concat("\n");
}

function operationRow(operation: Operation): string {
  const { method, path, summary, params, query, headers, body, answers } = operation;
  const parameters = [params, query, headers].flatMap((part) => Object.keys((part as Schema | undefined)?.properties ?? {}));
  const codes = Object.entries(answers).map(([code, schema]) => (schema === null ? code : `${code} ${typeText(schema as Schema)}`));
  const parts = [
    ...(parameters.length === 0 ? [] : [`Parameters: ${parameters.map((one) => `\`${one}\``).join(", ")}.`]),
    ...(body === undefined ? [] : [`Body: ${typeText(body as Schema)}.`]),
    `Answers: ${codes.join(", ")}.`,
  ];
  return listItem(`\`${method} ${path}\` (${isRead(operation) ? "readers" : "root"}): ${summary}. ${parts.join(" ")}`);
}

function modelText(name: string, { description = "", properties = {}, required = [] }: Schema): string {
  const members = Object.entries(properties).map(([key, schema]) => {
    const about = schema.description === undefined ? "" : `. ${schema.description}`;
    return listItem(`\`${key}\`${required.includes(key) ? " (always)" : ""}: ${typeText(schema)}${about}`);
  });
  return [`### ${name}`, "", ...(description === "" ? [] : [description, ""]), ...members, ""].join("\n");
}

function typeText(schema: Schema): string {
  if (schema.$ref !== undefined) return schema.$ref.replace("#", "");
  if (schema.enum !== undefined) return schema.enum.map((word) => `\`${word}\``).join(", ");
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeText).join(" or ");
  if (schema.type === "array") return `list of ${typeText(schema.items ?? {})}`;
  if (schema.properties !== undefined) return `{${Object.keys(schema.properties).join(", ")}}`;
  return schema.type ?? "anything";
}

const MARK = "<!-- options -->";

/** Returns the page with its list of options between the mark and the table of signals. */
export function withOptions({ table: options }: Configurable, page: string): string {
  const [before = "", after = ""] = page.split(MARK);
  const rest = after.slice(after.indexOf("\n| Signal"));
  const rows = Object.entries(options).map(([name, entry]) => {
    const choices = "choices" in entry && entry.choices !== undefined ? `: ${entry.choices.map((one) => `\`${one}\``).join(", ")}` : "";
    const standard = entry.default === undefined || entry.default === "" ? "" : `, default \`${String(entry.default)}\``;
    return listItem(`\`--${name}\` (\`${variableOf(name)}\`${standard}): ${entry.description}${choices}`);
  });
  return `${before}${MARK}\n\n${rows.join("\n")}\n${rest}`;
}

if (process.argv[1]?.endsWith("/scripts/agent-pages.ts")) {
  writeFileSync(API_PAGE, apiPage());
  writeFileSync(CONTROLLER_PAGE, withOptions(CONTROLLER, readFileSync(CONTROLLER_PAGE, "utf8")));
  writeFileSync(AGENT_PAGE, withOptions(AGENT, readFileSync(AGENT_PAGE, "utf8")));
}
