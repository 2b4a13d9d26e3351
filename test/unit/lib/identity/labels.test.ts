/** Which labels an identity stands for, and the one form in which they are stored. */
import { isRelevant, isTooLong, type LabelledPod, labelSetOf, labelsOfPod, withoutAccount } from "../../../../lib/identity/labels.ts";
import { candidatesOf } from "../../../../lib/identity/numbers.ts";
import { words } from "../../../support/words.ts";

const POD: LabelledPod = { namespace: "shop", labels: { app: "web" }, serviceAccountName: "" };

const textsOf = (pod: Partial<LabelledPod>, namespaceLabels = {}) => labelSetOf(labelsOfPod({ ...POD, ...pod }, namespaceLabels)).labels;

describe("The labels of a pod", () => {
  it("are its own, its namespace's, and those that say where it is and who it is", () => {
    expect(textsOf({ serviceAccountName: "cart" }, { team: "blue", "kubernetes.io/metadata.name": "shop" })).toEqual([
      "k8s:app=web",
      "k8s:namespace=shop",
      "k8s:serviceaccount=cart",
      "k8s-namespace:namespace/kubernetes.io/metadata.name=shop",
      "k8s-namespace:namespace/team=blue",
    ]);
  });

  it.each(["io.kubernetes.pod.namespace", "namespace"])("L5: name the real namespace, whatever a pod's own label %s says", (key) => {
    const texts = textsOf({ labels: { [key]: "kube-system" } });
    expect(texts).toEqual(["k8s:namespace=shop"]);
  });

  it("L5: name the real account, also where the pod has none", () => {
    expect(textsOf({ labels: { serviceaccount: "admin" }, serviceAccountName: "cart" })).toContain("k8s:serviceaccount=cart");
    expect(textsOf({ labels: { serviceaccount: "admin" } })).toEqual(["k8s:namespace=shop"]);
  });

  it("can be had without the account", () => {
    expect(withoutAccount(textsOf({ serviceAccountName: "cart" }))).toEqual(textsOf({}));
  });
});

describe("The default filter", () => {
  it("L2: ignores what a Deployment adds, and no key that only looks like an ignored one", () => {
    const labels = { "pod-template-hash": "5d9", app: "web", "k8sxio/a": "1", "k8s.io/a": "1" };
    expect(textsOf({ labels }, { "k8s.io/b": "2" })).toEqual([
      "k8s:app=web",
      "k8s:k8sxio/a=1",
      "k8s:namespace=shop",
      "k8s-namespace:namespace/k8s.io/b=2",
    ]);
  });

  it.each(words`
    io.kubernetes.container.name kubernetes.io/hostname statefulset.kubernetes.io/pod-name
    apps.kubernetes.io/pod-index batch.kubernetes.io/job-completion-index batch.kubernetes.io/controller-uid
    failure-domain.beta.kubernetes.io/zone k8s.io/x pod-template-generation pod-template-hash controller-revision-hash
    annotation.io/x annotations controller-uid etcd_node
  `)("ignores %s", (key) => {
    expect(isRelevant(key)).toBe(false);
  });

  it.each(words`
    app app.kubernetes.io/name app.kubernetes.io/x.beta.kubernetes.i my-pod-template-hash foo.k8s.io/x kubernetesxio/a
    batch.kubernetes.io/job-name namespace/kubernetes.io/metadata.name
  `)("keeps %s", (key) => {
    expect(isRelevant(key)).toBe(true);
  });

  it("weighs the longest included match against the shortest ignored one", () => {
    // 17 characters of "app.kubernetes.io" against 20 of "xbeta.kubernetes.io" and what is before it.
    expect(isRelevant("app.kubernetes.io/beta.kubernetes.io")).toBe(false);
  });

  it("L3: leaves one identity to the 100 pods of a StatefulSet", () => {
    const keys = Array.from({ length: 100 }, (_, index) => {
      const own = { "statefulset.kubernetes.io/pod-name": `db-${index}`, "apps.kubernetes.io/pod-index": String(index) };
      return labelSetOf(labelsOfPod({ ...POD, labels: { app: "db", "controller-revision-hash": "db-7f", ...own } }, {})).key;
    });
    expect(new Set(keys)).toEqual(new Set(["k8s:app=db;k8s:namespace=shop;"]));
  });
});

describe("The storage form", () => {
  it("L1: keeps labels of two sources with the same key, sorted by source and key", () => {
    const labels = [
      { source: "k8s-namespace", key: "app", value: "2" },
      { source: "k8s", key: "b", value: "" },
      { source: "k8s", key: "app", value: "1" },
    ];
    expect(labelSetOf(labels).key).toBe("k8s:app=1;k8s:b=;k8s-namespace:app=2;");
  });

  it("L7: is the same for the same labels in any order, and sorts as no locale does", () => {
    const keys = ["Zebra", "apple", "a_b", "a.b", "a-b", "A", "10", "9"];
    const entries = keys.map((key): [string, string] => [key, "x"]);
    const forwards = labelSetOf(labelsOfPod({ ...POD, labels: Object.fromEntries(entries) }, {}));
    const backwards = labelSetOf(labelsOfPod({ ...POD, labels: Object.fromEntries(entries.toReversed()) }, {}));
    expect(backwards).toEqual(forwards);
    expect(candidatesOf(backwards.key)).toEqual(candidatesOf(forwards.key));
    expect(forwards.key).toBe("k8s:10=x;k8s:9=x;k8s:A=x;k8s:Zebra=x;k8s:a-b=x;k8s:a.b=x;k8s:a_b=x;k8s:apple=x;k8s:namespace=shop;");
  });

  it("is too long from 16 KiB on", () => {
    const setOf = (length: number) => labelSetOf([{ source: "k8s", key: "a", value: "x".repeat(length) }]);
    const around = "k8s:a=;".length;
    expect([setOf(16_384 - around), setOf(16_385 - around)].map(isTooLong)).toEqual([false, true]);
  });
});
