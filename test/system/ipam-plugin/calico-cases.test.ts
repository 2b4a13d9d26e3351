/**
 * The cases of Calico's suite for its IPAM executable (I§8.1), called as that suite calls it: by absolute path, with nothing but CNI_* in
 * the environment, five seconds at most, standard output parsed as JSON. Pools and addresses of others are put through the datastore port.
 */
import { Allocator } from "../../../ipam-plugin/allocator/allocator.ts";
import { systemClock } from "../../../ipam-plugin/node.ts";
import { contains, parseAddress, parsePrefix } from "../../../lib/addresses/address.ts";
import { openLocalDatastore } from "../../../lib/datastore/local/local-datastore.ts";
import type { IPPool } from "../../../lib/datastore/resources.ts";
import { type CniRun, Node } from "../../support/node.ts";
import { samplePool } from "../../support/samples.ts";

const POOL4 = "192.168.0.0/16";
const POOL6 = "fd80:24e2:f998:72d6::/64";
const SUITE_LIMIT_MS = 5000;

/** What the suite parses. */
interface Answer {
  readonly exit: number | null;
  readonly addresses: readonly string[];
  readonly routes: readonly string[];
  readonly msg: string;
}

class Suite implements AsyncDisposable {
  readonly node: Node;

  private constructor(node: Node) {
    this.node = node;
  }

  /** A node with the suite's two pools, or those given. */
  static async create(pools: readonly IPPool[] = [samplePool("p4", POOL4), samplePool("p6", POOL6)]): Promise<Suite> {
    const suite = new Suite(await Node.create());
    await suite.store(async (datastore) => {
      for (const pool of pools) await datastore.pools.create(pool.name, pool);
    });
    return suite;
  }

  async store<T>(work: (datastore: ReturnType<typeof openLocalDatastore>) => Promise<T>): Promise<T> {
    await using datastore = openLocalDatastore(this.node.datastorePath);
    return await work(datastore);
  }

  async disable(name: string): Promise<void> {
    await this.store(async ({ pools }) => {
      const pool = await pools.get(name);
      if (pool === undefined) throw new Error(`no pool ${name}`);
      await pools.update(name, { ...pool.value, disabled: true }, pool.revision);
    });
  }

  async addPool(pool: IPPool): Promise<void> {
    await this.store(async ({ pools }) => {
      await pools.create(pool.name, pool);
    });
  }

  async add(ipam: object = {}, args = "", container = "cid1"): Promise<Answer> {
    return answerOf(await this.#call("ADD", ipam, args, container));
  }

  async del(ipam: object = {}, args = "", container = "cid1"): Promise<Answer> {
    return answerOf(await this.#call("DEL", ipam, args, container));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]();
  }

  #call(command: string, ipam: object, args: string, containerId: string): Promise<CniRun> {
    const conf = {
      cniVersion: "0.3.1",
      name: "net1",
      type: "calico",
      log_level: "debug",
      nodename: "node-a",
      datastore_type: "local",
      datastore_path: this.node.datastorePath,
      ipam_lock_file: `${this.node.dir}/ipam.lock`,
      ipam: { type: "calico-ipam", ...ipam },
    };
    return this.node.cni(command, {
      plugin: "calico-ipam",
      containerId,
      netns: "b",
      ifname: "c",
      path: "d",
      args,
      conf: `${JSON.stringify(conf)}\n`,
      timeoutMs: SUITE_LIMIT_MS,
    });
  }
}

function answerOf({ exit, json }: CniRun): Answer {
  const answer = (json ?? {}) as {
    readonly ips?: readonly { readonly address: string }[];
    readonly routes?: readonly { readonly dst: string }[];
    readonly msg?: string;
  };
  return {
    exit,
    addresses: (answer.ips ?? []).map(({ address }) => address),
    routes: (answer.routes ?? []).map(({ dst }) => dst),
    msg: answer.msg ?? "",
  };
}

/** There are routes, and every address lies in the destination of one. */
function expectRoutes({ addresses, routes }: Answer): void {
  expect(routes.length).toBeGreaterThan(0);
  for (const text of addresses) {
    const address = parseAddress(text.replace(/\/.*/, ""));
    const isCovered = routes.some((route) => {
      const prefix = parsePrefix(route);
      return address !== undefined && prefix !== undefined && contains(prefix, address);
    });
    expect({ text, isCovered }).toEqual({ text, isCovered: true });
  }
}

const V4 = { assign_ipv4: "true" };
const V6 = { assign_ipv4: "false", assign_ipv6: "true" };
const BOTH = { assign_ipv4: "true", assign_ipv6: "true" };
const IN_POOL4 = expect.stringMatching(/^192\.168\.\d+\.\d+\/26$/);
const IN_POOL6 = expect.stringMatching(/^fd80:24e2:f998:72d6:.*\/122$/);

describe("calico-ipam, as Calico's suite calls it", () => {
  it.each<[string, object, readonly unknown[]]>([
    ["I1: gives an IPv4 address in a /26 without any configuration", {}, [IN_POOL4]],
    ["I2: gives an IPv4 address in a /26 when it is asked for IPv4", V4, [IN_POOL4]],
    ["I3: gives an IPv6 address in a /122 when it is asked for IPv6 only", V6, [IN_POOL6]],
    ["I4: gives one of each when it is asked for both", BOTH, [IN_POOL4, IN_POOL6]],
  ])("%s", async (_title, ipam, addresses) => {
    await using suite = await Suite.create();
    const answer = await suite.add(ipam);
    expect(answer).toMatchObject({ exit: 0, addresses });
    expectRoutes(answer);
    expect(await suite.del(ipam)).toMatchObject({ exit: 0 });
  });

  it.each([
    ["I5: gives no address of either family when there is no IPv4 pool", [samplePool("p6", POOL6)]],
    ["I6: gives no address of either family when there is no IPv6 pool", [samplePool("p4", POOL4)]],
  ])("%s", async (_title, pools) => {
    await using suite = await Suite.create(pools);
    for (let time = 0; time < 2; time++) {
      const answer = await suite.add(BOTH);
      expect(answer).toMatchObject({ exit: 1, addresses: [] });
      expect(answer.msg).not.toBe("");
    }
    expect(await suite.del(BOTH)).toMatchObject({ exit: 0 });
  });

  it("I7: takes the one pool that is listed", async () => {
    await using suite = await Suite.create();
    expect(await suite.add({ ipv4_pools: [POOL4] })).toMatchObject({ exit: 0, addresses: [expect.stringMatching(/^192\.168\./)] });
  });

  it("I8: takes one of two pools that are listed", async () => {
    await using suite = await Suite.create();
    await suite.addPool(samplePool("other", "192.169.1.0/24"));
    const { addresses } = await suite.add({ ipv4_pools: [POOL4, "192.169.1.0/24"] });
    expect(addresses).toEqual([expect.stringMatching(/^192\.16[89]\./)]);
  });

  it("I9: takes another pool once the first is disabled, for the same container too", async () => {
    await using suite = await Suite.create();
    expect((await suite.add()).addresses).toEqual([expect.stringMatching(/^192\.168\./)]);
    await suite.disable("p4");
    await suite.addPool(samplePool("other", "192.169.1.0/24"));
    expect((await suite.add()).addresses).toEqual([expect.stringMatching(/^192\.169\.1\./)]);
  });

  it.each([
    ["I10: refuses a list with an unknown pool at its end", [POOL4, "192.169.1.0/24"]],
    ["I11: refuses a list with an unknown pool at its beginning", ["192.169.1.0/24", POOL4]],
  ])("%s", async (_title, pools) => {
    await using suite = await Suite.create();
    const { exit, msg } = await suite.add({ ipv4_pools: pools });
    expect(exit).toBe(1);
    expect(msg).toContain("192.169.1.0/24) does not exist");
  });

  it("I12: gives the very address that is asked for, as /32", async () => {
    await using suite = await Suite.create();
    expect(await suite.add({}, "IP=192.168.123.123")).toMatchObject({ exit: 0, addresses: ["192.168.123.123/32"] });
  });

  it("I13: gives the same address again after its DEL", async () => {
    await using suite = await Suite.create();
    for (let time = 0; time < 2; time++) {
      expect((await suite.add({}, "IP=192.168.123.123")).addresses).toEqual(["192.168.123.123/32"]);
      expect(await suite.del({}, "IP=192.168.123.123")).toMatchObject({ exit: 0 });
    }
  });

  it("I14: refuses an address that is taken, by the same container too", async () => {
    await using suite = await Suite.create();
    expect(await suite.add({}, "IP=192.168.123.123")).toMatchObject({ exit: 0 });
    expect(await suite.add({}, "IP=192.168.123.123")).toMatchObject({ exit: 1, addresses: [] });
  });

  it("I15: refuses an address of a pool that is not for workloads", async () => {
    await using suite = await Suite.create();
    await suite.addPool(samplePool("tunnels", "10.123.0.0/16", { allowedUses: ["Tunnel"] }));
    expect(await suite.add({}, "IP=10.123.0.5")).toMatchObject({ exit: 1, addresses: [] });
  });

  it("I16: has nothing against the DEL of a container that was never added", async () => {
    await using suite = await Suite.create();
    expect(await suite.del({}, "IP=192.168.123.123")).toMatchObject({ exit: 0 });
  });

  it("I17: releases what stands under the old handle and under the new one", async () => {
    await using suite = await Suite.create();
    for (const handle of ["cid1", "net1.cid1"]) {
      const look = () => suite.store((datastore) => new Allocator({ datastore, clock: systemClock }).addressesByHandle(handle));
      await suite.store(async (datastore) => {
        const address = parseAddress("192.168.123.123");
        if (address === undefined) throw new Error("no address");
        const allocator = new Allocator({ datastore, clock: systemClock });
        await allocator.assignIp({ address, handle, attributes: {}, owner: { type: "host", name: "node-a" } });
      });
      expect((await look())?.length).toBe(1);
      expect(await suite.del()).toMatchObject({ exit: 0, addresses: [], msg: "" });
      expect(await look()).toBeUndefined();
    }
  });
});
