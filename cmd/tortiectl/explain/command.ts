/** Describes `tortiectl explain`. Loads what it does when it is called. */
import type { Argv } from "yargs";
import type { SubjectKind } from "../../../doctor/explain/explanation.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { AGENT_OPTIONS, type CommandContext, command, JSON_OUTPUT, NET_DIR, STORE_OPTIONS, textOption } from "../options.ts";
import type { HereOptions } from "./sources.ts";

const KINDS: readonly SubjectKind[] = ["pod", "ip", "interface", "container"];

/** Lists the options of every command that looks at this host as a whole. */
export const HERE_OPTIONS = {
  socket: AGENT_OPTIONS.socket,
  json: JSON_OUTPUT,
  ...STORE_OPTIONS,
  datastore: textOption("File of a local datastore, or etcdv3; default: what the network configuration of this host names"),
  "net-dir": NET_DIR,
  "cache-dir": { ...textOption("Directory in which runtimes keep results"), default: "/var/lib/cni" },
} as const;

/** Takes an empty text for none. */
export function hereOptions({ socket, json, datastore, conf, kubeconfig, netDir, cacheDir }: HereOptions): HereOptions {
  return {
    socket: socket || undefined,
    json,
    datastore: datastore || undefined,
    conf: conf || undefined,
    kubeconfig: kubeconfig || undefined,
    netDir: netDir || HERE_OPTIONS["net-dir"].default,
    cacheDir: cacheDir || HERE_OPTIONS["cache-dir"].default,
  };
}

export function explainCommand({ terminal, finish }: CommandContext) {
  return command({
    command: "explain <what> [name]",
    describe: "Who has something on this host, since when and why, what is wrong with it and what to do",
    builder: (argv: Argv) =>
      argv
        .positional("what", { type: "string", demandOption: true, describe: "pod, ip, interface, container, or a word of an error" })
        .positional("name", {
          type: "string",
          describe: "NAMESPACE/NAME of a pod, an address, a host interface, a container id or how it begins",
        })
        .options(HERE_OPTIONS)
        .option("at", textOption("A time in the past, such as 2026-11-26T09:30:00Z"))
        .example([
          ["$0 explain pod default/web", "Why the pod has no network, or which one"],
          ["$0 explain ip 10.244.9.3 --at 2026-11-26T09:30:00Z", "Who had the address then"],
          ["$0 explain addresses-exhausted", "What an error's word means"],
        ]),
    handler: async (given) => {
      const { runExplain } = await import("./run.ts");
      finish(await runExplain(subjectOf(given), hereOptions(given), terminal));
    },
  });
}

/** @throws TortieError `argument-missing` */
function subjectOf({ what, name, at }: { readonly what: string; readonly name?: string | undefined; readonly at?: string | undefined }) {
  const kind = KINDS.find((one) => one === what);
  if (kind === undefined) return { kind: "word" as const, name: what };
  if (name === undefined) throw new TortieError("argument-missing", `explain ${what}: which one?`);
  return { kind, name, ...(at !== undefined && { at }) };
}
