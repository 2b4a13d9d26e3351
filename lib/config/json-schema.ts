/** The network configuration as a JSON Schema, for editors and for checks outside of a node. The codecs decide; this only retells them. */
import { TortieError } from "../errors/errors.ts";
import type { Members } from "./codec.ts";
import { NETCONF } from "./schema.ts";

export interface JsonSchema {
  readonly [key: string]: unknown;
}

/** Of a list or a single plugin. Letter case of keys does not count for the plugins; it does for a schema. */
export function netconfSchema(): JsonSchema {
  const known = objectSchema(NETCONF);
  const version = { type: "string", description: "CNI version, 0.1.0 to 1.1.0" };
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  const ours = { if: { properties: { type: { enum: ["tortie", "calico"] } }, required: ["type"] }, then: { $ref: "#/$defs/netconf" } };
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Network configuration list with Tortie's plugin",
    type: "object",
    required: ["name", "plugins"],
    properties: {
      cniVersion: version,
      cniVersions: { type: "array", items: version },
      name: { type: "string", pattern: "^[a-zA-Z0-9][a-zA-Z0-9_.-]*$" },
      plugins: {
        type: "array",
        minItems: 1,
        items: { type: "object", required: ["type"], properties: { type: { type: "string" } }, ...ours },
      },
    },
    $defs: { netconf: known },
  };
}

function objectSchema(members: Members): JsonSchema {
  const properties = Object.entries(members).map(([key, { type, members: inside }]) => [key, schemaOf(type, inside)] as const);
  return { type: ["object", "null"], properties: Object.fromEntries(properties) };
}

/** Null leaves the default, whatever the type is (C§1.1). */
function schemaOf(type: string, members: Members | undefined): JsonSchema {
  switch (type) {
    case "a string":
      return { type: ["string", "null"] };
    case "a boolean":
      return { type: ["boolean", "null"] };
    case "an integer":
      return { type: ["integer", "null"] };
    case "an integer that is not negative":
      return { type: ["integer", "null"], minimum: 0 };
    case "a list of strings":
      return { type: ["array", "null"], items: { type: ["string", "null"] } };
    case "a list of objects":
      return { type: ["array", "null"], items: objectSchema(members ?? {}) };
    case "an object":
      return objectSchema(members ?? {});
    case "anything":
      return {};
    default:
      throw new TortieError("internal", `no JSON Schema for ${type}`);
  }
}
