/** What may come next on a command line of `tortiectl` that is being typed. */
import { readdirSync } from "node:fs";
import { AgentClient } from "../../../agent/api/client.ts";
import { DEFAULT_SOCKET } from "../../../handover/run-directory.ts";
import { commandNamedBy, type HelpOf, isValue, optionBefore } from "../usage/shape.ts";

/** What a positional word is, by its command: what completes the first one, the second one. */
const WORDS: Readonly<Record<string, readonly Source[]>> = {
  "cni add": ["files", "namespaces"],
  "cni del": ["files", "namespaces"],
  "cni check": ["files", "namespaces"],
  "cni status": ["files"],
  "cni gc": ["files"],
  "node endpoint": ["endpoints"],
};

type Source = "files" | "namespaces" | "endpoints";

/**
 * @param line words behind the program's name; the last one is the one that is typed, and may be empty
 * @returns what it may become; nothing where the shell shall offer files
 */
export async function complete(line: readonly string[], helpOf: HelpOf): Promise<readonly string[]> {
  const current = line.at(-1) ?? "";
  const { path, shape, words } = await commandNamedBy(line.slice(0, -1), helpOf);
  return (await candidates()).filter((candidate) => candidate.startsWith(current));

  async function candidates(): Promise<readonly string[]> {
    if (isValue(line.at(-2), shape)) return optionBefore(line.at(-2), shape)?.choices ?? [];
    if (current.startsWith("-")) return [...shape.options.keys()].map((name) => `--${name}`);
    if (shape.commands.length > 0) return words.length === 0 ? shape.commands : [];
    switch (WORDS[path.join(" ")]?.[words.length]) {
      case "namespaces":
        return namespaces();
      case "endpoints":
        return endpoints();
      default:
        return [];
    }
  }
}

/** Names that `ip netns` keeps. */
function namespaces(): readonly string[] {
  try {
    return readdirSync("/run/netns").sort();
  } catch {
    return [];
  }
}

/** A shell waits while it completes. */
const PATIENCE_MS = 1_000;

/** Pods of this node's agent, and the containers that are no pods. */
async function endpoints(): Promise<readonly string[]> {
  try {
    const client = new AgentClient(process.env.TORTIE_SOCK || DEFAULT_SOCKET);
    const { body } = await client.call("listEndpoints", { signal: AbortSignal.timeout(PATIENCE_MS) });
    return body.map(({ status }) => {
      const { "k8s-namespace": namespace, "k8s-pod-name": pod, "container-id": container } = status["external-identifiers"];
      return pod === undefined ? container : `${namespace}/${pod}`;
    });
  } catch {
    return [];
  }
}
