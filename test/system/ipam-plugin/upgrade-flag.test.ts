/** `tortie-ipam -upgrade` beside directories of the real host-local (I§7). */
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fresh } from "../../support/fixtures.ts";
import { addToHostLocal, directoryOf, type HostLocalNetwork, hostLocalCall } from "../../support/host-local.ts";
import { BIN_DIR, Node } from "../../support/node.ts";

const node = fresh(Node.create);

function network(...cidrs: string[]): HostLocalNetwork {
  return { dataDir: node.dir, name: "old-net", cidrs };
}

function upgrade(directory: string) {
  return node.run([join(BIN_DIR, "tortie-ipam"), "-upgrade"], { env: { TORTIE_HOST_LOCAL_DIR: directory } });
}

describe("tortie-ipam -upgrade", () => {
  it("fails while host-local holds addresses, with their number and the next step, and touches none", async () => {
    const old = network("10.65.0.0/24", "fd65::/64");
    for (const container of ["c1", "c2"]) addToHostLocal(old, container);
    const directory = directoryOf(old);
    const before = readdirSync(directory);

    const run = await upgrade(directory);

    expect(run).toMatchObject({ exit: 1, stdout: "" });
    expect(run.stderr).toBe(
      `-upgrade: ${directory}: host-local holds 4 addresses (host-local-addresses: drain the node, remove the directory, and start again: docs/how-to/use-host-local.md)\n`,
    );
    expect(readdirSync(directory)).toEqual(before);
  });

  it("succeeds once the last container has given its address back, with host-local's other files still there", async () => {
    const old = network("10.65.0.0/24");
    addToHostLocal(old, "c1");
    expect((await upgrade(directoryOf(old))).stderr).toContain("host-local holds 1 address (");
    const { command, input, env } = hostLocalCall(old, "DEL", "c1");
    expect(spawnSync(command, [], { input, env })).toMatchObject({ status: 0 });
    expect(readdirSync(directoryOf(old)).sort()).toEqual(["last_reserved_ip.0", "lock"]);

    expect(await upgrade(directoryOf(old))).toMatchObject({ exit: 0, stderr: "" });
  });

  it("succeeds once the directory is removed", async () => {
    const old = network("10.65.0.0/24");
    addToHostLocal(old, "c1");
    rmSync(directoryOf(old), { recursive: true });

    expect(await upgrade(directoryOf(old))).toMatchObject({
      exit: 0,
      stdout: `${directoryOf(old)}: no addresses of host-local\n`,
      stderr: "",
    });
  });

  it("looks where Calico's init container has host-local's directory", async () => {
    expect((await upgrade("")).stdout).toBe("/var/lib/cni/networks/k8s-pod-network: no addresses of host-local\n");
  });
});

describe("tortie-ipam -upgrade with a directory that it cannot list", () => {
  it("fails and names it", async () => {
    const loop = join(node.dir, "loop");
    symlinkSync("loop", loop);

    expect(await upgrade(loop)).toMatchObject({ exit: 1, stdout: "", stderr: expect.stringContaining(loop) });
  });
});
