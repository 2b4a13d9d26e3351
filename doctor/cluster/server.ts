/** Judges the API server, what is defined in it, and who may do what there. */
import { LEGACY_GROUP } from "../../lib/datastore/calico/codec.ts";
import { flag, objects, section, text } from "../../lib/json/decode.ts";
import { judgeCredentials } from "../api-server.ts";
import { judgeClock } from "../host/system.ts";
import { enumerate } from "../problem.ts";
import { type Finding, failed, skipped, warned, well } from "../report.ts";
import type { ClusterView } from "./view.ts";

export async function apiServer(view: ClusterView): Promise<readonly Finding[]> {
  const { status } = await view.date();
  const { server } = view.connection;
  if (status === 401) {
    const next = "renew the credentials of the kubeconfig";
    return [failed(server, `it does not know ${view.config.identity.description}`, { word: "datastore-unauthorized", next })];
  }
  const version = status === 200 ? text((await view.object("/version")) ?? {}, "gitVersion") : "";
  return [well(server, `it answers${version === "" ? "" : `: Kubernetes ${version}`}`)];
}

export async function clock(view: ClusterView): Promise<readonly Finding[]> {
  return [judgeClock(view.connection.server, (await view.date()).aheadMs)];
}

export function credentials(view: ClusterView): readonly Finding[] {
  return [judgeCredentials(view.config, Date.now())];
}

const COMMON_KINDS = ["blockaffinities", "clusterinformations", "ipamblocks", "ipamhandles", "ippools", "ipreservations"];
const OWN = { group: "tortie.dev/v1alpha1", kinds: ["tortieendpoints", "tortieidentities"] };

/** Looks whether the kinds that Tortie reads and writes are served. */
export async function definitions(view: ClusterView): Promise<readonly Finding[]> {
  const group = await view.group();
  if (group === undefined) {
    const next = "apply manifests/tortie.yaml, or manifests/crds";
    return [
      failed("definitions", "the API server has neither of Calico's groups: no pool can be made", {
        word: "datastore-object-missing",
        next,
      }),
    ];
  }
  const wanted = [...COMMON_KINDS, group === LEGACY_GROUP ? "ipamconfigs" : "ipamconfigurations"];
  const [missing, missingOwn] = [await missingIn(view, group, wanted), await missingIn(view, OWN.group, OWN.kinds)];
  const found: Finding[] = [];
  if (missing.length > 0) {
    const next = `apply manifests/crds/${group.slice(0, group.indexOf("/"))}`;
    found.push(failed(`group ${group}`, `it lacks ${enumerate(missing)}`, { word: "datastore-object-missing", next }));
  } else found.push(well(`group ${group}`, "every kind of addresses is defined"));
  if (missingOwn.length > 0) {
    const message = `it lacks ${enumerate(missingOwn)}: the cluster shows no endpoints or identities`;
    found.push(warned(`group ${OWN.group}`, message, { next: "apply manifests/crds/tortie.dev" }));
  } else found.push(well(`group ${OWN.group}`, "TortieEndpoint and TortieIdentity are defined"));
  return found;
}

async function missingIn(view: ClusterView, group: string, kinds: readonly string[]): Promise<readonly string[]> {
  const served = new Set(objects((await view.object(`/apis/${group}`)) ?? {}, "resources").map((one) => text(one, "name")));
  return kinds.filter((kind) => !served.has(kind));
}

/** Says whether the datastore takes new addresses. */
export async function clusterInformation(view: ClusterView): Promise<readonly Finding[]> {
  const object = "ClusterInformation default";
  const group = await view.group();
  const found = group === undefined ? undefined : await view.object(`/apis/${group}/clusterinformations/default`);
  if (found === undefined) {
    const next = "start the controller, which makes it, or Calico's installation";
    return [failed(object, "there is none: every ADD waits for it", { word: "datastore-object-missing", next })];
  }
  if (flag(section(found, "spec"), "datastoreReady")) return [well(object, "the datastore is ready")];
  const next = "end the upgrade or migration that has paused it; then: set spec.datastoreReady to true";
  return [failed(object, "datastoreReady is not true: no pod is added", { word: "cluster-not-ready", next })];
}

interface Right {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
}

const core = (verb: string, resource: string, subresource?: string): Right => ({
  verb,
  group: "",
  resource,
  ...(subresource !== undefined && { subresource }),
});

interface Account {
  readonly name: string;
  readonly manifest: string;
  /** What it can do nothing without. @param group Calico's */
  readonly rights: (group: string) => readonly Right[];
}

const ACCOUNTS: readonly Account[] = [
  {
    name: "calico-cni-plugin",
    manifest: "manifests/plugins/rbac.yaml",
    rights: (group) => [
      core("get", "pods"),
      core("patch", "pods", "status"),
      { verb: "list", group, resource: "ippools" },
      { verb: "update", group, resource: "ipamblocks" },
      { verb: "create", group, resource: "ipamhandles" },
    ],
  },
  {
    name: "tortie-node",
    manifest: "manifests/node/rbac.yaml",
    rights: (group) => [
      core("watch", "pods"),
      core("patch", "pods", "status"),
      core("patch", "nodes", "status"),
      { verb: "watch", group, resource: "ippools" },
      { verb: "watch", group: "networking.k8s.io", resource: "networkpolicies" },
    ],
  },
  {
    name: "tortie-controller",
    manifest: "manifests/controller/rbac.yaml",
    rights: (group) => [
      core("watch", "nodes"),
      { verb: "update", group, resource: "ipamblocks" },
      { verb: "patch", group, resource: "ippools" },
      { verb: "update", group: "coordination.k8s.io", resource: "leases" },
    ],
  },
];

const REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/** Asks the server itself whether the accounts may do what they cannot work without. Accounts that are not there are passed over. */
export async function rights(view: ClusterView): Promise<readonly Finding[]> {
  const { namespace } = view.options;
  const group = ((await view.group()) ?? LEGACY_GROUP).replace(/\/.*$/, "");
  const found: Finding[] = [];
  for (const account of ACCOUNTS) {
    const object = `service account ${namespace}/${account.name}`;
    if ((await view.object(`/api/v1/namespaces/${namespace}/serviceaccounts/${account.name}`)) === undefined) continue;
    const lacking: string[] = [];
    for (const right of account.rights(group)) if (!(await isAllowed(view, account.name, right))) lacking.push(wordsOf(right));
    const next = `apply ${account.manifest}, or render the manifests again (docs/reference/rights.md lists what each account needs)`;
    found.push(
      lacking.length === 0
        ? well(object, "it may do what it cannot work without")
        : failed(object, `it may not ${enumerate(lacking)}`, { word: "datastore-forbidden", next }),
    );
  }
  return found.length > 0 ? found : [skipped(`namespace ${namespace}`, "no account of Tortie's is there; --namespace names another one")];
}

async function isAllowed(view: ClusterView, account: string, { verb, group, resource, subresource }: Right): Promise<boolean> {
  const { namespace } = view.options;
  const name = resource === "leases" ? { namespace, name: account } : {};
  const review = await view.review(REVIEWS, {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SubjectAccessReview",
    spec: {
      user: `system:serviceaccount:${namespace}:${account}`,
      groups: ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"],
      resourceAttributes: { verb, group, resource, ...(subresource !== undefined && { subresource }), ...name },
    },
  });
  return flag(section(review, "status"), "allowed");
}

function wordsOf({ verb, resource, subresource }: Right): string {
  return `${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`}`;
}
