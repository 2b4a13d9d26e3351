/**
 * Keeps right what the installer would leave behind in a pod: the plugins' token and kubeconfig, TLS files and conflist (C§9.5).
 * Settings come from the installer's environment variables; the directories are those of the host, under their own names.
 */

import { CONTAINER_PATHS, type InstallSettings, readInstallSettings, TORTIE_NAMES } from "../../installer/settings.ts";
import { InstallationWatch } from "../../installer/watch.ts";
import type { Environment } from "../../lib/cni/protocol.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import { type Check, warningCheck } from "../../lib/resident/health.ts";

const NAME = "cni-installation";
const CONFLIST = "10-tortie.conflist";
const NEXT = "compare the variables and rights with docs/reference/installer.md; what can be repeated is tried again every few seconds";

/**
 * Runs until `signal` aborts; nothing that fails ends the agent.
 * @returns the check for the agent's health; it says so too when a variable of the installer makes no sense
 */
export function manageCni(env: Environment, log: Pick<AgentLog, "info" | "error">, signal: AbortSignal): Check {
  const paths = { ...CONTAINER_PATHS, binDirs: [], netDir: env.CNI_NET_DIR || "/etc/cni/net.d" };
  let settings: InstallSettings;
  try {
    settings = readInstallSettings({ ...env, TORTIE_AGENT: "require" }, paths, TORTIE_NAMES, CONFLIST);
  } catch (error) {
    log.error(`--manage-cni: ${messageOf(error)}`);
    return warningCheck(NAME, () => ({ message: messageOf(error), next: NEXT }));
  }
  const watch = new InstallationWatch(settings, { token: undefined, remarks: [] }, (line) => log.info(line));
  watch.run(signal).catch((error: unknown) => log.error(`kubeconfig and conflist are not kept any more: ${messageOf(error)}`));
  return warningCheck(NAME, () => {
    const { problems } = watch.health();
    return problems.length === 0 ? `kubeconfig and conflist in ${settings.netDir} are kept` : { message: problems.join("; "), next: NEXT };
  });
}
