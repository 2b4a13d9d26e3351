/** Rights as manifests grant them, and as the audit log of a real API server shows their use. */

import type { ApiObject } from "./resources.ts";
import type { TestCluster } from "./test-cluster.ts";

/** "get pods", of the API groups that match, of roles and cluster roles. */
export function granted(objects: readonly ApiObject[], groups = /.*/): ReadonlySet<string> {
  const all = objects.flatMap(({ kind, rules: own }) => (/^(Cluster)?Role$/.test(kind) && Array.isArray(own) ? own : []));
  const rules = all.filter(({ apiGroups }) => apiGroups.some((group: string) => groups.test(group)));
  return new Set(
    rules.flatMap(({ resources, verbs }) => resources.flatMap((resource: string) => verbs.map((verb: string) => `${verb} ${resource}`))),
  );
}

/** What an account has asked for, and what it was refused, by the server's audit log. */
export async function usedBy(
  cluster: TestCluster,
  account: string,
  since: number,
): Promise<{ readonly used: ReadonlySet<string>; readonly refused: readonly string[] }> {
  const requests = (await cluster.requests(since)).filter(({ user }) => user === `system:serviceaccount:kube-system:${account}`);
  const refused = requests.filter(({ status }) => status === 403).map(({ verb, uri }) => `${verb} ${uri}`);
  return { used: new Set(requests.flatMap(({ verb, uri }) => resourceOf(uri).map((resource) => `${verb} ${resource}`))), refused };
}

/** Of a path as the API has them: /api/v1/namespaces/NS/pods/NAME/status, /apis/GROUP/VERSION/PLURAL/NAME. */
function resourceOf(uri: string): readonly string[] {
  const [path = ""] = uri.split("?");
  const parts = path.split("/").slice(path.startsWith("/apis/") ? 4 : 3);
  const [plural = "", , sub] = parts[0] === "namespaces" && parts.length > 2 ? parts.slice(2) : parts;
  return plural === "" ? [] : [sub === undefined ? plural : `${plural}/${sub}`];
}
