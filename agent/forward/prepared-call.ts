/**
 * A call of a runtime, read as far as it must be to be handed over (A§11.3), by the plugin and again by the agent. The plugin judges no more than it must to fall back: the agent judges all of it, with
 * the words of the plugin.
 */
import { closeSync, fstatSync, openSync } from "node:fs";
import { isRunningExecutable, lookUpPlugin } from "../../lib/cni/plugin-file.ts";
import type { CniCommand } from "../../lib/cni/protocol.ts";
import { commandOf, type Environment, missingVariables } from "../../lib/cni/variables.ts";
import { refusedVariables } from "../../lib/system/refused-variables.ts";
import type { AttachmentId } from "../run-directory/attachment-key.ts";
import { type RunDirectory, runDirectoryOf } from "../run-directory/run-directory.ts";
import { type CniCallBody, MAX_BODY_BYTES, PROTOCOL } from "./protocol.ts";
import { type ForwardSettings, readSettings } from "./settings.ts";

export interface PreparedCall {
  readonly command: Exclude<CniCommand, "VERSION">;
  readonly settings: ForwardSettings;
  readonly runDirectory: RunDirectory;
  readonly attachment: AttachmentId;
  readonly body: CniCallBody;
  /** The environment and standard input as they came: what goes over the socket. */
  readonly env: Environment;
  readonly stdin: Uint8Array;
}

/** Members of the body, not of `env` in it. */
const MEMBERS = ["CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH"];

/**
 * @param plugin version of the executable
 * @returns `undefined` when the plugin itself is to serve the call: there is something wrong with it, and the plugin says what
 */
export function prepareCall(env: Environment, plugin: string, readStdin: () => Uint8Array): PreparedCall | undefined {
  const command = commandOf(env.CNI_COMMAND ?? "");
  if (command === undefined || command === "VERSION") return undefined;
  if (refusedVariables(env).length > 0 || missingVariables(command, env).length > 0) return undefined;
  const isOfAttachment = command !== "GC" && command !== "STATUS";
  const [containerId = "", interfaceName = "", netns = ""] = isOfAttachment ? [env.CNI_CONTAINERID, env.CNI_IFNAME, env.CNI_NETNS] : [];
  const { CNI_ARGS: args = "", CNI_PATH: path = "" } = env;
  try {
    const bytes = readStdin();
    if (bytes.length > MAX_BODY_BYTES) return undefined;
    // Unchanged: neither a byte order mark nor a wrong byte gets lost on the way.
    const stdin = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const settings = readSettings(stdin);
    if (settings === undefined || (settings.isRefusedByAdd && (command === "ADD" || command === "STATUS"))) return undefined;
    return {
      command,
      settings,
      runDirectory: runDirectoryOf(settings.socket || env.TORTIE_SOCK || undefined),
      attachment: { network: settings.network, containerId, interfaceName },
      body: {
        protocol: PROTOCOL,
        plugin,
        containerId,
        ifname: interfaceName,
        args,
        path,
        ...(netns === "" ? {} : { netns: { path: netns } }),
        stdin,
        pluginDirs: path.split(":").filter((directory) => directory !== ""),
        env: withoutMembers(env),
      },
      env,
      stdin: bytes,
    };
  } catch {
    return undefined;
  }
}

/**
 * The call with its sandbox opened: the path may be used again by another sandbox, the descriptor may not.
 * @returns `undefined` for a sandbox that a DEL may miss and no other operation
 */
export function withOpenSandbox(call: PreparedCall): PreparedCall | undefined {
  const { body, command } = call;
  if (body.netns === undefined) return call;
  try {
    const { path } = body.netns;
    const fd = openSync(path, "r");
    const { dev, ino } = fstatSync(fd, { bigint: true });
    return { ...call, body: { ...body, netns: { path, dev: String(dev), ino: String(ino), fd } } };
  } catch {
    return command === "DEL" ? call : undefined;
  }
}

/** The call with what only its caller can say: whether the IPAM plugin of the configuration is this very file (C§2.5). */
export function withOwnIpam(call: PreparedCall): PreparedCall {
  const { executable } = lookUpPlugin(call.settings.ipamType, call.body.path ?? "");
  if (executable === undefined || !isRunningExecutable(executable)) return call;
  return { ...call, body: { ...call.body, ownIpam: true } };
}

/** Before the plugin serves the call itself, which opens the sandbox when it needs it. */
export function closeSandbox({ body }: PreparedCall): void {
  if (body.netns?.fd !== undefined) closeSync(body.netns.fd);
}

function withoutMembers(env: Environment): Record<string, string> {
  const others: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) if (value !== undefined && !MEMBERS.includes(name)) others[name] = value;
  return others;
}
