/** The network configurations of manifests/conflist: whole, decodable, and for the datastore that they say. */
import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { checkForAdd } from "../../../lib/config/add-checks.ts";
import { chooseDatastore } from "../../../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../../../lib/config/decode.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { parseJson } from "../../../lib/json/parse.ts";
import { isJsonObject, type JsonObject } from "../../../lib/json/value.ts";

const FOLDER = resolve("manifests/conflist");

function read(name: string): { readonly list: JsonObject; readonly types: readonly unknown[]; readonly config: NetworkConfig } {
  const list = parseJson(readFileSync(`${FOLDER}/${name}`));
  if (!isJsonObject(list) || !Array.isArray(list.plugins)) throw new Error(`${name} is no list of plugins`);
  const [first] = list.plugins;
  if (!isJsonObject(first)) throw new Error(`${name} has no plugin`);
  const types = list.plugins.map((plugin) => (isJsonObject(plugin) ? plugin.type : undefined));
  // What a runtime hands to a plugin: its own element, with name and version of the list.
  return { list, types, config: decodeNetworkConfig({ ...first, name: list.name ?? null, cniVersion: list.cniVersion ?? null }) };
}

describe("manifests/conflist", () => {
  it.each(readdirSync(FOLDER))("%s chains the plugins of a pod and passes the checks of ADD", (name) => {
    const { types, config } = read(name);
    expect(types.slice(0, 2)).toEqual(["tortie", "portmap"]);
    expect(() => checkForAdd(config, chooseDatastore(config, {}))).not.toThrow();
  });

  it("10-tortie.conflist has the values of the list that Calico's installer writes (C§9.4)", () => {
    const { list, types, config } = read("10-tortie.conflist");
    expect(list).toMatchObject({ name: "k8s-pod-network", cniVersion: "1.0.0" });
    // Nothing that Calico's installer does not bring: a plugin that is not there fails every pod of the node.
    expect(types).toEqual(["tortie", "portmap"]);
    expect(chooseDatastore(config, {})).toBe("kubernetes");
    expect(config).toMatchObject({
      calicoApiGroup: "crd.projectcalico.org/v1",
      kubernetes: { kubeconfig: "/etc/cni/net.d/calico-kubeconfig" },
      policy: { type: "k8s" },
      ipam: { type: "tortie-ipam" },
      requireMtuFile: false,
      mtu: 0,
    });
  });

  it("10-tortie-local.conflist works without any server", () => {
    const { config } = read("10-tortie-local.conflist");
    expect(chooseDatastore(config, {})).toBe("local");
    expect(config.ipam?.pools.map(({ cidr }) => cidr)).toEqual(["10.244.0.0/16", "fd44:244::/48"]);
  });
});
