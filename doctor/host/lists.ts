/** Judges what a runtime would read and run on this host: the lists in its directory, their plugins, and what STATUS says of ours. */

import { tmpdir } from "node:os";
import { join } from "node:path";
import { lookUpPlugin } from "../../lib/cni/plugin-file.ts";
import { isAtLeast } from "../../lib/cni/request.ts";
import { ResultCache } from "../../lib/cni/runtime/cache.ts";
import { status } from "../../lib/cni/runtime/chain.ts";
import { readConflist, whyRefused } from "../../lib/cni/runtime/conflist.ts";
import { pluginRunner, versionAsker } from "../../lib/cni/runtime/run-plugin.ts";
import { ifReadable, readText } from "../../lib/system/files.ts";
import { runProgram } from "../../lib/system/run-program.ts";
import { judgeCredentials } from "../api-server.ts";
import { type Finding, failed, skipped, warned, well } from "../report.ts";
import { formatPath, lineOf } from "../validate/finding.ts";
import { judgeVersions, validateText } from "../validate/validate.ts";
import { productOfPlugin } from "./products.ts";
import { type HostView, nameOf, type OwnList } from "./view.ts";

const INSTALL = "install it: tortiectl install (docs/how-to/install-host.md)";
/** Calls the list that is named in its own configuration. */
const META_PLUGINS: readonly string[] = ["multus", "multus-shim"];

/** Runtimes take the first file by name (libcni; containerd's and CRI-O's default). */
export function firstList(view: HostView): readonly Finding[] {
  const [first] = view.lists();
  const own = view.ownList();
  const { netDir } = view.options;
  if (first === undefined)
    return [
      failed(netDir, "there is no network configuration: the runtime has no network for pods", {
        next: INSTALL,
      }),
    ];
  const refused = whyRefused(first);
  if (refused !== undefined) {
    const message = `it comes first, and runtimes refuse it: containerd has no network then, CRI-O takes the next one: ${refused.message}`;
    return [failed(first, message, { word: refused.word, next: refused.next })];
  }
  if (own === undefined) return [failed(netDir, `no list has Tortie's plugin; runtimes take ${nameOf(first)}`, { next: INSTALL })];
  if (own.file === first) return [well(first, "runtimes take this list")];
  if (typesIn(first).some((type) => META_PLUGINS.includes(type)))
    return [well(own.file, `${nameOf(first)} comes first, and may delegate to this list`)];
  const next = `move it away (mv ${first} /root/), or give ours an earlier name with CNI_CONF_NAME`;
  return [failed(first, `it comes before ${nameOf(own.file)}: runtimes take it instead`, { next })];
}

/** Warns of lists of other networks behind ours: a runtime takes them when ours is away for a moment. */
export function otherLists(view: HostView): readonly Finding[] {
  const own = view.ownList();
  const others = view.lists().filter((file) => file !== own?.file);
  const found = others.flatMap((file) => {
    const product = typesIn(file).flatMap((type) => productOfPlugin(type) ?? [])[0];
    if (product === undefined || (own === undefined && file === view.lists()[0])) return [];
    return [
      warned(file, `it is a list of ${product}: runtimes take it when ours is away`, {
        next: `take ${product} off this host, and the file with it: rm ${file}`,
      }),
    ];
  });
  return found.length > 0 ? found : [well(view.options.netDir, "there is no list of another network")];
}

function typesIn(file: string): readonly string[] {
  return ifReadable(() => readConflist(file).plugins.map(({ type }) => type)) ?? [];
}

const NO_LIST = "no list of this host has Tortie's plugin";

/** Judges every list that is or should be ours as the plugins would read it. */
export async function listContent(view: HostView): Promise<readonly Finding[]> {
  const [file] = [view.ownList()?.file, ...view.lists()].filter((one) => one !== undefined);
  if (file === undefined) return [skipped(view.options.netDir, NO_LIST)];
  const judged = await validateText(file, readText(file), "");
  const next = `correct it: tortiectl validate ${file}`;
  if (judged.length === 0) return [well(file, "every key is known, and every value is possible")];
  return judged.map((one) => {
    const message = lineOf(one).slice(file.length + 1);
    return one.severity === "error" ? failed(file, message, { word: one.code, next }) : warned(file, message, { word: one.code, next });
  });
}

/** Asks every plugin of the list, and the one that gives addresses, for its versions. */
export async function chainedPlugins(view: HostView): Promise<readonly Finding[]> {
  const own = view.ownList();
  if (own === undefined) return [skipped(view.options.netDir, NO_LIST)];
  const judged = await judgeVersions(own.list, false, view.options.binDir);
  if (judged.length === 0)
    return [well(own.file, `every plugin speaks CNI ${own.list.cniVersion}: ${own.list.plugins.map(({ type }) => type).join(", ")}`)];
  return judged.map(({ code, path, message }) => {
    const next =
      code === "plugin-version"
        ? "install a newer version of that plugin, or give the list a cniVersion that all its plugins know"
        : `install it in one of ${view.options.binDir.split(":").join(", ")}, or take it out of the list`;
    return failed(own.file, `${formatPath(path)}: ${message}`, { word: code, next });
  });
}

const LIMIT_MS = 20_000;
const MOST_OUTPUT = 4096;

/** Compares the installed executables with this program: an update that was interrupted leaves both kinds. */
export async function installedVersion(view: HostView): Promise<readonly Finding[]> {
  const own = view.ownList();
  if (own === undefined) return [skipped(view.options.netDir, NO_LIST)];
  const types = new Set(
    [...own.list.plugins.map(({ type }) => type), own.config.ipam.type].filter((type) => /^(tortie|calico)(-ipam)?$/.test(type)),
  );
  const found: Finding[] = [];
  for (const type of types) {
    const { executable } = lookUpPlugin(type, view.options.binDir);
    if (executable !== undefined) found.push(judgeVersion(executable, await versionOf(executable), view.options.version));
  }
  return found;
}

async function versionOf(executable: string): Promise<string> {
  const command = [executable, "-v"] as const;
  const { stdout } = await runProgram({
    command: [...command],
    stdin: new Uint8Array(),
    env: {},
    timeoutMs: LIMIT_MS,
    maxOutput: MOST_OUTPUT,
  });
  return new TextDecoder().decode(stdout).trim();
}

export function judgeVersion(object: string, installed: string, own: string): Finding {
  if (installed === own) return well(object, `it is version ${own}, as this program`);
  const next = "install the same version everywhere: tortiectl install, or roll the DaemonSet out again (docs/how-to/upgrade.md)";
  return warned(object, `it is version ${JSON.stringify(installed)}, and this program is ${own}`, { next });
}

/** Asks the plugins whether an ADD could succeed now. */
export async function pluginStatus(view: HostView): Promise<readonly Finding[]> {
  const own = view.ownList();
  if (own === undefined) return [skipped(view.options.netDir, NO_LIST)];
  const { list, file } = own;
  if (!isAtLeast(list.cniVersion, "1.1.0")) return [skipped(file, `its cniVersion is ${list.cniVersion}: STATUS is known from 1.1.0 on`)];
  const pluginPath = view.options.binDir;
  const run = pluginRunner({ pluginPath, timeoutSeconds: LIMIT_MS / 1000, env: view.options.env }, () => undefined);
  const answers = await status({ run, versionsOf: versionAsker({ pluginPath }), cache: new ResultCache(join(tmpdir(), "unused")) }, list);
  const refused = answers.flatMap(({ plugin, failure }) => (failure === undefined ? [] : [{ type: plugin.type, ...failure.failure }]));
  if (refused.length === 0) return [well(file, "its plugins say that a pod could be added")];
  return refused.map(({ type, message, details }) => {
    const [, word, next] = /(?:^|; )([a-z]+(?:-[a-z]+)+): (.*)$/s.exec(details) ?? [];
    return failed(`plugin ${type}`, message, { word, next: next ?? `read what it says: tortiectl cni status ${file}` });
  });
}

/** Judges the credentials of our list. */
export function token(view: HostView): readonly Finding[] {
  const server = view.server();
  if (server === undefined) return [skipped(nameIfAny(view.ownList()), "it needs no API server")];
  return [judgeCredentials(server, Date.now())];
}

function nameIfAny(own: OwnList | undefined): string {
  return own?.file ?? "credentials";
}
