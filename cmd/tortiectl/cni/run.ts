/** Runs `tortiectl cni …`: makes an operation of the options, and words of its outcome. */

import { existsSync, readdirSync } from "node:fs";
import { lineOf, suggestionFor } from "../../../doctor/validate/finding.ts";
import { validateText } from "../../../doctor/validate/validate.ts";
import { createIpamHost } from "../../../ipam-plugin/host.ts";
import { ipamFindings } from "../../../ipam-plugin/status.ts";
import { lookUpPlugin } from "../../../lib/cni/plugin-file.ts";
import type { Environment, ValidAttachment } from "../../../lib/cni/protocol.ts";
import { ResultCache } from "../../../lib/cni/runtime/cache.ts";
import { add, check, del, gc, type Runtime, status } from "../../../lib/cni/runtime/chain.ts";
import { type Conflist, type PluginConf, readConflist } from "../../../lib/cni/runtime/conflist.ts";
import {
  type Attachment,
  capabilityArgs,
  checkAttachment,
  defaultContainerId,
  netnsPath,
  networkNetconf,
  PluginFailure,
  sandboxExists,
  undeclaredCapabilities,
} from "../../../lib/cni/runtime/plugin-call.ts";
import { defaultPluginPath, pluginRunner, versionAsker } from "../../../lib/cni/runtime/run-plugin.ts";
import { chooseDatastore } from "../../../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../../../lib/config/decode.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { nodeName } from "../../../lib/config/node-name.ts";
import { openDatastore } from "../../../lib/datastore/open.ts";
import { messageOf, TortieError } from "../../../lib/errors/errors.ts";
import { ifReadable } from "../../../lib/system/files.ts";
import { note, type Terminal } from "../terminal.ts";
import { printAdded, printChecked, printDeleted, printGc, printStatus, reportPluginFailure } from "./print.ts";

/** Has the options as yargs hands them over. */
interface CniOptions {
  readonly conflist: string;
  readonly netns: string | undefined;
  readonly containerId: string | undefined;
  readonly ifname: string;
  readonly cniPath: string | undefined;
  readonly args: string | undefined;
  readonly cacheDir: string;
  readonly capabilityArgs: string | undefined;
  readonly portMapping: readonly string[] | undefined;
  readonly bandwidth: string | undefined;
  readonly mac: string | undefined;
  readonly ips: readonly string[] | undefined;
  readonly valid: readonly string[] | undefined;
  readonly timeout: number;
  readonly strict: boolean;
  readonly verbose: boolean;
  readonly json: boolean;
}

export type CniVerb = "add" | "del" | "check" | "status" | "gc";

/** @returns exit status @throws what is not a plugin's failure */
export async function cni(verb: CniVerb, options: CniOptions, terminal: Terminal): Promise<number> {
  let version = "1.1.0";
  const logs = new PluginLogs(options.verbose, terminal);
  try {
    const list = readConflist(options.conflist);
    version = list.cniVersion;
    const pluginPath = pluginPathOf(options);
    const runtime: Runtime = {
      run: pluginRunner({ pluginPath, timeoutSeconds: checkTimeout(options.timeout), env: process.env }, (_type, text) => logs.take(text)),
      versionsOf: versionAsker({ pluginPath }),
      cache: new ResultCache(options.cacheDir),
    };
    const exit = await operate(verb, list, runtime, options, terminal);
    if (exit !== 0) logs.show();
    return exit;
  } catch (error) {
    logs.show();
    if (!(error instanceof PluginFailure)) throw error;
    reportPluginFailure(terminal, error, options.json ? version : undefined);
    return 1;
  }
}

function pluginPathOf({ cniPath }: CniOptions): string {
  return cniPath ?? defaultPluginPath(process.env);
}

/** Keeps what the plugins write: shown as it comes when asked for, else only when something fails. */
class PluginLogs {
  readonly #verbose: boolean;
  readonly #terminal: Terminal;
  #held: string[] = [];

  constructor(verbose: boolean, terminal: Terminal) {
    this.#verbose = verbose;
    this.#terminal = terminal;
  }

  take(text: string): void {
    if (text !== "") this.#held.push(text.replace(/\n$/, ""));
    if (this.#verbose) this.show();
  }

  show(): void {
    for (const text of this.#held) this.#terminal.err(text);
    this.#held = [];
  }
}

async function operate(verb: CniVerb, list: Conflist, runtime: Runtime, options: CniOptions, terminal: Terminal): Promise<number> {
  const { json } = options;
  switch (verb) {
    case "add": {
      const attachment = attachmentOf(options);
      requireNamespace(attachment.netns);
      requirePlugins(list, pluginPathOf(options));
      remarkUndeclared(list, attachment, terminal);
      await remarkFindings(list, terminal);
      printAdded(terminal, list, attachment, await add(runtime, list, attachment), json);
      return 0;
    }
    case "del": {
      const attachment = attachmentOf(options);
      const { hadResult } = await del(runtime, list, attachment);
      printDeleted(terminal, list, attachment, hadResult, json);
      return 0;
    }
    case "check": {
      const attachment = attachmentOf(options);
      await check(runtime, list, attachment);
      printChecked(terminal, list, attachment, json);
      return 0;
    }
    case "status": {
      const answers = await status(runtime, list);
      const findings = await Promise.all(list.plugins.map((plugin) => findingsOf(list, plugin, process.env)));
      const exit = printStatus(terminal, list, answers, findings, json);
      return exit === 0 && options.strict && findings.some((texts) => texts.length > 0) ? 1 : exit;
    }
    case "gc":
      return printGc(terminal, list, await gc(runtime, list, options.valid?.map(validAttachment)), json);
  }
}

const IPAM_PLUGINS = ["tortie-ipam", "calico-ipam"];

/**
 * Finds what `cni status` says beside the plugins' own answers: STATUS must not fail for conditions that pass without a change of the
 * configuration, but people want to know about them. A failure to look is a finding too.
 * @returns one text for each finding about one plugin of the list
 */
async function findingsOf(list: Conflist, plugin: PluginConf, env: Environment): Promise<readonly string[]> {
  try {
    const config = decodeNetworkConfig(networkNetconf(list, plugin));
    return IPAM_PLUGINS.includes(config.ipam.type) ? await findingsIn(config, env) : [];
  } catch (error) {
    return [messageOf(error)];
  }
}

async function findingsIn(config: NetworkConfig, env: Environment): Promise<readonly string[]> {
  // Looking must not create the file; the first ADD does.
  if (chooseDatastore(config, env) === "local" && !existsSync(config.datastorePath)) return [];
  await using datastore = await openDatastore(config, env);
  const host = createIpamHost({ datastore, log: { error() {} } });
  return (await ipamFindings({ config, nodeName: nodeName(config) }, host)).map(({ message }) => message);
}

function attachmentOf(options: CniOptions): Attachment {
  const netns = netnsPath(options.netns ?? "");
  return checkAttachment({
    containerId: options.containerId ?? defaultContainerId(netns),
    netns,
    interfaceName: options.ifname,
    args: options.args,
    capabilityArgs: capabilityArgs({
      json: options.capabilityArgs,
      portMappings: options.portMapping ?? [],
      bandwidth: options.bandwidth,
      mac: options.mac,
      ips: options.ips ?? [],
    }),
  });
}

function remarkUndeclared(list: Conflist, attachment: Attachment, terminal: Terminal): void {
  for (const name of undeclaredCapabilities(list, attachment.capabilityArgs)) {
    note(terminal, `no plugin of ${list.name} declares the capability ${name}: its argument reaches nobody`);
  }
}

/** Returns what `tortiectl validate` says of the list: the plugins ignore a key that they do not know. */
async function remarkFindings(list: Conflist, terminal: Terminal): Promise<void> {
  for (const finding of await validateText(list.file, list.text, "")) note(terminal, lineOf(finding));
}

/** Requires the namespace before any plugin runs: it would speak to a runtime, and here that is the person who typed the name. */
function requireNamespace(netns: string): void {
  if (sandboxExists(netns)) return;
  const [, name] = /^\/run\/netns\/([^/]+)$/.exec(netns) ?? [];
  throw new TortieError("netns-missing", `there is no network namespace ${netns}`, {
    next: name === undefined ? "give the path of a namespace, or the name of one that ip netns has made" : `make it: ip netns add ${name}`,
  });
}

/** Refuses to begin a chain that lacks a plugin. @throws TortieError `delegate-not-found` with the name that was probably meant */
function requirePlugins(list: Conflist, pluginPath: string): void {
  for (const { type } of list.plugins) {
    const { directories, executable } = lookUpPlugin(type, pluginPath);
    if (executable !== undefined) continue;
    const near = suggestionFor(type, directories.flatMap(namesIn));
    throw new TortieError("delegate-not-found", `there is no plugin ${JSON.stringify(type)} in ${directories.join(", ")}`, {
      next:
        near === undefined
          ? "install it there, or name its folder with --cni-path"
          : `did you mean ${JSON.stringify(near)}? correct its type in ${list.file}`,
    });
  }
}

function namesIn(directory: string): readonly string[] {
  return ifReadable(() => readdirSync(directory)) ?? [];
}

function validAttachment(text: string): ValidAttachment {
  const [containerID = "", ifname = "", ...rest] = text.split(":");
  if (containerID === "" || ifname === "" || rest.length > 0) {
    throw new TortieError("option-invalid", `--valid "${text}" is not of the form CONTAINER-ID:IFNAME`);
  }
  return { containerID, ifname };
}

function checkTimeout(seconds: number): number {
  if (Number.isFinite(seconds) && seconds > 0) return seconds;
  throw new TortieError("option-invalid", "--timeout wants a number of seconds above zero");
}
