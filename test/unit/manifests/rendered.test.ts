/** What `kubectl apply` gets: manifests/tortie.yaml is what the kustomizations come to, and the overlays hold together. */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Fields } from "../../../lib/json/decode.ts";
import { applyOperations, mergeMaps, renderFolder } from "../../../scripts/manifests/kustomization.ts";
import { RENDERED, renderOverlay } from "../../../scripts/render-manifests.ts";
import { memberAt } from "../../support/kubernetes/json.ts";

const OVERLAYS = readdirSync(resolve("manifests/overlays"));
const objectsOf = (overlay: string) => renderFolder(resolve("manifests/overlays", overlay));
const find = (objects: readonly Fields[], kind: string, name: string) =>
  objects.find((object) => object.kind === kind && memberAt(object, "metadata", "name") === name);

describe("manifests/tortie.yaml", () => {
  it("is what scripts/render-manifests makes of the kustomizations", () => {
    expect(readFileSync(RENDERED, "utf8")).toBe(renderOverlay("alone"));
  });

  it("holds the same objects as the overlay when it is read again", () => {
    expect(Bun.YAML.parse(readFileSync(RENDERED, "utf8"))).toEqual(objectsOf("alone"));
  });
});

describe("manifests/overlays", () => {
  it.each(OVERLAYS)("%s holds no object of a kind that it defines itself: one apply is enough", (overlay) => {
    const objects = objectsOf(overlay);
    const groups = objects.filter(({ kind }) => kind === "CustomResourceDefinition").map((object) => memberAt(object, "spec", "group"));
    expect(groups).not.toEqual([]);
    expect(objects.filter(({ apiVersion }) => groups.includes(String(apiVersion).split("/")[0]))).toEqual([]);
  });

  it.each(OVERLAYS)("%s gives accounts, programs and conflist to one another", (overlay) => {
    const objects = objectsOf(overlay);
    for (const [kind, name] of [
      ["DaemonSet", "tortie-node"],
      ["Deployment", "tortie-controller"],
    ] as const) {
      const program = find(objects, kind, name);
      const account = memberAt(program, "spec", "template", "spec", "serviceAccountName");
      expect(find(objects, "ServiceAccount", String(account))).toBeDefined();
    }
    expect(memberAt(find(objects, "ConfigMap", "tortie-config"), "data", "tortie.conflist")).toEqual(expect.stringContaining('"tortie"'));
  });

  it("alone makes the routes, beside-calico leaves them and Calico's own objects to Calico", () => {
    expect(JSON.stringify(objectsOf("alone"))).toContain("--node-routes=vxlan");
    const beside = objectsOf("beside-calico");
    expect(JSON.stringify(beside)).not.toContain("--node-routes");
    expect(find(beside, "ServiceAccount", "calico-cni-plugin")).toBeUndefined();
    expect(JSON.stringify(beside.filter(({ kind }) => kind === "CustomResourceDefinition"))).not.toContain('.projectcalico.org"');
  });

  it("S3: say that kube-controllers is absent where Calico is, and leave the question open beside Calico", () => {
    const argumentsOf = (overlay: string) => {
      const controller = find(objectsOf(overlay), "Deployment", "tortie-controller");
      return memberAt(memberAt(memberAt(controller, "spec", "template", "spec"), "containers"), "0", "args");
    };
    const alone = ["--calico-kube-controllers=absent", "--cluster-information", "--ipv4-pool=auto"];
    expect(Object.fromEntries(OVERLAYS.map((overlay) => [overlay, argumentsOf(overlay)]))).toEqual({
      alone,
      "beside-calico": undefined,
      "dual-stack": [...alone, "--ipv6-pool=auto"],
      "host-scope": alone.slice(0, 2),
    });
  });

  it("dual-stack and host-scope differ from the conflist of all in ipam alone", () => {
    const listOf = (overlay: string) => {
      const text = memberAt(find(objectsOf(overlay), "ConfigMap", "tortie-config"), "data", "tortie.conflist");
      const list = JSON.parse(String(text));
      const { ipam, ...main } = list.plugins[0];
      return { ipam, rest: { ...list, plugins: [main, ...list.plugins.slice(1)] } };
    };
    expect(listOf("dual-stack").rest).toEqual(listOf("alone").rest);
    expect(listOf("host-scope").rest).toEqual(listOf("alone").rest);
    expect(listOf("dual-stack").ipam).toEqual({ type: "tortie-ipam", assign_ipv4: "true", assign_ipv6: "true" });
    expect(listOf("host-scope").ipam).toEqual({ type: "tortie-host-scope" });
  });

  it("the conflist of all is manifests/conflist/10-tortie.conflist, with the node's name and the agent that each node has", () => {
    const text = String(memberAt(find(objectsOf("alone"), "ConfigMap", "tortie-config"), "data", "tortie.conflist"));
    const list = JSON.parse(text.replace("__KUBECONFIG_FILEPATH__", "/etc/cni/net.d/calico-kubeconfig"));
    const [{ nodename, nodename_file_optional, agent, ...main }, ...others] = list.plugins;
    expect(agent).toBe("require");
    expect(nodename).toBe("__KUBERNETES_NODE_NAME__");
    // Only calico-node writes that file.
    expect(nodename_file_optional).toBe(true);
    const file = JSON.parse(readFileSync(join("manifests/conflist", "10-tortie.conflist"), "utf8"));
    expect({ ...list, plugins: [main, ...others] }).toEqual(file);
  });
});

/** Every container of a pod template, with what its pod says for all. */
function containersOf(object: Fields): readonly { readonly name: string; readonly container: unknown; readonly profile: unknown }[] {
  const spec = memberAt(object, "spec", "template", "spec");
  return ["initContainers", "containers"].flatMap((list) => {
    const containers = memberAt(spec, list);
    return (Array.isArray(containers) ? containers : []).map((container) => ({
      name: `${String(memberAt(object, "metadata", "name"))}/${String(memberAt(container, "name"))}`,
      container,
      profile:
        memberAt(container, "securityContext", "seccompProfile", "type") ?? memberAt(spec, "securityContext", "seccompProfile", "type"),
    }));
  });
}

describe("the programs", () => {
  const programs = [...objectsOf("alone"), ...renderFolder(resolve("manifests/uninstall"))].flatMap(containersOf);

  it("Hardening 2: have the runtime's seccomp profile, all but the agent, which is privileged", () => {
    expect(programs.length).toBeGreaterThan(4);
    expect(programs.filter(({ profile }) => profile !== "RuntimeDefault").map(({ name }) => name)).toEqual(["tortie-node/tortie-node"]);
  });

  it("S7: are probed over the socket where there is one, and declare the port that they have on the host", () => {
    const agent = programs.find(({ name }) => name === "tortie-node/tortie-node")?.container;
    expect(memberAt(agent, "livenessProbe", "exec", "command")).toEqual(["tortiectl", "node", "health", "--live"]);
    expect(memberAt(agent, "readinessProbe", "exec", "command")).toEqual(["tortiectl", "node", "health"]);
    const ports = programs.flatMap(({ container }) => memberAt(container, "ports") ?? []);
    expect(ports).toEqual([9879, 9880].map((port) => expect.objectContaining({ containerPort: port, hostPort: port })));
  });
});

describe("a patch", () => {
  it("merges maps, and refuses a list, which Kustomize might merge by key", () => {
    expect(mergeMaps({ a: { b: 1, c: 2 } }, { a: { c: 3 } })).toEqual({ a: { b: 1, c: 3 } });
    expect(() => mergeMaps({ a: [1] }, { a: [2] })).toThrow(/"a" is a list/);
  });

  it("adds, replaces and removes by path, and refuses a path that is not there", () => {
    const object = { list: [{ name: "a/b" }], "x/y": 1 };
    expect(applyOperations(object, [{ op: "add", path: "/list/-", value: 2 }])).toEqual({ list: [{ name: "a/b" }, 2], "x/y": 1 });
    expect(applyOperations(object, [{ op: "replace", path: "/list/0/name", value: "c" }])).toEqual({ list: [{ name: "c" }], "x/y": 1 });
    expect(applyOperations(object, [{ op: "replace", path: "/x~1y", value: 2 }])).toEqual({ list: [{ name: "a/b" }], "x/y": 2 });
    expect(() => applyOperations(object, [{ op: "replace", path: "/none", value: 1 }])).toThrow(/none/);
    expect(() => applyOperations(object, [{ op: "add", path: "/list/7", value: 1 }])).toThrow(/7/);
    expect(applyOperations(object, [{ op: "remove", path: "/list/0" }])).toEqual({ list: [], "x/y": 1 });
    expect(applyOperations(object, [{ op: "remove", path: "/list" }])).toEqual({ "x/y": 1 });
    expect(() => applyOperations(object, [{ op: "remove", path: "/list/1" }])).toThrow(/1/);
    expect(() => applyOperations(object, [{ op: "move", path: "/list" }])).toThrow(/move/);
  });
});
