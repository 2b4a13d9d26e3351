/** What stands in a conflist in the place of the template's variables. */
import { renderConflist } from "../../../installer/template.ts";
import { fresh } from "../../support/fixtures.ts";
import { InstallDirectories } from "../../support/install-directories.ts";

const host = fresh(() => new InstallDirectories());

const rendered = (template: object, env: Readonly<Record<string, string>> = {}, tls: readonly string[] = []) =>
  JSON.parse(renderConflist(host.settings({ CNI_NETWORK_CONFIG: JSON.stringify(template), ...env }), new Set(tls)));

describe("A template", () => {
  it("gets the token of the pod, and none where there is no service account", () => {
    expect(rendered({ token: "__SERVICEACCOUNT_TOKEN__" })).toEqual({ token: "" });
    host.addServiceAccount({ token: "secret" });
    expect(rendered({ token: "__SERVICEACCOUNT_TOKEN__" })).toEqual({ token: "secret" });
  });

  it("gets the environment's values, empty ones too, and what stands for those that are not set", () => {
    const template = { level: "__LOG_LEVEL__", node: "__KUBERNETES_NODE_NAME__", store: "__DATASTORE_TYPE__", etcd: "__ETCD_ENDPOINTS__" };
    expect(rendered(template, { LOG_LEVEL: "", KUBERNETES_NODE_NAME: "n1" })).toEqual({
      level: "",
      node: "n1",
      store: "kubernetes",
      etcd: "",
    });
  });

  it("gets the path of the kubeconfig beside the list, unless another one is named", () => {
    expect(rendered({ path: "__KUBECONFIG_FILEPATH__" })).toEqual({ path: `${host.netDir}/calico-kubeconfig` });
    expect(rendered({ path: "__KUBECONFIG_FILEPATH__" }, { KUBECONFIG_FILEPATH: "/k" })).toEqual({ path: "/k" });
  });

  it("gets the paths of the TLS files that are there", () => {
    const template = { ca: "__ETCD_CA_CERT_FILE__", key: "__ETCD_KEY_FILE__" };
    expect(rendered(template, {}, ["etcd-ca"])).toEqual({ ca: `${host.netDir}/calico-tls/etcd-ca`, key: "" });
  });

  it("requires the agent that belongs to the installation, in our entries that do not say otherwise", () => {
    const list = (...plugins: readonly object[]) => ({ name: "net", plugins: [...plugins, { type: "portmap" }] });
    const [main] = host.settings({}).names.plugins;
    const asked = (list: object) => rendered(list, { TORTIE_AGENT: "require" });
    expect(asked(list({ type: main, mtu: 7 }))).toEqual(list({ type: main, agent: "require", mtu: 7 }));
    const decided = list({ type: main, agent: "off" }, { type: "bridge" });
    expect(asked(decided)).toEqual(decided);
    expect(rendered(list({ type: main }))).toEqual(list({ type: main }));
    expect(() => host.settings({ TORTIE_AGENT: "auto" })).toThrow(expect.objectContaining({ word: "install-settings" }));
  });

  it("keeps names between double underscores that stand for nothing", () => {
    expect(rendered({ a: "__MINE__" })).toEqual({ a: "__MINE__" });
  });

  it.each(["[]", "7", "{", '{"a": __KUBERNETES_NODE_NAME__}'])("that comes to no JSON object is refused: %s", (text) => {
    const settings = host.settings({ CNI_NETWORK_CONFIG: text, KUBERNETES_NODE_NAME: "n1" });
    expect(() => renderConflist(settings, new Set())).toThrow(expect.objectContaining({ word: "install-template" }));
  });

  it("that cannot be read is refused by its variable", () => {
    const settings = host.settings({ CNI_NETWORK_CONFIG_FILE: `${host.root}/none` });
    expect(() => renderConflist(settings, new Set())).toThrow("CNI_NETWORK_CONFIG_FILE cannot be read");
  });
});
