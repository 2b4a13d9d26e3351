/** Judges the host itself: what the installer's preflight looks for, forwarding, and the clock beside the API server's. */

import { readSysctl } from "../../dataplane/linux/sysctl.ts";
import { type Finding as Preflight, preflight } from "../../installer/preflight.ts";
import { TORTIE_NAMES } from "../../installer/settings.ts";
import type { Family } from "../../lib/addresses/address.ts";
import { dateOf } from "../api-server.ts";
import { type Finding, failed, skipped, warned, well } from "../report.ts";
import type { HostView } from "./view.ts";

const REQUIREMENTS = "docs/reference/requirements.md lists what Tortie needs";

/** Says what to do about each subject of the preflight. */
const NEXT: Readonly<Record<string, string>> = {
  libc: `use a host with glibc: ${REQUIREMENTS}`,
  kernel: "mount /proc; for IPv6, start the kernel without ipv6.disable=1",
  memory: "allow it: setsebool -P deny_execmem off",
};
const INSTALL_PLUGINS = "install the CNI reference plugins there (Debian: containernetworking-plugins), or tortiectl install --plugins DIR";

function lookBefore({ options: { root, netDir, binDir } }: HostView): readonly Preflight[] {
  const confName = `10-${TORTIE_NAMES.plugins[0]}.conflist`;
  return preflight({ binDirs: binDir.split(":"), netDir, confName, oldConfName: "", pluginSource: "" }, root);
}

function resultOf({ severity, message }: Preflight, next: string, object = "this host"): Finding {
  if (severity === "ok") return well(object, message);
  if (severity === "warning") return warned(object, message, { next });
  return failed(object, message, { next, word: "platform-unsupported" });
}

/** @param subject of the preflight */
export function systemCheck(subject: "libc" | "kernel" | "memory"): (view: HostView) => readonly Finding[] {
  return (view) =>
    lookBefore(view)
      .filter((found) => found.subject === subject)
      .map((found) => resultOf(found, NEXT[subject] ?? REQUIREMENTS));
}

/** Looks for what the conflist chains after the main plugin. */
export function referencePlugins(view: HostView): readonly Finding[] {
  return lookBefore(view)
    .filter(({ subject }) => subject === "portmap" || subject === "loopback")
    .map((found) => resultOf(found, INSTALL_PLUGINS, `plugin ${found.subject}`));
}

const FORWARDING: Readonly<Record<Family, string>> = { 4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding" };

/** @param value of the setting; `undefined`: this kernel has none */
export function judgeForwarding(family: Family, value: string | undefined, hasPods: boolean): Finding {
  const name = FORWARDING[family].replaceAll("/", ".");
  const object = `setting ${name}`;
  if (value === undefined) return skipped(object, `this kernel has no IPv${family}`);
  if (value === "1") return well(object, `the host forwards IPv${family}`);
  if (!hasPods) return well(object, `it is ${value}, and no pod has IPv${family} yet: the first one switches it on`);
  const next = `sysctl -w ${name}=1, and find who set it to ${value} (grep -r forward /etc/sysctl.conf /etc/sysctl.d)`;
  return failed(object, `it is ${value}: no packet of a pod leaves this host, and none comes in`, { next });
}

export function forwarding(view: HostView): readonly Finding[] {
  const families = view.podFamilies();
  return ([4, 6] as const).map((family) => judgeForwarding(family, readSysctl(FORWARDING[family]), families.has(family)));
}

/** Warns of what certificates and leases still bear, and fails for what makes tokens invalid. */
const NOTICEABLE_SECONDS = 5;
const HARMFUL_SECONDS = 60;

/** @param aheadMs how much this host's clock is before the server's; negative: behind it */
export function judgeClock(object: string, aheadMs: number): Finding {
  const seconds = Math.round(Math.abs(aheadMs) / 1000);
  const message = `this host's clock is ${seconds} s ${aheadMs > 0 ? "ahead of" : "behind"} the API server's`;
  const next = "set it right: timedatectl set-ntp true, or start the NTP service of this host (chronyc tracking shows its offset)";
  if (seconds >= HARMFUL_SECONDS) return failed(object, `${message}: tokens, leases and cooldowns are judged wrongly`, { next });
  if (seconds >= NOTICEABLE_SECONDS) return warned(object, message, { next });
  return well(object, "this host's clock agrees with the API server's");
}

export async function clock(view: HostView): Promise<readonly Finding[]> {
  const server = view.server();
  if (server === undefined) return [skipped("clock", "no list of this host names an API server to compare with")];
  const { aheadMs } = await dateOf(server);
  return [judgeClock(server.server.url, aheadMs)];
}
