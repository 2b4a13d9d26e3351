/** The upgrade from host-local (I§7) on directories made by hand: what it asks of a cluster, in which order, and whose an address becomes. */
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openHostLocalDirectory } from "../../../../ipam-plugin/import-host-local/host-local-directory.ts";
import { type UpgradeCluster, type UpgradePorts, upgrade } from "../../../../ipam-plugin/import-host-local/upgrade.ts";
import { upgradeFromHostLocal } from "../../../../ipam-plugin/import-host-local/upgrade-from-host-local.ts";
import { DatastoreError } from "../../../../lib/datastore/errors.ts";
import { Cluster } from "../../../support/cluster.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const WEB = "10.0.0.5";
const WEB_POD = { namespace: "shop", name: "web", addresses: [WEB] };

const parent = fresh(() => new TemporaryDirectory());

beforeEach(() => {
  writeFileSync(join(parent.path, WEB), "web-container\neth0");
  for (const name of ["last_reserved_ip.0", "lock"]) writeFileSync(join(parent.path, name), "");
});

/** A node of a cluster, with what was asked of the cluster in order; its writes may conflict so many times each. */
function nodeOf(blocks: Cluster, { podCidr = "10.0.0.0/24", conflicts = 0, pods = [WEB_POD] } = {}) {
  const deeds: string[] = [];
  const tried = new Map<string, number>();
  const write = async (deed: string): Promise<void> => {
    await Bun.sleep(0);
    const tries = (tried.get(deed) ?? 0) + 1;
    tried.set(deed, tries);
    if (tries <= conflicts) throw new DatastoreError("conflict", "another client wrote first");
    deeds.push(deed);
  };
  const cluster: UpgradeCluster = {
    pods: async () => pods,
    podCidr: async () => podCidr,
    tunnelAddress: async () => undefined,
    setTunnelAddress: (address) => write(`tunnel ${address}`),
    pause: () => write("pause"),
    isPausing: async () => false,
    resume: () => write("resume"),
    removePlugins: async () => void deeds.push("plugins removed"),
  };
  const ports: UpgradePorts = {
    node: "node-a",
    network: "net1",
    allocator: blocks.allocator,
    directory: openHostLocalDirectory(parent.path),
    cluster,
    sleep: async (milliseconds) => void deeds.push(`sleep ${milliseconds}`),
    log: { info: () => {}, error: () => {} },
  };
  return { ports, deeds };
}

describe("An upgrade from host-local", () => {
  it("removes the plugins when the cluster is paused, and lets it go on when every address is moved", async () => {
    const blocks = await Cluster.create();
    const { ports, deeds } = nodeOf(blocks);
    expect(await upgrade(ports)).toEqual({ moved: [WEB], dropped: [], contested: [] });
    expect(deeds).toEqual(["tunnel 10.0.0.1", "pause", "plugins removed", "sleep 5000", "resume"]);
    expect(await blocks.handles()).toEqual({ "ipip-tunnel-addr-node-a": { "10.0.0.0/26": 1 }, "net1.web-container": { "10.0.0.0/26": 1 } });
    expect(existsSync(parent.path)).toBe(false);
  });

  it("repeats each write that conflicts, after a second", async () => {
    const { ports, deeds } = nodeOf(await Cluster.create(), { conflicts: 1 });
    await upgrade(ports);
    const again = "sleep 1000";
    expect(deeds).toEqual([again, "tunnel 10.0.0.1", again, "pause", "plugins removed", "sleep 5000", again, "resume"]);
  });

  it.each([
    ["10.0.0.4/30", ["tunnel 10.0.0.5"]],
    ["10.0.0.4/31", ["tunnel 10.0.0.5"]],
    ["10.0.0.4/32", []],
    ["fd00::/64", []],
  ])("gives the node's tunnel the second address of its range %s, where there is one", async (podCidr, tunnel) => {
    const { ports, deeds } = nodeOf(await Cluster.create(), { podCidr });
    rmSync(join(parent.path, WEB));
    await upgrade(ports);
    expect(deeds.filter((deed) => deed.startsWith("tunnel"))).toEqual(tunnel);
  });

  it("takes an address that its container has already for moved, and one of another's for contested", async () => {
    const blocks = await Cluster.create();
    await blocks.assignIp("node-a", "net1.web-container", WEB);
    expect((await upgrade(nodeOf(blocks).ports)).moved).toEqual([WEB]);

    const others = await Cluster.create();
    await others.assignIp("node-a", "net1.other", WEB);
    rewrite();
    expect(await upgrade(nodeOf(others).ports)).toEqual({ moved: [], dropped: [], contested: [WEB] });
  });

  it("drops what no pod has, and leaves a directory alone that holds something else", async () => {
    const blocks = await Cluster.create();
    expect(await upgrade(nodeOf(blocks, { pods: [] }).ports)).toEqual({ moved: [], dropped: [WEB], contested: [] });

    rewrite();
    writeFileSync(join(parent.path, "notes.txt"), "");
    const { ports, deeds } = nodeOf(blocks);
    await expect(upgrade(ports)).rejects.toMatchObject({ word: "upgrade-directory" });
    expect(deeds).not.toContain("pause");
    expect(readdirSync(parent.path)).toEqual(expect.arrayContaining([WEB, "notes.txt"]));
  });
});

/** The directory as it was, after an upgrade that removed it. */
function rewrite(): void {
  mkdirSync(parent.path);
  writeFileSync(join(parent.path, WEB), "web-container\neth0");
}

describe("The environment of an upgrade from host-local", () => {
  it("without a configuration means a node of a cluster, and says which variable it lacks", async () => {
    await expect(upgradeFromHostLocal({}, () => {})).rejects.toMatchObject({ word: "environment-missing" });
    const named = upgradeFromHostLocal({ KUBERNETES_NODE_NAME: "node-a", KUBECONFIG: "/nonexistent" }, () => {});
    await expect(named).rejects.not.toMatchObject({ word: "environment-missing" });
  });

  it("names the directory that is worked through, and with a configuration the one of its network when it names none", async () => {
    const conflist = join(parent.path, "net.conflist");
    const plugin = { type: "tortie", datastore_type: "local", datastore_path: join(parent.path, "store.db"), nodename: "node-a" };
    const plugins = [{ ...plugin, ipam: { type: "tortie-ipam", pools: [{ cidr: "10.0.0.0/24" }] } }];
    writeFileSync(conflist, JSON.stringify({ cniVersion: "1.0.0", name: "of-this-test-alone", plugins }));
    const env = { TORTIE_UPGRADE_CONFLIST: conflist };
    expect(await upgradeFromHostLocal(env, () => {})).toContain("/var/lib/cni/networks/of-this-test-alone: 0 addresses moved");
    const directory = join(parent.path, "nothing-here");
    expect(await upgradeFromHostLocal({ ...env, TORTIE_HOST_LOCAL_DIR: directory }, () => {})).toContain(`${directory}: 0 addresses moved`);
  });
});
