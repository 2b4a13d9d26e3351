/** `tortiectl cni …`: from options to an operation and from its outcome to words. */
import type { ValidAttachment } from "../../../lib/cni/protocol.ts";
import { type Attachment, checkAttachment, defaultContainerId, netnsPath } from "../../../lib/cni/runtime/attachment.ts";
import { ResultCache } from "../../../lib/cni/runtime/cache.ts";
import { capabilityArgs } from "../../../lib/cni/runtime/capabilities.ts";
import { add, check, del, gc, type Runtime, status } from "../../../lib/cni/runtime/chain.ts";
import { type Conflist, readConflist } from "../../../lib/cni/runtime/conflist.ts";
import { PluginFailure } from "../../../lib/cni/runtime/plugin-call.ts";
import { undeclaredCapabilities } from "../../../lib/cni/runtime/plugin-netconf.ts";
import { defaultPluginPath, pluginRunner } from "../../../lib/cni/runtime/run-plugin.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { reportError, type Terminal } from "../terminal.ts";
import { findingsOf } from "./findings.ts";
import type { CniOptions, CniVerb } from "./options.ts";
import { printAdded, printChecked, printDeleted, printGc, printStatus, reportPluginFailure } from "./print.ts";

/** @returns exit status */
export async function cni(verb: CniVerb, options: CniOptions, terminal: Terminal): Promise<number> {
  let version = "1.1.0";
  try {
    const list = readConflist(options.conflist);
    version = list.cniVersion;
    const runtime: Runtime = {
      run: pluginRunner({
        pluginPath: options.cniPath ?? defaultPluginPath(process.env),
        timeoutSeconds: checkTimeout(options.timeout),
        env: process.env,
      }),
      cache: new ResultCache(options.cacheDir),
    };
    return await operate(verb, list, runtime, options, terminal);
  } catch (error) {
    if (!(error instanceof PluginFailure)) return reportError(terminal, error);
    reportPluginFailure(terminal, error, options.json ? version : undefined);
    return 1;
  }
}

async function operate(verb: CniVerb, list: Conflist, runtime: Runtime, options: CniOptions, terminal: Terminal): Promise<number> {
  const { json } = options;
  switch (verb) {
    case "add": {
      const attachment = attachmentOf(options);
      remarkUndeclared(list, attachment, terminal);
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
      const exit = printStatus(terminal, list, await status(runtime, list), json);
      for (const finding of await findingsOf(list, process.env)) terminal.err(`${terminal.colors.yellow("note:")} ${finding}`);
      return exit;
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
