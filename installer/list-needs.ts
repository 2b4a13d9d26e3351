/** What the conflist that is going to be installed needs of this host, so that no pod is added over a list that cannot work. */
import { join } from "node:path";
import { isJsonObject, type JsonObject } from "../lib/json/value.ts";
import { isThere } from "../lib/system/files.ts";
import { isInPod } from "./kubeconfig.ts";
import { listOf } from "./planned-list.ts";
import type { Finding } from "./preflight.ts";
import type { InstallSettings } from "./settings.ts";

type Places = Pick<InstallSettings, "netDir" | "hostNetDir" | "serviceAccount">;

/** A list without any server, for hosts that have none. */
const LOCAL = "manifests/conflist/10-tortie-local.conflist";

/** @param text of the conflist @returns nothing for a list without our main plugin, which is not ours to judge */
export function needsOfList(text: string, places: Places): readonly Finding[] {
  const main = listOf(text)?.main;
  if (main === undefined) return [];
  switch (main.datastore_type) {
    case "local":
      return [];
    case "etcdv3":
      return [etcd(main)];
    default:
      return [kubeconfig(main, places)];
  }
}

function etcd({ etcd_endpoints: endpoints, etcd_discovery_srv: discovery }: JsonObject): Finding {
  if (endpoints || discovery) return { severity: "ok", subject: "datastore", message: "etcd's addresses are in the list" };
  return { severity: "missing", subject: "datastore", message: "the list's datastore is etcd, and ETCD_ENDPOINTS names none" };
}

/** In a pod the installer writes it, and paths of the host cannot be looked at but for the directory of lists. */
function kubeconfig({ kubernetes, k8s_api_root: root }: JsonObject, places: Places): Finding {
  const subject = "datastore";
  const path = isJsonObject(kubernetes) ? kubernetes.kubeconfig : undefined;
  if (isInPod(places)) return { severity: "ok", subject, message: "the API server, with a token that is asked for" };
  if (root || typeof path !== "string" || path === "") return { severity: "ok", subject, message: "the API server, as the list says" };
  const { hostNetDir, netDir } = places;
  const seen = path.startsWith(`${hostNetDir}/`) ? join(netDir, path.slice(hostNetDir.length)) : path;
  if (isThere(seen)) return { severity: "ok", subject, message: `the API server, by ${path}` };
  return {
    severity: "missing",
    subject,
    message: `the list needs a Kubernetes API server, and ${path} is not there: put a kubeconfig of the plugins there, or, without a cluster, install with CNI_NETWORK_CONFIG_FILE=${LOCAL}`,
  };
}
