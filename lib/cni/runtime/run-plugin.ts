/** Runs plugins as processes, called the way libcni calls them: the runtime's own environment and CNI_* over it. */

import { randomUUID } from "node:crypto";
import { closeSync, fstatSync, openSync, readSync, unlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { messageOf, TortieError } from "../../errors/errors.ts";
import { isText, listOf, parseObject } from "../../json/decode.ts";
import { stringifyJson } from "../../json/value.ts";
import { findPlugin, printedObject, runDelegate } from "../delegate.ts";
import { lookUpPlugin } from "../plugin-file.ts";
import type { Environment } from "../protocol.ts";
import type { Attachment, PluginRunner } from "./plugin-call.ts";

interface RunnerSettings {
  /** Folders of plugins joined by ":". */
  readonly pluginPath: string;
  readonly timeoutSeconds: number;
  /** What the plugins inherit: portmap needs PATH to find iptables. */
  readonly env: Environment;
}

/** Finds $CNI_PATH, else the folder of this executable (its other names are plugins) and where Kubernetes and Debian keep plugins. */
export function defaultPluginPath(env: Environment): string {
  const given = env.CNI_PATH ?? "";
  return given === "" ? [...new Set([dirname(process.execPath), "/opt/cni/bin", "/usr/lib/cni"])].join(":") : given;
}

/** What one plugin wrote on its standard error, in one call. */
type PluginLog = (type: string, text: string) => void;

export function pluginRunner(settings: RunnerSettings, log: PluginLog): PluginRunner {
  return async (type, command, attachment, netconf) => {
    const executable = findPlugin(type, settings.pluginPath);
    const env = { ...inherited(settings.env), ...attachmentVariables(attachment), CNI_PATH: settings.pluginPath };
    const stdin = Buffer.from(stringifyJson(netconf));
    using written = new WrittenText();
    try {
      const call = { command, stdin, env, timeoutMs: settings.timeoutSeconds * 1000, standardError: written.descriptor };
      // Only ADD has something to say; what other operations print is not looked at.
      return printedObject(await runDelegate(executable, call));
    } catch (error) {
      throw crashOf(executable, command, error, written.text()) ?? error;
    } finally {
      log(type, written.text());
    }
  };
}

/** Collects text in a file without a name: a program that goes on in the background cannot keep us waiting, as it could with a pipe. */
class WrittenText implements Disposable {
  readonly descriptor: number;

  constructor() {
    const path = join(tmpdir(), `tortiectl-${randomUUID()}`);
    this.descriptor = openSync(path, "wx+", 0o600);
    unlinkSync(path);
  }

  text(): string {
    const bytes = Buffer.alloc(Math.min(fstatSync(this.descriptor).size, MOST_TEXT));
    return bytes.toString("utf8", 0, readSync(this.descriptor, bytes, 0, bytes.length, 0));
  }

  [Symbol.dispose](): void {
    closeSync(this.descriptor);
  }
}

/** Bytes that are read of what a plugin writes in one call. */
const MOST_TEXT = 1024 * 1024;

/** A program in Go that ends by "panic" or "fatal error", or any that a signal has ended, has a defect; what it was given has not. */
function crashOf(executable: string, command: string, error: unknown, text: string): TortieError | undefined {
  if (!(error instanceof TortieError) || error.word !== "delegate-failed") return undefined;
  const [reason] = /^(?:panic|fatal error): .*$/m.exec(text) ?? /signal: SIG(?:SEGV|ABRT|BUS|ILL|FPE|TRAP)/.exec(error.message) ?? [];
  if (reason === undefined) return undefined;
  return new TortieError("plugin-crashed", `${executable} crashed at ${command} (${reason})`, { cause: error });
}

/** The variables that the specification gives a meaning. */
const PARAMETERS = ["CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH"];

/** Removes our own CNI variables: a parameter that this call omits must not be inherited. */
function inherited(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !PARAMETERS.includes(name)));
}

function attachmentVariables(attachment: Attachment | undefined): Environment {
  if (attachment === undefined) return {};
  const { containerId, netns, interfaceName, args = "" } = attachment;
  return { CNI_CONTAINERID: containerId, CNI_NETNS: netns, CNI_IFNAME: interfaceName, CNI_ARGS: args };
}

/** Asks for VERSION of a plugin of the chain. @returns `undefined` when it does not say what it knows, or cannot be found */
export function versionAsker({
  pluginPath,
}: Pick<RunnerSettings, "pluginPath">): (type: string, cniVersion: string) => Promise<readonly string[] | undefined> {
  return async (type, cniVersion) => {
    const { executable } = lookUpPlugin(type, pluginPath);
    const answer = executable === undefined ? "" : await supportedVersions(executable, cniVersion);
    return typeof answer === "string" ? undefined : answer;
  };
}

/** A plugin has to answer at once: VERSION does nothing. */
const LONGEST_ANSWER_MS = 30_000;

const isTexts = listOf(isText);

/**
 * Asks for VERSION of one executable.
 * @param cniVersion the version that the answer shall have
 * @returns the versions, or why they are unknown
 */
export async function supportedVersions(executable: string, cniVersion: string): Promise<readonly string[] | string> {
  try {
    const stdin = Buffer.from(JSON.stringify({ cniVersion }));
    const stdout = await runDelegate(executable, { command: "VERSION", stdin, env: {}, timeoutMs: LONGEST_ANSWER_MS });
    const answer = parseObject(new TextDecoder().decode(stdout)).supportedVersions;
    return isTexts(answer) ? answer : "its answer has no supportedVersions";
  } catch (error) {
    return messageOf(error);
  }
}
