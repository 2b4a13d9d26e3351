/** Runs the node agent, `tortie-node`: flags, variables and file become options (A§1.1); then it runs until a signal ends it. */

import { runAgent } from "../agent/agent.ts";
import { AGENT, resolveOptions } from "../agent/start/options.ts";
import type { Environment } from "../lib/cni/protocol.ts";
import { namingFault } from "../lib/errors/errors.ts";
import { VERSION } from "./output.ts";
import { runResident } from "./resident-flags.ts";

/** @returns the exit status, as `runResident` */
export function tortieNode(argv: readonly string[], env: Environment): Promise<number> {
  return runResident(
    {
      of: AGENT,
      about: "The node agent of tortie.",
      async run({ given, file }) {
        const reread = () => resolveOptions(given, env, file);
        try {
          return await runAgent({ options: reread(), env, version: VERSION, reread });
        } catch (error) {
          throw namingFault(error);
        }
      },
    },
    argv,
    env,
  );
}
