/** Scripts that let a shell complete command lines of `tortiectl`; each asks the installed `tortiectl`, so that it never grows old. */

/** The first word of a command line that asks what may come next; scripts of earlier versions say the same. */
export const ASKS = "--get-yargs-completions";

/** The program's name comes first, then the words up to the one that is typed. Without an answer the shell offers files. */
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

export const SHELLS = { bash: BASH, zsh: ZSH, fish: FISH } as const;

/** @param shell value of SHELL: the shell of the person who calls */
export function shellOf(shell: string | undefined): keyof typeof SHELLS {
  return (["zsh", "fish"] as const).find((name) => shell?.endsWith(`/${name}`)) ?? "bash";
}
