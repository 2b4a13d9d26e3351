/** The plugins' rights are those of C§8.2, no more and no less; the cluster suite asks a real server the same. */
import { resolve } from "node:path";
import { renderFolder } from "../../../scripts/manifests/kustomization.ts";
import {
  agentAccess,
  apiObjects,
  controllerAccess,
  newClusterAccess,
  pluginAccess,
  readManifest,
} from "../../support/kubernetes/manifests.ts";
import type { ApiObject } from "../../support/kubernetes/resources.ts";
import { rightsByAccount } from "../../support/kubernetes/role-use.ts";
import { words } from "../../support/words.ts";

const CALICO = words`blockaffinities ipamblocks ipamhandles clusterinformations ippools ipreservations ipamconfigurations ipamconfigs`;

describe("manifests/plugins/rbac.yaml", () => {
  const [account, role, binding, ...others] = pluginAccess();

  it("makes the service account that Calico's installer asks tokens for", () => {
    expect(account).toEqual({
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name: "calico-cni-plugin", namespace: "kube-system" },
    });
    expect(others).toEqual([]);
  });

  it("gives the role exactly the rules of C§8.2", () => {
    expect(role).toEqual({
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRole",
      metadata: { name: "calico-cni-plugin" },
      rules: [
        { apiGroups: [""], resources: ["pods", "nodes", "namespaces"], verbs: ["get"] },
        { apiGroups: [""], resources: ["pods/status"], verbs: ["patch"] },
        {
          apiGroups: ["projectcalico.org", "crd.projectcalico.org"],
          resources: CALICO,
          verbs: ["get", "list", "create", "update", "delete"],
        },
        { apiGroups: ["kubevirt.io"], resources: ["virtualmachineinstances", "virtualmachines"], verbs: ["get"] },
      ],
    });
  });

  it("binds the role to the account alone", () => {
    expect(binding).toEqual({
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name: "calico-cni-plugin" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "calico-cni-plugin" },
      subjects: [{ kind: "ServiceAccount", name: "calico-cni-plugin", namespace: "kube-system" }],
    });
  });
});

describe("manifests/node/rbac.yaml", () => {
  const rulesOf = (objects: readonly ApiObject[]) => {
    const rules = objects.find(({ kind }) => kind === "ClusterRole")?.rules;
    const allowed = new Set<string>();
    for (const { apiGroups, resources, verbs } of Array.isArray(rules) ? rules : []) {
      for (const group of apiGroups)
        for (const resource of resources) for (const verb of verbs) allowed.add(`${verb} ${group}/${resource}`);
    }
    return allowed;
  };

  it("S5: gives the agent every right of the plugins, whose work it does, but to change what administrators set", () => {
    const agent = rulesOf(agentAccess());
    const onlyRead = ["clusterinformations", "ippools", "ipreservations", "ipamconfigurations", "ipamconfigs"];
    const missing = [...rulesOf(pluginAccess())].filter((right) => !agent.has(right));
    expect(missing.sort()).toEqual(
      ["create", "update", "delete"]
        .flatMap((verb) =>
          ["projectcalico.org", "crd.projectcalico.org"].flatMap((group) => onlyRead.map((kind) => `${verb} ${group}/${kind}`)),
        )
        .sort(),
    );
  });

  it("S5: gives the overlay host-scope no right to blocks, affinities and handles", () => {
    const objects = apiObjects(renderFolder(resolve("manifests/overlays/host-scope")));
    for (const name of ["tortie-node", "calico-cni-plugin"]) {
      const rights = [...rulesOf(objects.filter(({ metadata }) => metadata.name === name))];
      expect(rights.filter((right) => /ipamblocks|blockaffinities|ipamhandles/.test(right))).toEqual([]);
      expect(rights).toContain("patch /pods/status");
      expect(rights).toContain("get crd.projectcalico.org/clusterinformations");
    }
  });

  it("adds watches, the node's annotations and condition, and the agent's own objects and events, and nothing else", () => {
    const plugins = rulesOf(pluginAccess());
    const added = [...rulesOf(agentAccess())].filter((right) => !plugins.has(right) && !/^(list|watch) /.test(right));
    expect(added.sort()).toEqual([
      // At a pod whose ADD fails or whose packets are dropped, at a policy that is invalid.
      "create /events",
      "create tortie.dev/tortieendpoints",
      "delete tortie.dev/tortieendpoints",
      "get tortie.dev/tortieendpoints",
      "patch /events",
      "patch /nodes/status",
      "patch tortie.dev/tortieendpoints",
      "patch tortie.dev/tortieendpoints/status",
    ]);
  });

  it("binds the role to the account alone", () => {
    const [account, role, binding, ...others] = agentAccess();
    expect(others).toEqual([]);
    expect(account).toMatchObject({ kind: "ServiceAccount", metadata: { name: "tortie-node", namespace: "kube-system" } });
    expect(role?.metadata.name).toBe("tortie-node");
    expect(binding).toMatchObject({
      roleRef: { kind: "ClusterRole", name: "tortie-node" },
      subjects: [{ kind: "ServiceAccount", name: "tortie-node", namespace: "kube-system" }],
    });
  });
});

describe("manifests/controller/rbac.yaml", () => {
  it("lets the controller create nothing but its lease and identities, and read no secret", () => {
    const rules = controllerAccess().flatMap(({ rules }) => (Array.isArray(rules) ? rules : []));
    const creating = rules.filter(({ verbs }) => verbs.includes("create"));
    expect(creating).toEqual([
      { apiGroups: ["tortie.dev"], resources: ["tortieidentities"], verbs: ["get", "list", "watch", "create", "patch", "delete"] },
      { apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["create"] },
    ]);
    expect(JSON.stringify(rules)).not.toMatch(/"\*"|secrets|escalate|impersonate/);
  });

  it("lets it write to its own lease alone", () => {
    const role = controllerAccess().find(({ kind }) => kind === "Role");
    expect(role?.metadata.namespace).toBe("kube-system");
    expect(role?.rules).toContainEqual({
      apiGroups: ["coordination.k8s.io"],
      resources: ["leases"],
      resourceNames: ["tortie-controller"],
      verbs: ["get", "update"],
    });
  });

  it("binds both roles to the account alone", () => {
    const bindings = controllerAccess().filter(({ kind }) => kind.endsWith("Binding"));
    expect(bindings).toHaveLength(2);
    for (const { subjects } of bindings) {
      expect(subjects).toEqual([{ kind: "ServiceAccount", name: "tortie-controller", namespace: "kube-system" }]);
    }
  });
});

describe("manifests/new-cluster and manifests/pools", () => {
  it("let the controller make what a cluster begins with, and read kubeadm's configuration and no other", () => {
    const rules = newClusterAccess().flatMap(({ rules }) => (Array.isArray(rules) ? rules : []));
    const groups = ["projectcalico.org", "crd.projectcalico.org"];
    expect(rules).toEqual([
      { apiGroups: groups, resources: ["clusterinformations"], verbs: ["create"] },
      { apiGroups: groups, resources: ["ippools"], verbs: ["create"] },
      { apiGroups: [""], resources: ["configmaps"], resourceNames: ["kubeadm-config"], verbs: ["get"] },
    ]);
    for (const { subjects } of newClusterAccess().filter(({ kind }) => kind.endsWith("Binding"))) {
      expect(subjects).toEqual([{ kind: "ServiceAccount", name: "tortie-controller", namespace: "kube-system" }]);
    }
  });

  it("are in no overlay whose cluster has Calico", () => {
    const objects = apiObjects(renderFolder(resolve("manifests/overlays/beside-calico")));
    expect(objects.filter(({ metadata }) => /^tortie-(new-cluster|pools)$/.test(metadata.name))).toEqual([]);
  });
});

describe("manifests/own-plugins/rbac.yaml", () => {
  const objects = readManifest("manifests/own-plugins/rbac.yaml");
  const rightsOf = (all: readonly ApiObject[]) => rightsByAccount(all).get(all[0]?.metadata.name ?? "") ?? new Set();

  it("gives the plugins beside Calico nothing that Calico's own have not, and lets them change nothing that administrators set", () => {
    const [own, calicos] = [rightsOf(objects), rightsOf(pluginAccess())];
    expect(own.size).toBeGreaterThan(0);
    expect([...own].filter((right) => !calicos.has(right))).toEqual([]);
    const written = [...own].flatMap((right) => (/^(create|update|delete) /.test(right) ? (right.split("/")[1] ?? []) : []));
    expect(new Set(written)).toEqual(new Set(["blockaffinities", "ipamblocks", "ipamhandles"]));
  });

  it("is in the overlay beside-calico, whose installer asks for tokens of that account alone", () => {
    const overlay = apiObjects(renderFolder(resolve("manifests/overlays/beside-calico")));
    expect(overlay).toEqual(expect.arrayContaining([...objects]));
    const role = overlay.find(({ kind, metadata }) => kind === "Role" && metadata.name === "tortie-install");
    expect(role?.rules).toEqual([
      { apiGroups: [""], resources: ["serviceaccounts/token"], resourceNames: ["tortie-cni-plugin"], verbs: ["create"] },
    ]);
    expect(JSON.stringify(overlay.filter(({ kind }) => kind !== "ValidatingAdmissionPolicy"))).not.toContain("calico-cni-plugin");
  });
});
