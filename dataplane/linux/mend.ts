/**
 * Makes the kernel hold an attachment again where something was taken from it: by hand, by another daemon, by a flushed table.
 *
 * Only what differs is touched. A host end that is another attachment's by now is not: the newer sandbox of a pod has the name of the
 * older one's link (design, invariant 7).
 */
import { TortieError } from "../../lib/errors/errors.ts";
import { inNamespace } from "../../lib/system/netns.ts";
import { attachmentAlias, namesAttachment } from "../alias.ts";
import type { DesiredState, Difference } from "../desired-state.ts";
import { getLink } from "../rtnetlink/link.ts";
import { attach, completeLink } from "./attach.ts";
import { inspect } from "./inspect.ts";
import { openSite } from "./site.ts";
import { differingSysctls, readSysctl, writeSysctls } from "./sysctl.ts";

/** @throws TortieError `netns-missing`, `netns-invalid` */
export function drift(desired: DesiredState): Difference[] {
  const differences = inspect(desired);
  return isHostEndMissing(differences, desired) ? differences : [...differences, ...sysctlDifferences(desired)];
}

/** @returns what was mended */
export async function mend(desired: DesiredState, podMac?: string): Promise<readonly Difference[]> {
  const differences = drift(desired);
  if (differences.length === 0) return differences;
  assertOwn(desired);
  if (isHostEndMissing(differences, desired)) await attach(withMac(desired, podMac));
  else mendPresent(desired);
  return differences;
}

function isHostEndMissing(differences: readonly Difference[], { host }: DesiredState): boolean {
  return differences.some(({ side, object, found }) => side === "host" && object === `link ${host.name}` && found === "missing");
}

/** A setting that this kernel does not have, and that is not required, is no difference. */
function sysctlDifferences({ host }: DesiredState): Difference[] {
  return differingSysctls(host.sysctls).flatMap(({ path, value, required }): Difference[] => {
    const found = readSysctl(path);
    if (found === undefined && !required) return [];
    return [{ side: "host", object: `setting ${path}`, wanted: value, found: found ?? "missing" }];
  });
}

/** @throws TortieError `interface-exists`, `link-failed` when the link cannot be ours to mend */
function assertOwn(desired: DesiredState): void {
  const { host, pod, sandbox } = desired;
  using site = openSite(sandbox);
  const link = getLink(site.hostSocket, { name: host.name });
  if (link === undefined) return;
  if (!namesAttachment(link.alias, host.owner)) {
    const wanted = attachmentAlias(host.owner);
    throw new TortieError("interface-exists", `host interface ${host.name} is "${link.alias}" by now, not "${wanted}": it is left alone`);
  }
  // A pair is gone as a whole, so the other end has another name, or is in another namespace.
  if (getLink(site.podSocket, { name: pod.name }) === undefined) {
    throw new TortieError("link-failed", `sandbox ${sandbox} has no ${pod.name}, but ${host.name} is there: somebody moved its other end`);
  }
}

function mendPresent(desired: DesiredState): void {
  using site = openSite(desired.sandbox);
  const { host, pod } = desired;
  writeSysctls(differingSysctls(host.sysctls));
  inNamespace(site.namespace, () => writeSysctls(differingSysctls(pod.sysctlsBeforeUp)));
  completeLink(site, desired);
}

function withMac(desired: DesiredState, mac: string | undefined): DesiredState {
  return mac === undefined ? desired : { ...desired, pod: { ...desired.pod, mac } };
}
