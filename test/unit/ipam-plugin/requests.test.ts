/**
 * What each operation of the IPAM plugin asks of an API server. The rows are those of Calico's table (I§6, its figures with the namespace
 * that it always reads), in its order; the order of the requests is part of what is fixed here: the handle before the block on ADD, and
 * after it on DEL (I§5.2).
 */
import type { Block } from "../../../lib/datastore/resources.ts";
import { giveUpBlocks } from "../../support/blocks.ts";
import { host } from "../../support/cluster.ts";
import { fresh } from "../../support/fixtures.ts";
import { emptyBlock, fullBlock, heldBlock, sampleAffinity } from "../../support/samples.ts";
import { phrases } from "../../support/words.ts";
import { ServerNode } from "./server-node.ts";

const V4 = ["LIST pool", "LIST affinity", "LIST reservation", "GET block", "POST handle", "PUT block"];
const DEL = ["GET handle", "GET block", "GET ipam-configuration", "PUT block", "DELETE handle", "GET handle"];
const DUAL = { assign_ipv6: "true" };

interface Row {
  readonly what: string;
  readonly calico: number;
  readonly setup?: () => Promise<ServerNode>;
  readonly run?: (node: ServerNode) => Promise<unknown>;
  readonly requests: readonly string[];
}

/** A node that has had a pod in each family. */
async function warm(setup?: Parameters<typeof ServerNode.create>[0]): Promise<ServerNode> {
  const node = await ServerNode.create(setup);
  await node.add({ container: "earlier", ipam: DUAL });
  return node;
}

/** Blocks of other nodes on the whole of a pool of four, with or without addresses in them. */
function foreign(fill: (cidr: string, node: string) => Block): Parameters<typeof ServerNode.create>[0] {
  const cidrs = ["10.0.0.0/26", "10.0.0.64/26", "10.0.0.128/26", "10.0.0.192/26"];
  return {
    blocks: cidrs.map((cidr, index) => ({ ...fill(cidr, `other-${index}`), affinity: host(`other-${index}`) })),
    affinities: cidrs.map((cidr, index) => sampleAffinity(`other-${index}`, cidr)),
  };
}

/** One address taken, the others free. */
function roomy(cidr: string, node: string): Block {
  return heldBlock(cidr, fullBlock(cidr, node).attributes.slice(0, 1));
}

function fullNode(): Promise<ServerNode> {
  const cidr = "10.0.0.0/26";
  return ServerNode.create({ blocks: [fullBlock(cidr, "node-a")], affinities: [sampleAffinity("node-a", cidr)] });
}

async function withFullBlock(): Promise<ServerNode> {
  const node = await fullNode();
  await node.add({ container: "earlier" });
  return node;
}

const ROWS: readonly Row[] = [
  { what: "ADD, free space in the first affine block", calico: 11, requests: V4 },
  {
    what: "ADD, a full affine block tried first",
    calico: 13,
    setup: withFullBlock,
    requests: ["LIST pool", "LIST affinity", "LIST reservation", "GET block", "GET block", "POST handle", "PUT block"],
  },
  {
    what: "ADD, pools of both families named",
    calico: 23,
    run: (node) => node.add({ ipam: { ...DUAL, ipv4_pools: ["p0"], ipv6_pools: ["p1"] } }),
    requests: [...V4, "LIST affinity", "GET block", "PUT handle", "PUT block"],
  },
  {
    what: "ADD, pools given by CIDR that do not select this node",
    calico: 12,
    setup: () => warm({ pools: { "10.0.0.0/24": { nodeSelector: "has(zone)" }, "fd00::/112": { blockSize: 122 }, "10.1.0.0/24": {} } }),
    run: async (node) => {
      await node.add({ container: "c0", ipam: { ipv4_pools: ["10.0.0.0/24"] } });
      node.cluster.calls.length = 0;
      await node.add({ ipam: { ipv4_pools: ["10.0.0.0/24"] } });
    },
    requests: V4,
  },
  {
    what: "ADD, second family",
    calico: 21,
    run: (node) => node.add({ ipam: DUAL }),
    requests: [...V4, "LIST affinity", "GET block", "PUT handle", "PUT block"],
  },
  {
    what: "ADD, a pool for certain nodes",
    calico: 11,
    setup: () => warm({ pools: { "10.0.0.0/24": { nodeSelector: "!has(zone)" }, "fd00::/112": { blockSize: 122 } } }),
    requests: ["LIST pool", "GET node", "LIST affinity", "LIST reservation", "GET block", "POST handle", "PUT block"],
  },
  {
    what: "ADD, a pool for certain namespaces",
    calico: 11,
    setup: () =>
      warm({
        pools: { "10.0.0.0/24": { namespaceSelector: "team == 'x'" }, "fd00::/112": { blockSize: 122 } },
        namespaces: { shop: { team: "x" } },
      }),
    requests: ["LIST pool", "GET namespace", "LIST affinity", "LIST reservation", "GET block", "POST handle", "PUT block"],
  },
  {
    what: "ADD, first block of a node",
    calico: 16,
    setup: () => ServerNode.create(),
    requests: phrases`
      LIST pool, LIST affinity, LIST reservation, GET ipam-configuration, GET block, LIST affinity, GET node, POST affinity,
      LIST affinity, LIST block, POST block, PUT affinity, POST handle, PUT block
    `,
  },
  {
    what: "ADD that takes another node's empty block",
    calico: 25,
    setup: () => ServerNode.create(foreign((cidr) => emptyBlock(cidr, 64))),
    requests: phrases`
      LIST pool, LIST affinity, LIST reservation, GET ipam-configuration, GET block, GET block, GET block, LIST block,
      GET affinity, GET block, PUT affinity, DELETE block, DELETE affinity, LIST affinity, GET node, POST affinity, LIST affinity,
      LIST block, POST block,
      PUT affinity, POST handle, PUT block
    `,
  },
  {
    what: "ADD that borrows from the first block it comes to",
    calico: 11,
    setup: () => ServerNode.create(foreign(roomy)),
    requests: phrases`
      LIST pool, LIST affinity, LIST reservation, GET ipam-configuration, GET block, GET block, GET block, LIST block,
      POST handle, PUT block
    `,
  },
  {
    what: "ADD with IP=, block there",
    calico: 6,
    run: (node) => node.add({ args: "IP=10.0.0.133" }),
    requests: ["LIST pool", "GET block", "POST handle", "PUT block"],
  },
  {
    what: "ADD with IP=, block missing",
    calico: 10,
    setup: () => ServerNode.create(),
    run: (node) => node.add({ args: "IP=10.0.0.133" }),
    requests: [
      "LIST pool",
      "GET block",
      "LIST block",
      "POST affinity",
      "LIST affinity",
      "LIST block",
      "POST block",
      "PUT affinity",
      "POST handle",
      "PUT block",
    ],
  },
  {
    what: "DEL",
    calico: 11,
    run: (node) => node.del({ container: "v4" }),
    setup: async () => {
      const node = await warm();
      await node.add({ container: "v4" });
      return node;
    },
    requests: DEL,
  },
  {
    what: "DEL of the last address in a block that is not for this node any more",
    calico: 20,
    setup: async () => {
      const node = await ServerNode.create();
      await node.add();
      await node.cluster.changePool("p0", { nodeSelector: "has(zone)" });
      return node;
    },
    run: (node) => node.del(),
    requests: DEL,
  },
  { what: "DEL, nothing allocated", calico: 2, run: (node) => node.del({ container: "never" }), requests: ["GET handle", "GET handle"] },
  {
    what: "DEL that empties a block without owner",
    calico: 11,
    setup: async () => {
      const node = await ServerNode.create();
      await node.add();
      await giveUpBlocks(node.cluster.allocator, host("node-a"), { mustBeEmpty: false });
      return node;
    },
    run: (node) => node.del(),
    requests: ["GET handle", "GET block", "GET ipam-configuration", "DELETE block", "DELETE handle", "GET handle"],
  },
];

describe("an operation of the IPAM plugin, on an API server", () => {
  it.each(ROWS)("asks no more than is needed: $what (Calico: $calico requests)", async ({ setup = warm, run, requests, calico }) => {
    using node = await setup();
    expect(await node.requestsOf(async () => (run === undefined ? node.add() : run(node)))).toEqual(requests);
    expect(requests.length).toBeLessThanOrEqual(calico);
  });

  it("reads the configuration on ADD when an address of the block is cooling down", async () => {
    using node = await warm({ configuration: { ipCooldownSeconds: 60 } });
    await node.del({ container: "earlier" });
    expect(await node.requestsOf(() => node.add())).toEqual([...V4.slice(0, 4), "GET ipam-configuration", ...V4.slice(4)]);
  });

  it("looks at no block but the node's own on STATUS, whether they have room or not (F3)", async () => {
    using roomyNode = await warm();
    expect(await roomyNode.requestsOf(() => roomyNode.status())).toEqual(["LIST pool", "LIST affinity", "GET block", "LIST reservation"]);
    using full = await fullNode();
    expect(await full.requestsOf(() => full.status())).toEqual(["LIST pool", "LIST affinity", "GET block", "LIST reservation"]);
  });

  it("leaves a block that is not for its node any more to the node's next ADD", async () => {
    using node = await ServerNode.create({ pools: { "10.0.0.0/24": {}, "10.1.0.0/24": {} } });
    await node.add();
    await node.cluster.changePool("p0", { nodeSelector: "has(zone)" });
    await node.del();
    expect(await node.cluster.affinities()).toEqual(["node-a 10.0.0.128/26 confirmed"]);
    await node.add();
    expect(await node.cluster.affinities()).toEqual([expect.stringMatching(/^node-a 10\.1\.0\./)]);
  });

  it("leaves it to its GC as well", async () => {
    using node = await ServerNode.create();
    await node.add({ ipam: DUAL });
    await node.cluster.changePool("p0", { nodeSelector: "has(zone)" });
    await node.cluster.changePool("p1", { nodeSelector: "has(zone)" });
    await node.gc();
    expect([await node.cluster.affinities(), await node.cluster.blocks()]).toEqual([[], []]);
  });
});

describe("an ADD or DEL of a virtual machine's pod, on an API server", () => {
  const MACHINE = ["GET pod", "GET virtual-machine-instance", "GET virtual-machine"];
  const source = { pod: "virt-launcher-a", container: "a", ipam: DUAL };
  const target = { pod: "virt-launcher-b", container: "b", ipam: DUAL };

  const node = fresh(async () => {
    const node = await warm();
    await node.addMachine();
    await node.addPod(source.pod);
    await node.addPod(target.pod, { "kubevirt.io/migrationJobUID": "job-1" });
    return node;
  });

  it("asks 15 times for its first two addresses (Calico: 26)", async () => {
    expect(await node.requestsOf(() => node.add(source))).toEqual([
      ...MACHINE,
      ...phrases`GET ipam-configuration, GET handle`,
      ...V4,
      ...phrases`LIST affinity, GET block, PUT handle, PUT block`,
    ]);
  });

  it("asks 9 times when it takes two addresses over (Calico: 16)", async () => {
    await node.add(source);
    expect(await node.requestsOf(() => node.add(target))).toEqual([
      ...MACHINE,
      ...phrases`GET ipam-configuration, GET handle, GET block, GET block, PUT block, PUT block`,
    ]);
  });

  it("asks 11 times when it leaves them to the machine (Calico: 25 to 28)", async () => {
    await node.add(source);
    expect(await node.requestsOf(() => node.del(source))).toEqual([
      ...phrases`GET handle, GET handle`,
      ...MACHINE,
      ...phrases`GET handle, GET block, GET block, PUT block, PUT block, GET ipam-configuration`,
    ]);
  });

  it("asks 6 times when the machine holds nothing, and not whether machines keep their addresses (Calico: 6)", async () => {
    expect(await node.requestsOf(() => node.del(source))).toEqual(["GET handle", "GET handle", ...MACHINE, "GET handle"]);
  });

  it("asks 17 times when it is the last one of a machine that goes (Calico: 44)", async () => {
    await node.add(source);
    await node.addMachine({ isDeleting: true });
    expect(await node.requestsOf(() => node.del(source))).toEqual([
      ...phrases`GET handle, GET handle`,
      ...MACHINE,
      ...phrases`GET handle, GET block, GET block, PUT block, PUT block`,
      ...phrases`GET handle, GET block, GET block, GET ipam-configuration, PUT block, PUT block, DELETE handle`,
    ]);
  });
});
