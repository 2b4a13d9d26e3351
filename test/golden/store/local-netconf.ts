/**
 * A recorded network configuration rewritten for the embedded datastore. The rules, all of them:
 *
 * 1. `datastore_type` "kubernetes" or "etcdv3" becomes "local"; another value stays (it is what the scenario is about).
 * 2. `kubernetes`, `calico_api_group`, `etcd_endpoints` go, when they have the right type: the local store refuses none of them, but it
 *    has no use for them, and their mere presence could choose a store. A wrong type stays (`type-kubernetes`).
 * 3. `policy` {"type": "k8s"} goes, because that value is refused here: it needs an API server. Another value stays.
 *
 * The store's file is the default one, which is private to the sandbox. A text that is no JSON object is changed by the same rules with
 * regular expressions, so that what is wrong with it stays wrong.
 */
import { isRecord, type JsonRecord, printJson, without } from "../compare/json.ts";

export function rewriteForLocal(stdin: JsonRecord | string): string {
  return typeof stdin === "string" ? rewriteText(stdin) : printJson(rewriteObject(stdin));
}

function rewriteObject(netconf: JsonRecord): JsonRecord {
  const dropped = [
    ...(isRecord(netconf.kubernetes) ? ["kubernetes"] : []),
    ...["calico_api_group", "etcd_endpoints"].filter((key) => typeof netconf[key] === "string"),
    ...(isRecord(netconf.policy) && netconf.policy.type === "k8s" ? ["policy"] : []),
  ];
  const type = netconf.datastore_type;
  const isOther = type === "kubernetes" || type === "etcdv3";
  return without({ ...netconf, ...(isOther ? { datastore_type: "local" } : {}) }, ...dropped);
}

function rewriteText(text: string): string {
  return text
    .replace(/"datastore_type": "(?:kubernetes|etcdv3)"/, '"datastore_type": "local"')
    .replace(/, "calico_api_group": "[^"]*"/, "")
    .replace(/, "policy": \{"type": "k8s"\}/, "")
    .replace(/, "kubernetes": \{[^}]*\}/, "");
}
