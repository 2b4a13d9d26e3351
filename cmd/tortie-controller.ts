/** Runs the cluster's controller, `tortie-controller`: flags, variables and file become options; then it runs until a signal ends it. */

import { runController } from "../controller/compose.ts";
import { CONTROLLER } from "../controller/options.ts";
import type { Environment } from "../lib/cni/protocol.ts";
import { resolveOptions } from "../lib/resident/options.ts";
import { VERSION } from "./output.ts";
import { runResident } from "./resident-flags.ts";

/** @returns the exit status, as `runResident` */
export function tortieController(argv: readonly string[], env: Environment): Promise<number> {
  return runResident(
    {
      of: CONTROLLER,
      about: "The controller of a whole cluster.",
      run: async ({ given, file }) => runController({ options: resolveOptions(CONTROLLER, given, env, file), env, version: VERSION }),
    },
    argv,
    env,
  );
}
