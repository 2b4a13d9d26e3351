/** Judges by its lease whether a controller works, and what its Deployment says. Clocks are compared with the API server's own. */
import { type Fields, number, section, text } from "../../lib/json/decode.ts";
import { type Finding, failed, skipped, well } from "../report.ts";
import type { ClusterView } from "./view.ts";

const LEASE = "tortie-controller";

export async function controllerLease(view: ClusterView): Promise<readonly Finding[]> {
  const { namespace } = view.options;
  const lease = await view.object(`/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/leases/${LEASE}`);
  const isInstalled = (await view.controllers()).length > 0;
  if (lease === undefined && !isInstalled) {
    return [skipped(`lease ${namespace}/${LEASE}`, "no controller is here: Calico's kube-controllers may do its work")];
  }
  const { aheadMs } = await view.date();
  return [judgeLease(`lease ${namespace}/${LEASE}`, lease, Date.now() - aheadMs, namespace)];
}

/** @param nowMs on the API server's clock */
export function judgeLease(object: string, lease: Fields | undefined, nowMs: number, namespace: string): Finding {
  const next = `look at the controllers: kubectl -n ${namespace} get pods -l k8s-app=tortie-controller, and their logs`;
  const idle = "addresses of pods and nodes that are gone are not released";
  if (lease === undefined) return failed(object, `no controller has taken it: ${idle}`, { next });
  const spec = section(lease, "spec");
  const holder = text(spec, "holderIdentity");
  if (holder === "") return failed(object, `nobody leads: ${idle}`, { next });
  const seconds = Math.round((nowMs - Date.parse(text(spec, "renewTime"))) / 1000);
  // One missed renewal is no failure; two durations are more than any controller may be late.
  if (!(seconds <= 2 * number(spec, "leaseDurationSeconds")))
    return failed(object, `${holder} has not renewed it for ${seconds} s: ${idle}`, { next });
  return well(object, `${holder} leads`);
}
