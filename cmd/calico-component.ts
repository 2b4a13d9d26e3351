/** Runs `calico component cni install`, the installer under the name that Calico's manifests call (C§9.1). */

import { CALICO_NAMES, CONTAINER_PATHS, readInstallSettings } from "../installer/settings.ts";
import { runInstaller } from "../installer/watch.ts";
import type { Environment } from "../lib/cni/protocol.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { printError } from "./output.ts";

const USAGE = "calico component cni install: installs the CNI plugins on this host; settings come from environment variables";

/** @returns exit status: 0 done, 1 failed, 2 the command line is wrong */
export async function calicoComponent(argv: readonly string[], env: Environment): Promise<number> {
  if (argv.join(" ") !== "component cni install") {
    printError(`${argv.join(" ")}: the only component here is the installer\n${USAGE}\n`);
    return 2;
  }
  const log = (line: string) => printError(`install: ${line}\n`);
  try {
    await runInstaller(readInstallSettings(env, pathsOf(env), CALICO_NAMES, "10-calico.conflist"), { log });
    return 0;
  } catch (error) {
    const next = error instanceof TortieError ? ` (${error.word}: ${error.next})` : "";
    log(`failed: ${messageOf(error)}${next}`);
    return 1;
  }
}

/** Puts TORTIE_INSTALL_ROOT before the container's fixed paths, so that an installation can be tried without a container. */
function pathsOf({ TORTIE_INSTALL_ROOT: root = "" }: Environment) {
  const below = (path: string) => `${root}${path}`;
  const { binDirs, netDir, pluginSource, serviceAccount, source } = CONTAINER_PATHS;
  return {
    source,
    binDirs: binDirs.map(below),
    netDir: below(netDir),
    pluginSource: below(pluginSource),
    serviceAccount: below(serviceAccount),
  };
}
