/** The plugins' service account may do what C§8.2 says, and nothing more. The server's authorizer is asked, then the server itself. */
import { shared } from "../../support/fixtures.ts";
import { memberAt } from "../../support/kubernetes/json.ts";
import { pathOf } from "../../support/kubernetes/resources.ts";
import { LEGACY, startCluster, V3 } from "../../support/kubernetes/test-cluster.ts";
import { words } from "../../support/words.ts";

const cluster = shared(startCluster);
beforeEach(() => cluster.reset());

const VERBS = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
const CALICO = words`blockaffinities ipamblocks ipamhandles clusterinformations ippools ipreservations ipamconfigurations ipamconfigs`;
const CHANGING = ["get", "list", "create", "update", "delete"];

/** Group and resource → verbs that are allowed, as C§8.2 lists them. */
const ALLOWED = new Map<string, readonly string[]>([
  ["/pods", ["get"]],
  ["/nodes", ["get"]],
  ["/namespaces", ["get"]],
  ["/pods/status", ["patch"]],
  ["kubevirt.io/virtualmachineinstances", ["get"]],
  ["kubevirt.io/virtualmachines", ["get"]],
  ...["crd.projectcalico.org", "projectcalico.org"].flatMap((group) =>
    CALICO.map((plural): [string, readonly string[]] => [`${group}/${plural}`, CHANGING]),
  ),
]);

/** What a plugin has no business with. */
const FORBIDDEN = words`
  /secrets /configmaps /serviceaccounts /serviceaccounts/token /nodes/status /pods/exec /pods/log /pods/eviction
  /namespaces/finalize projectcalico.org/ippools/status crd.projectcalico.org/felixconfigurations
  projectcalico.org/networkpolicies apps/deployments rbac.authorization.k8s.io/clusterroles
  apiextensions.k8s.io/customresourcedefinitions
`;

async function allowedVerbs(resource: string): Promise<readonly string[]> {
  const [group = "", plural = "", subresource = ""] = resource.split("/");
  const answers = await Promise.all(
    VERBS.map(async (verb) => {
      const { body } = await cluster.api("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SubjectAccessReview",
        spec: {
          user: "system:serviceaccount:kube-system:calico-cni-plugin",
          groups: ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
          resourceAttributes: { group, resource: plural, subresource, verb, namespace: "default", name: "x" },
        },
      });
      return memberAt(body, "status", "allowed") === true ? verb : undefined;
    }),
  );
  return answers.filter((verb) => verb !== undefined);
}

describe("the service account of the plugins", () => {
  it("has exactly these rights", async () => {
    const found = new Map<string, readonly string[]>();
    for (const resource of [...ALLOWED.keys(), ...FORBIDDEN]) found.set(resource, await allowedVerbs(resource));
    expect(found).toEqual(new Map([...ALLOWED, ...FORBIDDEN.map((resource): [string, readonly string[]] => [resource, []])]));
  });

  it("reads pods, announces addresses on them, and changes nothing else of them", async () => {
    const token = await cluster.tokenFor("cni");
    const { metadata } = await cluster.createPod("web");
    const pod = pathOf("v1", "pods", "web", "default");
    const patch = { metadata: { annotations: { "cni.projectcalico.org/podIP": "10.60.0.1/32" } } };
    expect((await cluster.apiAs(token, "GET", pod)).status).toBe(200);
    expect((await cluster.apiAs(token, "PATCH", `${pod}/status`, patch)).status).toBe(200);
    expect((await cluster.apiAs(token, "PATCH", pod, patch)).status).toBe(403);
    expect((await cluster.apiAs(token, "DELETE", pod)).status).toBe(403);
    expect((await cluster.apiAs(token, "GET", pathOf("v1", "pods", undefined, "default"))).status).toBe(403);
    expect(await cluster.get("v1", "pods", "web")).toMatchObject({ metadata: { uid: metadata.uid, ...patch.metadata } });
  });

  it("creates and deletes blocks in both groups, and watches nothing", async () => {
    const token = await cluster.tokenFor("cni");
    const spec = { handleID: "h", block: {} };
    for (const apiVersion of [LEGACY, V3]) {
      const handles = pathOf(apiVersion, "ipamhandles");
      const object = { apiVersion, kind: "IPAMHandle", metadata: { name: "h" }, spec };
      expect((await cluster.apiAs(token, "POST", handles, object)).status).toBe(201);
      expect((await cluster.apiAs(token, "DELETE", `${handles}/h`)).status).toBe(200);
      expect((await cluster.apiAs(token, "GET", `${handles}?watch=true&timeoutSeconds=1`)).status).toBe(403);
    }
  });

  it("is what the kubeconfig of the tests speaks for", async () => {
    const review = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
    for (const [identity, name] of [
      ["cni", "calico-cni-plugin"],
      ["admin", "test-admin"],
      ["stranger", "test-stranger"],
    ] as const) {
      const answer = await cluster.apiAs(
        await cluster.tokenFor(identity),
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        review,
      );
      expect(memberAt(answer.body, "status", "userInfo", "username")).toBe(`system:serviceaccount:kube-system:${name}`);
    }
    const asStranger = await cluster.apiAs(await cluster.tokenFor("stranger"), "GET", pathOf(LEGACY, "ippools"));
    expect(asStranger.status).toBe(403);
  });
});
