/**
 * Makes the JSON Schema of a network configuration (list) from the decoder's own table of keys, for editors. It is the stricter of the two:
 * the decoder takes keys in any letter case, a schema knows one.
 */
import { CNI_VERSIONS } from "../../lib/cni/protocol.ts";
import type { Members } from "../../lib/config/codec.ts";
import { NETCONF } from "../../lib/config/decode.ts";
import { LIST_KEYS, PLUGIN_KEYS } from "./network.ts";

type Schema = Readonly<Record<string, unknown>>;

/** Allows null, which leaves the default, whatever the key. */
const SCALARS: Readonly<Record<string, Schema>> = {
  "a string": { type: ["string", "null"] },
  "a boolean": { type: ["boolean", "null"] },
  "an integer": { type: ["integer", "null"] },
  "an integer that is not negative": { type: ["integer", "null"], minimum: 0 },
  "a list of strings": { type: ["array", "null"], items: { type: ["string", "null"] } },
  anything: {},
};

const NAMED: Schema = { type: "string", pattern: "^[a-zA-Z0-9][a-zA-Z0-9_.-]*$" };
const VERSION: Schema = { enum: CNI_VERSIONS };
/** Runtimes take the words as well. */
const FLAG: Schema = { enum: [true, false, "true", "false"] };

const LIST_SCHEMAS: Readonly<Record<string, Schema>> = {
  cniVersion: VERSION,
  cniVersions: { type: "array", items: { type: "string" } },
  name: NAMED,
  disableCheck: FLAG,
  disableGC: FLAG,
  loadOnlyInlinedPlugins: FLAG,
  plugins: { type: "array", items: { $ref: "#/$defs/plugin" } },
};

const PLUGIN_SCHEMAS: Readonly<Record<string, Schema>> = {
  capabilities: { type: ["object", "null"], additionalProperties: { type: "boolean" } },
  dns: { type: ["object", "null"] },
  ipMasq: { type: ["boolean", "null"] },
};

/** Makes the schema, which leaves plugins of other types to themselves. */
export function networkSchema(): Schema {
  const ours = { type: "object", properties: { ...picked(PLUGIN_SCHEMAS, PLUGIN_KEYS), ...propertiesOf(NETCONF) } };
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "CNI network configuration with the plugins tortie and calico",
    type: "object",
    required: ["name"],
    anyOf: [
      { required: ["plugins"], properties: picked(LIST_SCHEMAS, LIST_KEYS) },
      { required: ["type"], $ref: "#/$defs/plugin" },
    ],
    $defs: {
      plugin: {
        type: "object",
        required: ["type"],
        properties: { type: { type: "string", pattern: "^[^/]+$" } },
        if: { properties: { type: { enum: ["tortie", "calico"] } } },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { $ref: "#/$defs/tortie" },
      },
      tortie: ours,
    },
  };
}

function propertiesOf(members: Members): Schema {
  return Object.fromEntries(Object.entries(members).map(([key, { type, members: inside }]) => [key, schemaOf(key, type, inside)]));
}

function schemaOf(key: string, type: string, inside: Members | undefined): Schema {
  const object = { type: ["object", "null"], ...(inside === undefined ? {} : { properties: propertiesOf(inside) }) };
  if (type === "an object") return object;
  if (type === "a list of objects") return { type: ["array", "null"], items: object };
  const scalar = SCALARS[type];
  if (scalar === undefined) throw new RangeError(`${key}: no schema for ${type}`);
  return scalar;
}

function picked(schemas: Readonly<Record<string, Schema>>, keys: readonly string[]): Schema {
  return Object.fromEntries(keys.map((key) => [key, schemas[key] ?? {}]));
}
