/** Whether the cluster lets anybody change its datastore now: an upgrade or a migration says no (C§2.1 steps 8 and 9). */
import type { ClusterInformation } from "../lib/datastore/resources.ts";
import { TortieError } from "../lib/errors/errors.ts";
import type { Access } from "./access.ts";
import { saying } from "./saying.ts";

/** A node without a cluster is always ready. @throws TortieError `cluster-not-ready`, `datastore-object-missing`; DatastoreError */
export async function assertClusterReady(access: Pick<Access, "isStandalone" | "datastore">): Promise<void> {
  if (access.isStandalone) return;
  const { clusterInformation } = await access.datastore();
  const { datastoreReady } = await saying("error getting ClusterInformation", async () =>
    existing((await clusterInformation.get("default"))?.value),
  );
  if (datastoreReady === true) return;
  const reason = datastoreReady === false ? "" : ": datastoreReady of ClusterInformation default is not set";
  throw new TortieError("cluster-not-ready", `Calico is currently not ready to process requests${reason}`);
}

function existing(found: ClusterInformation | undefined): ClusterInformation {
  if (found === undefined) throw new TortieError("datastore-object-missing", "resource does not exist: ClusterInformation(default)");
  return found;
}
