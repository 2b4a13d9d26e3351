/** The call of a plugin (A§11.3), as agent/forward/protocol.ts has it for the plugin. */
import { model, Type } from "./model.ts";

const NUL_FREE = "^[^\\u0000]*$";
const text = (description: string) => Type.String({ description, pattern: NUL_FREE });

/** An inode may be beyond 2^53. */
const number = (description: string) => Type.Union([Type.Integer({ minimum: 0 }), Type.String({ pattern: "^[0-9]+$" })], { description });

export const CniCall = model(
  "CniCall",
  "One call of a runtime, as the executable got it.",
  {
    protocol: Type.Integer({ description: "1" }),
    plugin: text("Version of the executable"),
    containerId: Type.Optional(text("CNI_CONTAINERID; empty for GC and STATUS")),
    ifname: Type.Optional(text("CNI_IFNAME; empty for GC and STATUS")),
    args: Type.Optional(text("CNI_ARGS")),
    path: Type.Optional(text("CNI_PATH")),
    netns: Type.Optional(
      Type.Object({
        path: text("CNI_NETNS"),
        dev: Type.Optional(number("Device of what the path led to")),
        ino: Type.Optional(number("Inode of what the path led to")),
        fd: Type.Optional(Type.Integer({ minimum: 0, description: "Descriptor in the caller's process" })),
      }),
    ),
    stdin: Type.String({ description: "The network configuration, unchanged text" }),
    pluginDirs: Type.Optional(Type.Array(text("Where delegates are"))),
    ownIpam: Type.Optional(Type.Boolean({ description: "`ipam.type` leads to the caller's own file" })),
    env: Type.Optional(Type.Record(Type.String(), Type.String(), { description: "The caller's environment" })),
  },
  // A newer executable may say more.
  true,
);

export const CniResult = Type.Unsafe<unknown>({
  description: "The CNI result in the version asked for; empty for verbs without one",
  anyOf: [
    { type: "object", additionalProperties: true },
    { type: "string", maxLength: 0 },
  ],
});
