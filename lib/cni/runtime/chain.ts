/**
 * The runtime's side of the CNI specification (section 3): the operations on a network, as chains of plugin calls.
 *
 * | Operation | Order | prevResult | stops |
 * |---|---|---|---|
 * | ADD | as listed | of the plugin before | at the first failure, then DEL of all |
 * | DEL | reverse | cached, from CNI 0.4.0 on | at the first failure, cache kept |
 * | CHECK | as listed | cached | at the first failure |
 * | STATUS | as listed | none | never: all answers are shown |
 * | GC | stale attachments by DEL, then as listed | none | never |
 *
 * A plugin that does not know the list's version is not asked for CHECK, STATUS or GC: it would answer with an error about something else.
 */

import { TortieError } from "../../errors/errors.ts";
import { parseJson } from "../../json/parse.ts";
import { isJsonObject, type JsonObject } from "../../json/value.ts";
import { ifReadable } from "../../system/files.ts";
import type { CniCommand, CniVersion, ValidAttachment } from "../protocol.ts";
import { isAtLeast } from "../request.ts";
import { parseResult, renderResult } from "../result.ts";
import type { CachedAttachment, ResultCache } from "./cache.ts";
import type { Conflist, PluginConf } from "./conflist.ts";
import {
  type Attachment,
  attachmentNetconf,
  gcNetconf,
  networkNetconf,
  PluginFailure,
  type PluginRunner,
  sandboxExists,
} from "./plugin-call.ts";

export interface Runtime {
  readonly run: PluginRunner;
  /** Versions of the specification that a plugin says it knows; `undefined`: it does not say. */
  readonly versionsOf: (type: string, cniVersion: CniVersion) => Promise<readonly string[] | undefined>;
  readonly cache: ResultCache;
}

/**
 * @returns the last plugin's result, in the list's version
 * @throws PluginFailure naming the plugin, after DEL of the whole chain; TortieError `attachment-exists`
 */
export async function add(runtime: Runtime, list: Conflist, attachment: Attachment): Promise<JsonObject> {
  if (runtime.cache.get(list.name, attachment) !== undefined) {
    const named = `${attachment.interfaceName} of ${attachment.containerId}`;
    throw new TortieError("attachment-exists", `${named} is attached to network ${list.name} already`);
  }
  let result: JsonObject | undefined;
  try {
    for (const plugin of list.plugins) {
      const netconf = attachmentNetconf(list, plugin, attachment.capabilityArgs, result);
      const printed = await call(runtime, list, plugin, "ADD", attachment, netconf);
      if (printed === undefined)
        throw new PluginFailure(list, plugin, "ADD", { code: 999, message: "it printed no result object", details: "" });
      result = inVersion(printed, list.cniVersion);
    }
    const final = result ?? {};
    runtime.cache.put(list, attachment, final);
    return final;
  } catch (error) {
    const undone = await undo(runtime, list, attachment);
    throw error instanceof PluginFailure ? error.withUndo(undone) : error;
  }
}

/** Runs the DEL of every plugin whatever the others answer: a chain half built leaves something with any of them. */
async function undo(runtime: Runtime, list: Conflist, attachment: Attachment): Promise<readonly PluginFailure[]> {
  const failures: PluginFailure[] = [];
  for (const plugin of list.plugins.toReversed()) {
    try {
      await call(runtime, list, plugin, "DEL", attachment, attachmentNetconf(list, plugin, attachment.capabilityArgs, undefined));
    } catch (error) {
      if (!(error instanceof PluginFailure)) throw error;
      failures.push(error);
    }
  }
  return failures;
}

/**
 * @returns whether a cached result was there: without one the plugins had to do without prevResult
 * @throws PluginFailure; the cached result stays, so that the operation can be repeated
 */
export async function del(runtime: Runtime, list: Conflist, attachment: Attachment): Promise<{ readonly hadResult: boolean }> {
  const cached = cachedOrDamaged(runtime, list, attachment);
  const recalled = recall(attachment, cached);
  const prevResult = cached === undefined || !isAtLeast(list.cniVersion, "0.4.0") ? undefined : inVersion(cached.result, list.cniVersion);
  // Runtimes leave CNI_NETNS empty once the sandbox is gone; a path that leads nowhere is an error for some plugins.
  const target = sandboxExists(recalled.netns) ? recalled : { ...recalled, netns: "" };
  for (const plugin of list.plugins.toReversed()) {
    await call(runtime, list, plugin, "DEL", target, attachmentNetconf(list, plugin, recalled.capabilityArgs, prevResult));
  }
  runtime.cache.delete(list.name, attachment);
  return { hadResult: cached !== undefined };
}

/** A damaged cache must not keep a container from being removed: DEL goes on without it, as libcni's does. */
function cachedOrDamaged(runtime: Runtime, list: Conflist, attachment: Attachment): CachedAttachment | undefined {
  return ifReadable(() => runtime.cache.get(list.name, attachment));
}

/** @throws PluginFailure; TortieError `operation-unsupported`, `check-disabled`, `attachment-unknown` */
export async function check(runtime: Runtime, list: Conflist, attachment: Attachment): Promise<void> {
  requireVersion(list, "CHECK", "0.4.0");
  if (list.disableCheck) throw new TortieError("check-disabled", `network ${list.name}: disableCheck is true in ${list.file}`);
  const cached = runtime.cache.get(list.name, attachment);
  if (cached === undefined) {
    const file = runtime.cache.fileOf(list.name, attachment);
    throw new TortieError("attachment-unknown", `${attachment.containerId} has no result of network ${list.name}: ${file} is missing`);
  }
  const recalled = recall(attachment, cached);
  const prevResult = inVersion(cached.result, list.cniVersion);
  for (const plugin of list.plugins) {
    await requireKnown(runtime, list, plugin, "CHECK");
    await call(runtime, list, plugin, "CHECK", recalled, attachmentNetconf(list, plugin, recalled.capabilityArgs, prevResult));
  }
}

/** Answer of one plugin to STATUS or GC; `failure` absent: all is well. */
export interface PluginAnswer {
  readonly plugin: PluginConf;
  readonly failure?: PluginFailure;
}

/** @throws TortieError `operation-unsupported` */
export async function status(runtime: Runtime, list: Conflist): Promise<readonly PluginAnswer[]> {
  requireVersion(list, "STATUS", "1.1.0");
  return askAll(runtime, list, "STATUS", (plugin) => networkNetconf(list, plugin));
}

export interface GcOutcome {
  readonly valid: readonly ValidAttachment[];
  /** Stale cached attachments, removed by DEL unless `failure` says why not. */
  readonly stale: readonly { readonly attachment: Attachment; readonly failure?: PluginFailure }[];
  /** Empty when the list's version has no GC or `disableGC` is set. */
  readonly answers: readonly PluginAnswer[];
}

/**
 * Removes what no living attachment owns.
 * @param given the attachments that are alive; `undefined`: those cached ones whose namespace still exists
 */
export async function gc(runtime: Runtime, list: Conflist, given: readonly ValidAttachment[] | undefined): Promise<GcOutcome> {
  const cached = runtime.cache.list(list.name).map((entry) => entry.attachment);
  const isValid = (attachment: Attachment): boolean =>
    given === undefined
      ? sandboxExists(attachment.netns)
      : given.some((one) => one.containerID === attachment.containerId && one.ifname === attachment.interfaceName);
  const alive = cached.filter(isValid).map((one) => ({ containerID: one.containerId, ifname: one.interfaceName }));
  const valid = given ?? alive;
  if (list.disableGc) return { valid, stale: [], answers: [] };

  const stale: { attachment: Attachment; failure?: PluginFailure }[] = [];
  for (const attachment of cached.filter((one) => !isValid(one))) {
    const failure = await failureOf(() => del(runtime, list, attachment));
    stale.push({ attachment, failure });
  }
  if (!isAtLeast(list.cniVersion, "1.1.0")) return { valid, stale, answers: [] };
  return { valid, stale, answers: await askAll(runtime, list, "GC", (plugin) => gcNetconf(list, plugin, valid)) };
}

async function askAll(
  runtime: Runtime,
  list: Conflist,
  command: "STATUS" | "GC",
  netconfOf: (plugin: PluginConf) => JsonObject,
): Promise<readonly PluginAnswer[]> {
  const answers: PluginAnswer[] = [];
  for (const plugin of list.plugins) {
    const failure = await failureOf(async () => {
      await requireKnown(runtime, list, plugin, command);
      await call(runtime, list, plugin, command, undefined, netconfOf(plugin));
    });
    answers.push({ plugin, failure });
  }
  return answers;
}

async function failureOf(action: () => Promise<unknown>): Promise<PluginFailure | undefined> {
  try {
    await action();
    return undefined;
  } catch (error) {
    if (error instanceof PluginFailure) return error;
    throw error;
  }
}

async function call(
  runtime: Runtime,
  list: Conflist,
  plugin: PluginConf,
  command: CniCommand,
  attachment: Attachment | undefined,
  netconf: JsonObject,
): Promise<JsonObject | undefined> {
  try {
    return await runtime.run(plugin.type, command, attachment, netconf);
  } catch (error) {
    throw PluginFailure.of(list, plugin, command, error);
  }
}

/** @throws PluginFailure `plugin-outdated`: the plugin says that it does not know the list's version */
async function requireKnown(runtime: Runtime, list: Conflist, plugin: PluginConf, command: CniCommand): Promise<void> {
  const known = await runtime.versionsOf(plugin.type, list.cniVersion);
  if (known === undefined || known.includes(list.cniVersion)) return;
  const message = `${plugin.type} does not know CNI ${list.cniVersion} of the list, only ${known.join(", ")}: it was not asked`;
  throw PluginFailure.of(list, plugin, command, new TortieError("plugin-outdated", message));
}

/** What the ADD was given holds for later operations, unless they say otherwise. */
function recall(attachment: Attachment, cached: CachedAttachment | undefined): Attachment {
  return {
    ...attachment,
    args: attachment.args ?? cached?.attachment.args,
    capabilityArgs: attachment.capabilityArgs ?? cached?.attachment.capabilityArgs,
  };
}

function requireVersion(list: Conflist, command: CniCommand, since: CniVersion): void {
  if (isAtLeast(list.cniVersion, since)) return;
  throw new TortieError(
    "operation-unsupported",
    `network ${list.name}: ${command} is known from CNI ${since} on, cniVersion is ${list.cniVersion}`,
  );
}

/**
 * Converts the result to `version`; as it came when it is in that version already, so that nothing a plugin says is lost.
 * @throws TortieError `result-invalid`
 */
function inVersion(result: JsonObject, version: CniVersion): JsonObject {
  if (result.cniVersion === version) return result;
  const converted = parseJson(renderResult(parseResult(result, version), version));
  return isJsonObject(converted) ? converted : result;
}
