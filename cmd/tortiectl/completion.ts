/** Prints scripts by which a shell completes command lines. Each asks the installed `tortiectl` what may come next, so it never grows old. */

import { readdirSync } from "node:fs";
import type { CommandModule } from "yargs";
import { DEFAULT_SOCKET } from "../../handover/run-directory.ts";
import { ifReadable } from "../../lib/system/files.ts";
import type { CommandContext } from "./options.ts";
import { commandNamedBy, type HelpOf, isValue, optionBefore } from "./usage.ts";

/** Begins a command line that asks what may come next; scripts of earlier versions say the same. */
export const ASKS = "--get-yargs-completions";

/** Passes the program's name first, then the words up to the one that is typed. Without an answer the shell offers files. */
const BASH = `# source <(tortiectl completion bash)
_tortiectl() {
  mapfile -t COMPREPLY < <(tortiectl ${ASKS} "\${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null)
}
complete -o bashdefault -o default -F _tortiectl tortiectl`;

const ZSH = `#compdef tortiectl
# source <(tortiectl completion zsh)
_tortiectl() {
  local -a found
  found=("\${(@f)$(tortiectl ${ASKS} "\${(@)words[1,CURRENT]}" 2>/dev/null)}")
  found=(\${found:#})
  if (( \${#found} )); then compadd -- "\${found[@]}"; else _files; fi
}
if [[ "\${zsh_eval_context[-1]}" == loadautofunc ]]; then _tortiectl "$@"; else compdef _tortiectl tortiectl; fi`;

const FISH = `# tortiectl completion fish | source
function _tortiectl
  set -l found (tortiectl ${ASKS} (commandline -opc) (commandline -ct) 2>/dev/null)
  if set -q found[1]
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c tortiectl -f -a '(_tortiectl)'`;

const SHELLS = { bash: BASH, zsh: ZSH, fish: FISH } as const;

export function completionCommand({ terminal }: CommandContext): CommandModule<object, { shell: keyof typeof SHELLS | undefined }> {
  return {
    command: "completion [shell]",
    describe: "Print a script that completes commands, options, files, namespaces and endpoints",
    builder: (command) =>
      command.positional("shell", { choices: ["bash", "zsh", "fish"] as const, describe: "Default: as SHELL says" }).example([
        ["source <($0 completion bash)", "In ~/.bashrc"],
        ["$0 completion fish | source", "In ~/.config/fish/config.fish"],
      ]),
    handler: ({ shell }) => terminal.out(SHELLS[shell ?? shellOf(process.env.SHELL)]),
  };
}

/** @param shell value of SHELL: the shell of the person who calls */
function shellOf(shell: string | undefined): keyof typeof SHELLS {
  return (["zsh", "fish"] as const).find((name) => shell?.endsWith(`/${name}`)) ?? "bash";
}

/** Says what a positional word is, by its command: what completes the first one, the second one. */
const WORDS: Readonly<Record<string, readonly Source[]>> = {
  "cni add": ["files", "namespaces"],
  "cni del": ["files", "namespaces"],
  "cni check": ["files", "namespaces"],
  "cni status": ["files"],
  "cni gc": ["files"],
  "node endpoint": ["endpoints"],
  "policy explain": ["endpoints", "endpoints"],
  "policy drops": ["endpoints"],
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

/** Lists the names that `ip netns` keeps. */
function namespaces(): readonly string[] {
  return ifReadable(() => readdirSync("/run/netns").sort()) ?? [];
}

/** Limits how long a shell waits for completions. */
const PATIENCE_MS = 1_000;

/** Lists the pods of this node's agent, and the containers outside of pods. */
async function endpoints(): Promise<readonly string[]> {
  try {
    const { AgentClient } = await import("../../agent/api/client.ts");
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
