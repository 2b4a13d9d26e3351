/** Version skew of a chain: the list's `cniVersion` against what each executable's own VERSION answers. */
import { findPlugin } from "../../lib/cni/delegate.ts";
import type { Conflist } from "../../lib/cni/runtime/conflist.ts";
import { supportedVersions } from "../../lib/cni/runtime/run-plugin.ts";
import { HOST_SCOPE } from "../../lib/config/ipam-section.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import type { Step } from "../../lib/json/position.ts";
import { isJsonObject, memberOf } from "../../lib/json/value.ts";
import { type Judgement, warning } from "./finding.ts";
import { IPAM_PLUGINS, MAIN_PLUGINS } from "./network.ts";
import { suggestionFor } from "./suggest.ts";

interface Named {
  readonly type: string;
  readonly path: readonly Step[];
}

/** @param binDir folders of plugins, joined by ":" */
export async function judgeVersions(list: Conflist, isSingle: boolean, binDir: string): Promise<readonly Judgement[]> {
  const judgements: Judgement[] = [];
  const answers = new Map<string, readonly string[] | string>();
  for (const { type, path } of namedPlugins(list, isSingle)) {
    let executable: string;
    try {
      executable = findPlugin(type, binDir);
    } catch (error) {
      const meant = suggestionFor(type, [...MAIN_PLUGINS, ...IPAM_PLUGINS]);
      const missing = warning("plugin-missing", path, `its version was not asked for: ${messageOf(error)}`, meant);
      // A plugin of ours with a letter wrong: nothing of its entry was judged.
      judgements.push(meant === undefined || meant === type ? { ...missing, suggestion: undefined } : { ...missing, severity: "error" });
      continue;
    }
    const answer = answers.get(executable) ?? (await supportedVersions(executable, list.cniVersion));
    answers.set(executable, answer);
    const problem = problemOf(answer, list.cniVersion);
    if (problem !== undefined) judgements.push({ severity: "error", code: "plugin-version", path, message: `${executable} ${problem}` });
  }
  return judgements;
}

/** Every plugin of the chain and the IPAM plugins that they call. Entries of other files have no place in this one. */
function namedPlugins(list: Conflist, isSingle: boolean): readonly Named[] {
  return list.plugins.flatMap(({ type, netconf }, index) => {
    const root = isSingle ? [] : ["plugins", index];
    const ipam = memberOf(netconf, "ipam");
    const ipamType = isJsonObject(ipam) ? memberOf(ipam, "type") : undefined;
    const delegate = typeof ipamType === "string" && ipamType !== "" && ipamType !== HOST_SCOPE;
    return [{ type, path: [...root, "type"] }, ...(delegate ? [{ type: ipamType, path: [...root, "ipam", "type"] }] : [])];
  });
}

function problemOf(answer: readonly string[] | string, wanted: string): string | undefined {
  if (typeof answer === "string") return `does not say which versions it supports: ${answer}`;
  return answer.includes(wanted) ? undefined : `does not support cniVersion ${wanted} of the list, only ${answer.join(", ")}`;
}
