/**
 * The standard input of one plugin of a chain: its own entry and what the runtime adds (CNI specification, section 3, Deriving execution
 * configuration).
 */

import type { JsonObject, JsonValue } from "../../json/value.ts";
import type { ValidAttachment } from "../protocol.ts";
import type { Conflist, PluginConf } from "./conflist.ts";

/** Of one attachment: `capabilities` is replaced by the arguments of those that are declared. */
export function attachmentNetconf(
  list: Conflist,
  plugin: PluginConf,
  capabilityArgs: JsonObject | undefined,
  prevResult: JsonObject | undefined,
): JsonObject {
  const declared = Object.entries(capabilityArgs ?? {}).filter(([name]) => plugin.capabilities.has(name));
  return {
    ...networkNetconf(list, plugin),
    ...(declared.length === 0 ? {} : { runtimeConfig: Object.fromEntries(declared) }),
    ...(prevResult === undefined ? {} : { prevResult }),
  };
}

/** Of the network as a whole: STATUS. */
export function networkNetconf(list: Conflist, plugin: PluginConf): JsonObject {
  const { capabilities: _replaced, ...entry } = plugin.netconf;
  return { ...entry, name: list.name, cniVersion: list.cniVersion };
}

/** Of GC: with the attachments that are still alive. */
export function gcNetconf(list: Conflist, plugin: PluginConf, valid: readonly ValidAttachment[]): JsonObject {
  const attachments: JsonValue = valid.map(({ containerID, ifname }) => ({ containerID, ifname }));
  return { ...networkNetconf(list, plugin), "cni.dev/valid-attachments": attachments };
}

/** Names of given capability arguments that no plugin of the chain declares, so that no plugin would receive them. */
export function undeclaredCapabilities(list: Conflist, capabilityArgs: JsonObject | undefined): readonly string[] {
  return Object.keys(capabilityArgs ?? {}).filter((name) => !list.plugins.some((plugin) => plugin.capabilities.has(name)));
}
