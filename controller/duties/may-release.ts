/** Whether addresses may be released at all now: not while the datastore is paused, nor while kube-controllers does the same work. */
import type { DutyContext } from "./duty.ts";

/** @throws Error when that cannot be found out, or the lists are not complete */
export async function mayRelease({ view, datastore, kubeControllers }: DutyContext): Promise<boolean> {
  view.mustBeComplete();
  if ((await kubeControllers.presence()) !== undefined) return false;
  const information = await datastore.clusterInformation.get("default");
  return information?.value.datastoreReady === true;
}
