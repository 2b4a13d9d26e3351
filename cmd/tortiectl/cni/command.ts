/** `tortiectl cni …`: from options to an operation and from its outcome to words. */

import { readdirSync } from "node:fs";
import { lineOf } from "../../../doctor/validate/finding.ts";
import { suggestionFor } from "../../../doctor/validate/suggest.ts";
import { validateText } from "../../../doctor/validate/validate.ts";
import { lookUpPlugin } from "../../../lib/cni/plugin-file.ts";
import type { ValidAttachment } from "../../../lib/cni/protocol.ts";
import { ResultCache } from "../../../lib/cni/runtime/cache.ts";
import { capabilityArgs } from "../../../lib/cni/runtime/capabilities.ts";
import { add, check, del, gc, type Runtime, status } from "../../../lib/cni/runtime/chain.ts";
import { type Conflist, readConflist } from "../../../lib/cni/runtime/conflist.ts";
import {
  type Attachment,
  checkAttachment,
  defaultContainerId,
  netnsPath,
  PluginFailure,
  sandboxExists,
  undeclaredCapabilities,
} from "../../../lib/cni/runtime/plugin-call.ts";
import { defaultPluginPath, pluginRunner, versionAsker } from "../../../lib/cni/runtime/run-plugin.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { reportError, type Terminal } from "../terminal.ts";
import { findingsOf } from "./findings.ts";
import type { CniOptions, CniVerb } from "./options.ts";
import { printAdded, printChecked, printDeleted, printGc, printStatus, reportPluginFailure } from "./print.ts";

/** @returns exit status */
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
    if (!(error instanceof PluginFailure)) return reportError(terminal, error);
    reportPluginFailure(terminal, error, options.json ? version : undefined);
    return 1;
  }
}

function pluginPathOf({ cniPath }: CniOptions): string {
  return cniPath ?? defaultPluginPath(process.env);
}

/** What the plugins write: shown as it comes when asked for, else only when something fails. */
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
    terminal.err(
      `${terminal.colors.yellow("note:")} no plugin of ${list.name} declares the capability ${name}: its argument reaches nobody`,
    );
  }
}

/** What `tortiectl validate` says of the list: the plugins ignore a key that they do not know. */
async function remarkFindings(list: Conflist, terminal: Terminal): Promise<void> {
  for (const finding of await validateText(list.file, list.text, "")) terminal.err(`${terminal.colors.yellow("note:")} ${lineOf(finding)}`);
}

/** Before any plugin runs: it would speak to a runtime, and here that is the person who typed the name. */
function requireNamespace(netns: string): void {
  if (sandboxExists(netns)) return;
  const [, name] = /^\/run\/netns\/([^/]+)$/.exec(netns) ?? [];
  throw new TortieError("netns-missing", `there is no network namespace ${netns}`, {
    next: name === undefined ? "give the path of a namespace, or the name of one that ip netns has made" : `make it: ip netns add ${name}`,
  });
}

/** A chain that lacks a plugin is not begun. @throws TortieError `delegate-not-found` with the name that was probably meant */
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
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
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
