/** Describes `tortiectl repair`. Loads what it does when it is called. */
import type { Argv } from "yargs";
import { TortieError } from "../../../lib/errors/errors.ts";
import { HERE_OPTIONS, hereOptions } from "../explain/command.ts";
import { type CommandContext, command, flagOption } from "../options.ts";

const WHAT = ["pod", "container", "node"] as const;

export function repairCommand({ terminal, finish }: CommandContext) {
  return command({
    command: "repair <what> [name]",
    describe: "Take away what differs from what should be, on this host; says what it would do unless --yes is given",
    builder: (argv: Argv) =>
      argv
        .positional("what", {
          choices: WHAT,
          demandOption: true,
          describe: "One pod, one container, or all of this node and the host itself",
        })
        .positional("name", { type: "string", describe: "NAMESPACE/NAME of the pod, container id or how it begins" })
        .options(HERE_OPTIONS)
        .option("yes", flagOption("Do it"))
        .option("dry-run", flagOption("Only say what would be done, which is so without --yes too"))
        .example([
          ["$0 repair pod default/web", "What would be done"],
          ["$0 repair node --yes", "Everything of this node"],
        ]),
    handler: async (given) => {
      const { what, name, yes } = given;
      if (what !== "node" && name === undefined) throw new TortieError("argument-missing", `repair ${what}: which one?`);
      if (yes && given.dryRun) throw new TortieError("option-invalid", "--yes and --dry-run exclude each other");
      const { runRepair } = await import("./run.ts");
      finish(await runRepair({ ...hereOptions(given), what, name, yes }, terminal));
    },
  });
}
