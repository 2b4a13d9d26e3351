/** The project's manifests as objects. */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { ApiObject, CalicoGroup } from "./resources.ts";

const MANIFESTS = resolve("manifests");

/** CustomResourceDefinitions of one Calico group. */
export function calicoDefinitions(group: CalicoGroup): readonly ApiObject[] {
  const folder = join(MANIFESTS, "crds", group.slice(0, group.indexOf("/")));
  return readdirSync(folder).flatMap((name) => readManifest(join(folder, name)));
}

/** Service account, role and binding of the plugins. */
export function pluginAccess(): readonly ApiObject[] {
  return readManifest(join(MANIFESTS, "plugins/rbac.yaml"));
}

/** Right of the agent's account to a token of the plugins'. */
export function installAccess(): readonly ApiObject[] {
  return readManifest(join(MANIFESTS, "node/install-rbac.yaml"));
}

/** Service account, role and binding of the agent. */
export function agentAccess(): readonly ApiObject[] {
  return readManifest(join(MANIFESTS, "node/rbac.yaml"));
}

/** The policy that ties what accounts of nodes write to their own node, and its binding. */
export function ownNodePolicy(): readonly ApiObject[] {
  return readManifest(join(MANIFESTS, "policy/policy.yaml"));
}

/** Service account, roles and bindings of the controller. */
export function controllerAccess(): readonly ApiObject[] {
  return readManifest(join(MANIFESTS, "controller/rbac.yaml"));
}

/** What the controller may make in a cluster without Calico. */
export function newClusterAccess(): readonly ApiObject[] {
  return ["new-cluster", "pools"].flatMap((folder) => readManifest(join(MANIFESTS, folder, "rbac.yaml")));
}

/** CustomResourceDefinitions of Tortie's own objects. */
export function ownDefinitions(): readonly ApiObject[] {
  return ["tortieendpoints", "tortieidentities"].flatMap((plural) => readManifest(join(MANIFESTS, `crds/tortie.dev/${plural}.yaml`)));
}

export function kubevirtDefinitions(): readonly ApiObject[] {
  return readManifest(resolve("test/support/kubernetes/kubevirt-crds.yaml"));
}

/** The objects of one YAML file. */
export function readManifest(path: string): readonly ApiObject[] {
  const parsed: unknown = Bun.YAML.parse(readFileSync(path, "utf8"));
  return apiObjects(Array.isArray(parsed) ? parsed : [parsed], path);
}

/** @throws Error naming `source` where one of the documents is no Kubernetes object */
export function apiObjects(documents: readonly unknown[], source = "a kustomization"): readonly ApiObject[] {
  return documents.map((document) => {
    if (!isApiObject(document)) throw new Error(`${source} holds something that is no Kubernetes object`);
    return document;
  });
}

function isApiObject(value: unknown): value is ApiObject {
  return typeof value === "object" && value !== null && "apiVersion" in value && "kind" in value && "metadata" in value;
}
