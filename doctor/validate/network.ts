/** Judges a network configuration (list) by the reader of lists, the decoder of our plugins, and the checks of their ADD. */
import { type Conflist, parseConflist } from "../../lib/cni/runtime/conflist.ts";
import { networkNetconf } from "../../lib/cni/runtime/plugin-call.ts";
import { ADD_CHECKS } from "../../lib/config/add-checks.ts";
import { type Members, memberName } from "../../lib/config/codec.ts";
import { chooseDatastore } from "../../lib/config/datastore-choice.ts";
import type { DatastoreType, NetworkConfig } from "../../lib/config/decode.ts";
import { decodeNetworkConfig, NETCONF } from "../../lib/config/decode.ts";
import { HOST_SCOPE } from "../../lib/config/ipam-section.ts";
import { type Fields, isObject } from "../../lib/json/decode.ts";
import { parseJson } from "../../lib/json/parse.ts";
import type { Step } from "../../lib/json/position.ts";
import { isJsonObject, type JsonObject } from "../../lib/json/value.ts";
import { type Judgement, judged, suggestionFor, warning } from "./finding.ts";

export const MAIN_PLUGINS = ["tortie", "calico"];
export const IPAM_PLUGINS = ["tortie-ipam", "calico-ipam"];

/** Lists keys of the CNI specification that runtimes read: of a list, and of the configuration of any plugin. */
export const LIST_KEYS = ["cniVersion", "cniVersions", "name", "disableCheck", "disableGC", "loadOnlyInlinedPlugins", "plugins"];
/** Lists keys whose content is free (CNI specification, section 1). */
const OPEN_KEYS = ["args", "runtimeConfig", "cni.dev/valid-attachments", "cni.dev/attachments"];
export const PLUGIN_KEYS = ["capabilities", "dns", "ipMasq"];

export function isNetwork(value: unknown): value is Fields {
  if (!isObject(value) || "kind" in value || "apiVersion" in value) return false;
  return "plugins" in value || "cniVersion" in value || "type" in value;
}

interface JudgedNetwork {
  readonly judgements: readonly Judgement[];
  /** `undefined` when a runtime would not load it. */
  readonly list: Conflist | undefined;
}

/**
 * @param file plugins of the folder that is named after the network are looked for beside it
 * @param json the list's text
 */
export function judgeNetwork(file: string, json: string): JudgedNetwork {
  const value = parseJson(json);
  const config: JsonObject = isJsonObject(value) ? value : {};
  let list: Conflist | undefined;
  const ofList = judged(
    () => {
      list = parseConflist(file, json);
    },
    [],
    config,
  );
  const { plugins } = config;
  if (!Array.isArray(plugins)) {
    return { list, judgements: [...ofList, ...judgePlugin(config, list, [], LIST_KEYS)] };
  }
  const unknown = Object.keys(config).filter((key) => !LIST_KEYS.includes(key) && !key.startsWith("_"));
  return {
    list,
    judgements: [
      ...ofList,
      ...unknown.map((key) => unknownKey(key, [key], LIST_KEYS)),
      ...plugins.flatMap((entry, index) => (isJsonObject(entry) ? judgePlugin(entry, list, ["plugins", index], []) : [])),
    ],
  };
}

/** Leaves plugins of others to their own judgement. @param others keys beside those of a plugin, for a configuration without a list */
function judgePlugin(
  entry: JsonObject,
  list: Conflist | undefined,
  root: readonly Step[],
  others: readonly string[],
): readonly Judgement[] {
  const isMain = typeof entry.type === "string" && MAIN_PLUGINS.includes(entry.type);
  const ipam = isJsonObject(entry.ipam) ? entry.ipam.type : undefined;
  const isIpam = typeof ipam === "string" && IPAM_PLUGINS.includes(ipam);
  if (!isMain && !isIpam) return [];
  const unknown = isMain
    ? unknownKeys(NETCONF, entry, root, [...PLUGIN_KEYS, ...OPEN_KEYS, ...others, ...(isIpam || ipam === HOST_SCOPE ? [] : ["ipam"])])
    : unknownKeys({ ipam: NETCONF.ipam }, { ipam: entry.ipam }, root);
  return [...unknown, ...judgeValues(entry, list, root, isMain)];
}

function judgeValues(entry: JsonObject, list: Conflist | undefined, root: readonly Step[], isMain: boolean): readonly Judgement[] {
  const { capabilities: _runtime, ...plain } = entry;
  const plugin = list?.plugins.find(({ netconf }) => JSON.stringify(netconf) === JSON.stringify(entry));
  const netconf = list === undefined || plugin === undefined ? plain : networkNetconf(list, plugin);
  // One key at a time, so that each that is wrong is told; keys of the same name in other letters stay together in the whole.
  const wrongTypes = Object.entries(netconf).flatMap(([key, value]) =>
    judged(() => void decodeNetworkConfig({ [key]: value }), root, entry),
  );
  if (wrongTypes.length > 0) return wrongTypes;
  const config = decodeNetworkConfig(netconf);
  let datastore: DatastoreType | undefined;
  const choice = judged(
    () => {
      datastore = chooseDatastore(config, {});
    },
    root,
    entry,
    ["datastore_type"],
  );
  return [...choice, ...(datastore === undefined ? [] : judgeForAdd(config, datastore, root, entry, isMain))];
}

/** Judges as ADD does; the IPAM plugin alone judges its own section only. */
function judgeForAdd(
  config: NetworkConfig,
  datastore: DatastoreType,
  root: readonly Step[],
  entry: JsonObject,
  isMain: boolean,
): readonly Judgement[] {
  const checks = ADD_CHECKS.filter(([key]) => isMain || key === "ipam");
  return checks.flatMap(([key, check]) => judged(() => check(config, datastore), root, entry, [key]));
}

/**
 * Finds every unknown key of an object and of the known objects and lists in it.
 * @param others keys that other programs read, with everything in them
 */
function unknownKeys(members: Members, value: unknown, root: readonly Step[], others: readonly string[] = []): readonly Judgement[] {
  if (Array.isArray(value)) return value.flatMap((item, index) => unknownKeys(members, item, [...root, index]));
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inside]) => {
    // A key that begins with an underscore is a comment, by custom.
    if (others.includes(key) || key.startsWith("_")) return [];
    const path = [...root, key];
    const name = memberName(members, key);
    const codec = name === undefined ? undefined : members[name];
    if (codec !== undefined) return codec.members === undefined ? [] : unknownKeys(codec.members, inside, path);
    return [unknownKey(key, path, [...Object.keys(members), ...others])];
  });
}

export function unknownKey(key: string, path: readonly Step[], known: readonly string[]): Judgement {
  return warning("key-unknown", path, `the key ${JSON.stringify(key)} is not known, and ignored`, suggestionFor(key, known));
}
