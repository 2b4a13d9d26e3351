/** The cluster's controller, `tortie-controller`: flags, variables and file become options; then it runs until a signal ends it. */
import { runController } from "../controller/compose.ts";
import { CONTROLLER } from "../controller/options.ts";
import type { Environment } from "../lib/cni/environment.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { optionsSchema, resolveOptions } from "../lib/resident/options.ts";
import { refuseRuntimeVariables } from "../lib/system/runtime-environment.ts";
import { type CommandLine, parseFlags } from "./resident-flags.ts";
import { VERSION } from "./version.ts";

/** @returns the exit status: 0 ended by a signal, 1 failed, 2 the command line is wrong */
export async function tortieController(argv: readonly string[], env: Environment): Promise<number> {
  // The executable is compiled for calls that are over before machine code would pay for its making (scripts/build). This process lives on.
  Bun.unsafe.setJITPolicy(1);
  let line: CommandLine;
  try {
    refuseRuntimeVariables(env);
    line = await parseFlags(CONTROLLER, "The controller of a whole cluster.", argv);
  } catch (error) {
    process.stderr.write(`tortie-controller: ${messageOf(error)}; --help shows the options\n`);
    return 2;
  }
  const output = line.printsSchema ? JSON.stringify(optionsSchema(CONTROLLER), undefined, 2) : line.output;
  if (output !== "") {
    process.stdout.write(`${output}\n`);
    return 0;
  }
  try {
    const options = resolveOptions(CONTROLLER, line.given, env, line.file ?? env.TORTIE_CONFIG);
    return await runController({ options, env, version: VERSION });
  } catch (error) {
    process.stderr.write(`tortie-controller: ${messageOf(error)}\n`);
    if (error instanceof TortieError) process.stderr.write(`  next  ${error.next} (${error.word})\n`);
    return 1;
  }
}
