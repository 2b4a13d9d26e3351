/** `tortiectl ipam` on a real etcd, reached by the words of the command line, by the environment or by a network configuration. */
import { startEtcd } from "../../support/etcd/etcd.ts";
import { EtcdNode } from "../../support/etcd/etcd-node.ts";
import { shared } from "../../support/fixtures.ts";

const etcd = shared(startEtcd);
const world = shared(() => EtcdNode.create(etcd));
beforeAll(async () => {
  for (const containerId of ["c1", "c2", "c3"]) {
    const { exit, stdout } = await world.call("ADD", await world.node.addPod(), { containerId });
    if (exit !== 0) throw new Error(stdout);
  }
});

function tortiectl(...args: readonly string[]) {
  const env = { ETCD_ENDPOINTS: world.endpoints, PATH: process.env.PATH ?? "" };
  return world.node.run([`${world.node.binDir}/tortiectl`, "ipam", ...args], { env });
}

const ON_ETCD = ["--datastore", "etcdv3"];

describe("tortiectl ipam on etcd", () => {
  it("shows the pools and who has an address", async () => {
    const shown = await tortiectl("show", ...ON_ETCD, "--json");
    expect(shown).toMatchObject({ exit: 0, stdout: expect.stringContaining("10.60.0.0/24") });
    const [address = ""] = /10\.60\.0\.\d+/.exec(JSON.stringify(await world.endpoint("c1"))) ?? [];
    const held = await tortiectl("show", ...ON_ETCD, "--ip", address);
    expect(held).toMatchObject({ exit: 0, stdout: expect.stringContaining("net1.c1") });
  });

  it("is led there by a network configuration as well", async () => {
    await world.node.run(["/bin/sh", "-c", `cat > ${world.node.dir}/net.conf`], { stdin: JSON.stringify(world.conf()) });
    const shown = await world.node.run([`${world.node.binDir}/tortiectl`, "ipam", "show", "--conf", `${world.node.dir}/net.conf`], {
      env: {},
    });
    expect(shown).toMatchObject({ exit: 0, stdout: expect.stringContaining("10.60.0.0/24") });
  });

  it("finds nothing wrong with what plugins wrote, names a handle that lost its block, and mends it", async () => {
    const check = ["check", ...ON_ETCD, "--settle", "0", "--lock-file", `${world.node.dir}/ipam.lock`];
    expect(await tortiectl(...check)).toMatchObject({ exit: 0 });
    await etcd.put("/calico/ipam/v2/handle/net1.nobody", '{"block":{"10.60.0.0/26":1},"deleted":false}');
    expect(await tortiectl(...check)).toMatchObject({ exit: 1, stdout: expect.stringContaining("net1.nobody") });
    expect((await tortiectl(...check, "--repair")).stdout).toContain("net1.nobody");
    expect(await world.keys("ipam/v2/handle/net1.nobody")).toEqual([]);
    expect(await tortiectl(...check)).toMatchObject({ exit: 0 });
  });

  it("releases an address, and changes how they are given out under the key that Calico's allocator reads", async () => {
    world.node.excuse("the address is released while its pod runs", "not-granted");
    const release = ["release", ...ON_ETCD, "--handle", "net1.c3", "--lock-file", `${world.node.dir}/ipam.lock`];
    expect(await tortiectl(...release)).toMatchObject({ exit: 0 });
    expect((await world.keys("ipam/v2/handle/")).length).toBe(2);
    expect(await tortiectl("configure", ...ON_ETCD, "--strict-affinity", "--max-blocks-per-host", "3")).toMatchObject({ exit: 0 });
    expect(JSON.parse((await etcd.contents()).get("/calico/ipam/v2/config") ?? "")).toMatchObject({
      strict_affinity: true,
      maxBlocksPerHost: 3,
    });
  });
});
