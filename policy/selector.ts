/** Reads Kubernetes' label selectors, tells what they select, and writes them: canonically for comparing, shortly for people. */
import { isSubdomain } from "../lib/system/subdomain.ts";
import type { Labels } from "./model.ts";
import { asList, asObject, asText, member, type ObjectPart, type Part, SpecProblem, show } from "./spec.ts";

export type Operator = "In" | "NotIn" | "Exists" | "DoesNotExist";

export interface Requirement {
  readonly key: string;
  readonly operator: Operator;
  /** Empty for Exists and DoesNotExist. */
  readonly values: ReadonlySet<string>;
}

/** All requirements must hold. An empty one selects everything. */
export interface Selector {
  readonly requirements: readonly Requirement[];
  /** Equal for selectors with equal requirements, in whatever order and form they were written. */
  readonly canonical: string;
}

/** A qualified name's last part, and a label's value where it is not empty (apimachinery, util/validation). */
const LABEL_NAME = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const LONGEST_LABEL = 63;

/** Values that a sentence repeats before it counts the others. */
const SHOWN_VALUES = 5;

/**
 * Makes a selector of a LabelSelector. An absent one selects everything.
 * @throws SpecProblem naming the field that the API refuses
 */
export function readSelector(part: Part): Selector {
  if (part.value === undefined) return selectorOf([]);
  const object = asObject(part, ["matchLabels", "matchExpressions"]);
  return selectorOf([...readLabels(member(object, "matchLabels")), ...asList(member(object, "matchExpressions")).map(readRequirement)]);
}

/** Sorts the requirements, each once. */
export function selectorOf(requirements: readonly Requirement[]): Selector {
  const byText = new Map(requirements.map((one) => [JSON.stringify([one.key, one.operator, ...[...one.values].sort()]), one]));
  const sorted = [...byText.keys()].sort();
  return { requirements: sorted.flatMap((text) => byText.get(text) ?? []), canonical: `[${sorted.join(",")}]` };
}

/** Tells whether every requirement holds. NotIn holds too where the key is missing, as the API says. */
export function selects(selector: Selector, labels: Labels): boolean {
  return selector.requirements.every((requirement) => holds(requirement, labels));
}

function holds({ key, operator, values }: Requirement, labels: Labels): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case "In":
      return value !== undefined && values.has(value);
    case "NotIn":
      return value === undefined || !values.has(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
  }
}

/** Writes it as kubectl does: `app=api,tier in (a, b),!old`. Empty for a selector of everything. */
export function describeSelector({ requirements }: Selector): string {
  return requirements.map(describeRequirement).join(",");
}

function describeRequirement({ key, operator, values }: Requirement): string {
  const sorted = [...values].sort();
  if (operator === "Exists") return key;
  if (operator === "DoesNotExist") return `!${key}`;
  if (operator === "In" && sorted.length === 1) return `${key}=${sorted[0]}`;
  const shown = sorted.length > SHOWN_VALUES ? [...sorted.slice(0, SHOWN_VALUES), `${sorted.length - SHOWN_VALUES} more`] : sorted;
  return `${key} ${operator === "In" ? "in" : "notin"} (${shown.join(", ")})`;
}

function readLabels(part: Part): readonly Requirement[] {
  if (part.value === undefined) return [];
  // Any name may stand here; each is judged as a label's key.
  const object = asObject(part, part.value === null || typeof part.value !== "object" ? [] : Object.keys(part.value));
  return Object.keys(object.value).map((key) => {
    checkKey(object.path, key);
    const value = { path: `${object.path}[${show(key)}]`, value: object.value[key] };
    return { key, operator: "In", values: new Set([readValue(value)]) };
  });
}

function readRequirement(part: Part): Requirement {
  const object = asObject(part, ["key", "operator", "values"]);
  const keyPart = member(object, "key");
  const key = asText(keyPart);
  checkKey(keyPart.path, key);
  const operator = readOperator(object);
  const values = asList(member(object, "values")).map(readValue);
  const needsValues = operator === "In" || operator === "NotIn";
  if (needsValues && values.length === 0) throw new SpecProblem(`${part.path}.values`, `is empty, but ${operator} needs a value`);
  if (!needsValues && values.length > 0) throw new SpecProblem(`${part.path}.values`, `has values, but ${operator} takes none`);
  return { key, operator, values: new Set(values) };
}

function readOperator(object: ObjectPart): Operator {
  const { path, value } = member(object, "operator");
  if (value === "In" || value === "NotIn" || value === "Exists" || value === "DoesNotExist") return value;
  throw new SpecProblem(path, `is ${show(value)}, not In, NotIn, Exists or DoesNotExist`);
}

function readValue(part: Part): string {
  const value = asText(part);
  if (value === "" || isLabelName(value)) return value;
  throw new SpecProblem(part.path, `is ${show(value)}, which no label's value can be`);
}

/** A key is a name, or a subdomain, "/" and a name. */
function checkKey(path: string, key: string): void {
  const slash = key.indexOf("/");
  const isKey = slash < 0 ? isLabelName(key) : isSubdomain(key.slice(0, slash)) && isLabelName(key.slice(slash + 1));
  if (!isKey) throw new SpecProblem(path, `names ${show(key)}, which no label's key can be`);
}

function isLabelName(text: string): boolean {
  return text.length <= LONGEST_LABEL && LABEL_NAME.test(text);
}
