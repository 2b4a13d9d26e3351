/** The node agent, `tortie-node`: flags, variables and file become options (A§1.1); then it runs until a signal ends it. */
import { runAgent } from "../agent/agent.ts";
import { AGENT, resolveOptions } from "../agent/start/options.ts";
import type { Environment } from "../lib/cni/environment.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { namingPrivilege } from "../lib/errors/privilege.ts";
import { optionsSchema } from "../lib/resident/options.ts";
import { refuseRuntimeVariables } from "../lib/system/runtime-environment.ts";
import { type CommandLine, parseFlags } from "./resident-flags.ts";
import { VERSION } from "./version.ts";

/** @returns the exit status: 0 ended by a signal, 1 failed, 2 the command line is wrong */
export async function tortieNode(argv: readonly string[], env: Environment): Promise<number> {
  let line: CommandLine;
  try {
    refuseRuntimeVariables(env);
    line = await parseFlags(AGENT, "The node agent of tortie.", argv);
  } catch (error) {
    process.stderr.write(`tortie-node: ${messageOf(error)}; --help shows the options\n`);
    return 2;
  }
  const output = line.printsSchema ? JSON.stringify(optionsSchema(AGENT), undefined, 2) : line.output;
  if (output !== "") {
    process.stdout.write(`${output}\n`);
    return 0;
  }
  // The executable is compiled for calls that are over before machine code would pay for its making (scripts/build). This process lives on.
  Bun.unsafe.setJITPolicy(1);
  const file = line.file ?? env.TORTIE_CONFIG;
  const read = () => resolveOptions(line.given, env, file);
  try {
    return await runAgent({ options: read(), env, version: VERSION, reread: read });
  } catch (thrown) {
    const error = namingPrivilege(thrown);
    process.stderr.write(`tortie-node: ${messageOf(error)}\n`);
    if (error instanceof TortieError) process.stderr.write(`  next  ${error.next} (${error.word})\n`);
    return 1;
  }
}
