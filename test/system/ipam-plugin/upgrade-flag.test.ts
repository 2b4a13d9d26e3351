/** `tortie-ipam -upgrade` by hand, on a node that goes over from ptp and host-local to tortie on the local datastore (I§7). */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fresh } from "../../support/fixtures.ts";
import { addToHostLocal, directoryOf } from "../../support/host-local.ts";
import { BIN_DIR, Node } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

const IPAM = join(BIN_DIR, "tortie-ipam");

function conflist(node: Node): Record<string, unknown> {
  return {
    cniVersion: "1.1.0",
    name: "net1",
    plugins: [
      {
        type: "tortie",
        datastore_type: "local",
        datastore_path: node.datastorePath,
        ipam_lock_file: `${node.dir}/ipam.lock`,
        nodename: "node1",
        ipam: { type: "tortie-ipam", pools: [{ cidr: "10.65.0.0/24" }] },
      },
      { type: "portmap", capabilities: { portMappings: true } },
    ],
  };
}

const node = fresh(Node.create);

describe("tortie-ipam -upgrade", () => {
  it("says which variable it misses, in a cluster and elsewhere", async () => {
    const run = await node.run([IPAM, "-upgrade"], { env: { DATASTORE_TYPE: "kubernetes" } });
    expect(run).toMatchObject({ exit: 1, stdout: "" });
    expect(run.stderr).toContain("KUBERNETES_NODE_NAME is not set");
    expect(run.stderr).toContain("TORTIE_UPGRADE_CONFLIST");
  });

  it("gives running containers their addresses in the local datastore, which their DEL releases", async () => {
    const file = join(node.dir, "10-tortie.conflist");
    writeFileSync(file, JSON.stringify(conflist(node)));
    const network = { dataDir: node.dir, name: "old-net", cidrs: ["10.65.0.0/24"] };
    const [first = ""] = addToHostLocal(network, "c1");
    const [second = ""] = addToHostLocal(network, "c2");

    const env = { TORTIE_UPGRADE_CONFLIST: file, TORTIE_HOST_LOCAL_DIR: directoryOf(network) };
    const run = await node.run([IPAM, "-upgrade"], { env });
    expect(run).toMatchObject({ exit: 0, stderr: "" });
    expect(run.stdout.split("\n").slice(1)).toEqual([`  ${first}`, `  ${second}`, ""]);
    expect(run.stdout).toContain(`2 addresses moved into local datastore ${node.datastorePath}`);
    expect((await readStore(node)).allocated).toEqual([first, second]);
    expect(existsSync(directoryOf(network))).toBe(false);

    const check = await node.run([join(BIN_DIR, "tortiectl"), "ipam", "check", "--datastore", node.datastorePath]);
    expect(check).toMatchObject({ exit: 0 });
    expect(await node.run([IPAM, "-upgrade"], { env })).toMatchObject({ exit: 0, stdout: expect.stringContaining("0 addresses moved") });

    const [plugin] = conflist(node).plugins as readonly object[];
    const conf = { cniVersion: "1.0.0", name: "net1", ...plugin };
    expect(await node.cni("DEL", { plugin: "tortie-ipam", containerId: "c1", netns: "", conf })).toMatchObject({ exit: 0 });
    const { allocated, handles } = await readStore(node);
    expect(allocated).toEqual([second]);
    expect(handles.map(({ id }) => id)).toEqual(["net1.c2"]);
  });

  it.each([
    ["a list that cannot be read", "/nowhere.conflist", {}, "conflist-unreadable"],
    ["another datastore", undefined, { datastore_type: "kubernetes" }, "conflist-invalid"],
    [
      "a pool that does not cover the addresses",
      undefined,
      { ipam: { type: "tortie-ipam", pools: [{ cidr: "10.99.0.0/24" }] } },
      "address-outside-pools",
    ],
  ])("leaves everything as it was for %s", async (_what, path, change, word) => {
    const file = path ?? join(node.dir, "net.conf");
    const plugin = { type: "tortie", name: "net1", cniVersion: "1.0.0", datastore_path: node.datastorePath, ipam: { type: "tortie-ipam" } };
    if (path === undefined) writeFileSync(file, JSON.stringify({ ...plugin, ...change }));
    const network = { dataDir: node.dir, name: "net1", cidrs: ["10.65.0.0/24"] };
    const [address = ""] = addToHostLocal(network, "c1");
    const env = { TORTIE_UPGRADE_CONFLIST: file, TORTIE_HOST_LOCAL_DIR: directoryOf(network) };
    const run = await node.run([IPAM, "-upgrade"], { env });
    expect(run).toMatchObject({ exit: 1, stdout: "", stderr: expect.stringContaining(word) });
    expect(existsSync(join(directoryOf(network), address))).toBe(true);
  });
});
