/**
 * The mutants that rules make of a source file, for samples (sample.ts): a comparison turned, a condition or a call left out, an await or a
 * lock left out, arguments exchanged, a unit or a constant changed, an error swallowed. Lines of logs, messages of errors, types and imports get
 * none: nothing depends on them that a test should hold.
 */
import { parseSync } from "@swc/core";

export interface Mutation {
  readonly rule: Rule;
  /** Place in the UTF-8 bytes of the source. */
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
}

export type Rule = "comparison" | "condition" | "call" | "await" | "lock" | "arguments" | "constant" | "error";

/** A node of swc's tree: its kind, its place, and whatever else it has. */
interface SyntaxNode {
  readonly type: string;
  readonly span: { readonly start: number; readonly end: number };
  readonly [key: string]: unknown;
}

const TURNED: Readonly<Record<string, string>> = {
  "===": "!==",
  "!==": "===",
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "&&": "||",
  "||": "&&",
  "+": "-",
  "-": "+",
};
/** Names of what a statement talks to whose loss no test is to notice. */
const SPEAKS = /(^|[.#])(log|logger|console|note|sayOnce|span|tracing|metrics)\b/;
/** Names of classes whose instances are thrown. */
const ERRORS = /(Error|Failure|Refused|Refusal)$/;
/** Calls whose arguments may stand in any order. */
const SYMMETRIC = /^Math\.(max|min)$/;
const LOCKS = /lock|hold|guard|turn|lane/i;

/** All mutants of a source, in the order of their places. @throws Error when it cannot be parsed */
export function mutationsOf(source: string): readonly Mutation[] {
  const bytes = Buffer.from(source, "utf8");
  const found: Mutation[] = [];
  const module: unknown = parseSync(source, { syntax: "typescript", target: "es2022" });
  const text = (node: SyntaxNode) => textOf(node, bytes);
  walk(module, (node) => {
    if (isSpoken(node, text)) return false;
    for (const mutation of mutationsAt(node, text)) found.push(mutation);
    return true;
  });
  return found.sort((one, other) => one.start - other.start);
}

/** The source with one mutant in it. */
export function applied(source: string, { start, end, replacement }: Mutation): string {
  const bytes = Buffer.from(source, "utf8");
  return Buffer.concat([bytes.subarray(0, start), Buffer.from(replacement, "utf8"), bytes.subarray(end)]).toString("utf8");
}

/** swc counts bytes from 1. */
function textOf({ span }: SyntaxNode, bytes: Buffer): string {
  return bytes.toString("utf8", span.start - 1, span.end - 1);
}

/** Whether a node is a call that logs or measures, or an error that is made: what is inside of it is read by people alone. */
function isSpoken(node: SyntaxNode, text: (node: SyntaxNode) => string): boolean {
  const callee = child(node.callee);
  if (callee === undefined) return false;
  return (node.type === "CallExpression" && SPEAKS.test(text(callee))) || (node.type === "NewExpression" && ERRORS.test(text(callee)));
}

function mutationsAt(node: SyntaxNode, text: (node: SyntaxNode) => string): readonly Mutation[] {
  const replaced = (rule: Rule, replacement: string, at: SyntaxNode = node): Mutation => ({
    rule,
    start: at.span.start - 1,
    end: at.span.end - 1,
    replacement,
  });
  switch (node.type) {
    case "BinaryExpression": {
      const [left, right, operator] = [child(node.left), child(node.right), String(node.operator)];
      const turned = TURNED[operator];
      if (left === undefined || right === undefined || turned === undefined) return [];
      // Adding texts is no sum.
      if ((operator === "+" || operator === "-") && [left, right].some(({ type }) => /String|Template/.test(type))) return [];
      const all = [replaced("comparison", `${text(left)} ${turned} ${text(right)}`)];
      if (operator === "&&") all.push(replaced("condition", text(left)), replaced("condition", text(right)));
      return all;
    }
    case "IfStatement": {
      const test = child(node.test);
      return test === undefined ? [] : [replaced("condition", "true", test), replaced("condition", "false", test)];
    }
    case "ExpressionStatement": {
      const expression = child(node.expression);
      const call = expression?.type === "CallExpression" ? expression : child(expression?.argument);
      return call?.type === "CallExpression" && !isSpoken(call, text) ? [replaced("call", ";")] : [];
    }
    case "AwaitExpression": {
      const argument = child(node.argument);
      return argument === undefined ? [] : [replaced("await", text(argument))];
    }
    case "UsingDeclaration":
      return LOCKS.test(text(node)) ? [replaced("lock", ";")] : [];
    case "CallExpression": {
      const given = list(node.arguments).flatMap((argument) => child(argument.expression) ?? []);
      const [first, second] = given;
      if (first === undefined || second === undefined || text(first) === text(second)) return [];
      const exchanged = [text(second), text(first), ...given.slice(2).map(text)].join(", ");
      const callee = child(node.callee);
      return callee === undefined || SYMMETRIC.test(text(callee)) ? [] : [replaced("arguments", `${text(callee)}(${exchanged})`)];
    }
    case "NumericLiteral": {
      const value = Number(node.value);
      return [replaced("constant", String(value === 1000 ? 1 : value + 1))];
    }
    case "BigIntLiteral":
      return [replaced("constant", `(${text(node)} + 1n)`)];
    case "BooleanLiteral":
      return [replaced("constant", text(node) === "true" ? "false" : "true")];
    case "ThrowStatement":
      return [replaced("error", ";")];
    default:
      return [];
  }
}

/** @param visit says whether the node's members are to be visited too */
function walk(value: unknown, visit: (node: SyntaxNode) => boolean): void {
  if (Array.isArray(value)) {
    for (const one of value) walk(one, visit);
    return;
  }
  if (typeof value !== "object" || value === null) return;
  if (isNode(value)) {
    if (value.type === "ImportDeclaration" || value.type.startsWith("Ts")) {
      // `x as T` and `x!` hold an expression; everything else of that name is a type.
      const inner = child(value.expression);
      if (inner !== undefined) walk(inner, visit);
      return;
    }
    if (!visit(value)) return;
  }
  for (const member of Object.values(value)) walk(member, visit);
}

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string" && "span" in value;
}

function child(value: unknown): SyntaxNode | undefined {
  return isNode(value) ? value : undefined;
}

/** Arguments are no nodes themselves: each holds one. */
function list(value: unknown): readonly { readonly expression?: unknown }[] {
  return Array.isArray(value) ? value : [];
}
