/**
 * What docs/reference/api.md, docs/reference/agent.md and docs/reference/controller.md say of operations, models and options, from the tables of the programs themselves:
 * `bash scripts/bun scripts/agent-pages.ts`. A unit test fails when the pages are older.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { MODELS } from "../agent/api/model.ts";
import type { Operation } from "../agent/api/operation.ts";
import { BASE_PATH, OPERATION_NAMES, OPERATIONS } from "../agent/api/operations.ts";
import { AGENT } from "../agent/process/options.ts";
import { CONTROLLER } from "../controller/options.ts";
import { variableOf } from "../lib/resident/option-entry.ts";
import type { Configurable } from "../lib/resident/options.ts";

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
  return [
    HEAD,
    "## Operations",
    "",
    "| Operation | What it does | Parameters | Body | Answers | Who |",
    "| --- | --- | --- | --- | --- | --- |",
    ...rows,
    "",
    "## Models",
    "",
    ...models,
  ]
    .join("\n")
    .trimEnd()
    .concat("\n");
}

function operationRow({ method, path, summary, params, query, headers, body, answers, isRead }: Operation): string {
  const parameters = [params, query, headers].flatMap((part) => Object.keys((part as Schema | undefined)?.properties ?? {}));
  const codes = Object.entries(answers).map(([code, schema]) => (schema === null ? code : `${code} ${typeText(schema as Schema)}`));
  const cells = [
    `\`${method} ${path}\``,
    summary,
    parameters.map((one) => `\`${one}\``).join(", "),
    body === undefined ? "" : typeText(body as Schema),
    codes.join(", "),
    isRead ? "readers" : "root",
  ];
  return `| ${cells.join(" | ")} |`;
}

function modelText(name: string, { description = "", properties = {}, required = [] }: Schema): string {
  const rows = Object.entries(properties).map(
    ([key, schema]) => `| \`${key}\`${required.includes(key) ? " \\*" : ""} | ${typeText(schema)} | ${schema.description ?? ""} |`,
  );
  return [`### ${name}`, "", description, "", "| Member | Type | |", "| --- | --- | --- |", ...rows, ""].join("\n");
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

/** The page with its table of options, between the mark and the next table. */
export function withOptions({ table: options }: Configurable, page: string): string {
  const [before = "", after = ""] = page.split(MARK);
  const rest = after.slice(after.indexOf("\n| Signal"));
  const rows = Object.entries(options).map(([name, entry]) => {
    const choices = "choices" in entry && entry.choices !== undefined ? `: ${entry.choices.map((one) => `\`${one}\``).join(", ")}` : "";
    return `| \`--${name}\` | \`${variableOf(name)}\` | ${entry.default === undefined ? "" : `\`${String(entry.default)}\``} | ${entry.description}${choices} |`;
  });
  const table = ["| Flag | Variable | Default | |", "| --- | --- | --- | --- |", ...rows].join("\n");
  return `${before}${MARK}\n\n${table}\n${rest}`;
}

if (process.argv[1]?.endsWith("/scripts/agent-pages.ts")) {
  writeFileSync(API_PAGE, apiPage());
  writeFileSync(CONTROLLER_PAGE, withOptions(CONTROLLER, readFileSync(CONTROLLER_PAGE, "utf8")));
  writeFileSync(AGENT_PAGE, withOptions(AGENT, readFileSync(AGENT_PAGE, "utf8")));
}
