/**
 * An agent that is killed at any moment of an ADD or a DEL, and started again (A-A07, A-A08): the repeated call makes the attachment
 * complete, or it is gone; nobody ever has two addresses, and no address is free while a link carries it. On an API server:
 * test/cluster/agent/killed-agent.test.ts.
 */
import { Agent } from "../../support/agent.ts";
import { recordsOf } from "../../support/agent-calls.ts";
import {
  call,
  expectNoLeaks,
  HOST_SCOPE,
  type KillMode,
  type KillStage,
  pointOfAdd,
  pointOfDel,
  pointOfRepeatedAdd,
  sweep,
} from "../../support/agent-kills.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { Node } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

jest.setTimeout(600_000);

/**
 * The calls that change something outside the process: netlink messages, the datastore, records, files below /proc/sys, namespaces. An ADD
 * makes some 20, 15, 25, 6 and 8 of them; every so many of them is one point.
 */
const CALLS: readonly (readonly [calls: string, stride: number])[] = [
  ["sendto,sendmsg", 5],
  ["pwrite64", 4],
  ["write", 6],
  ["rename,renameat,renameat2,mkdir,mkdirat,unlink,unlinkat,link,linkat", 2],
  ["setns", 3],
];

const BLOCKS: KillMode<Node> = {
  name: "blocks",
  args: [],
  ipam: dualIpam("46"),
  async taken(node) {
    const { allocated, handles } = await readStore(node);
    return { allocated: allocated.length, handles: handles.length };
  },
  whole: { allocated: 2, handles: 1 },
  sparseness: 1,
};

async function withStage<T>(mode: KillMode<Node>, work: (stage: KillStage) => Promise<T>): Promise<T> {
  await using node = await Node.create();
  await using agent = await Agent.start(node, { args: mode.args });
  const conf = localConf(node, { cniVersion: "1.1.0", ipam: mode.ipam, ...agent.netconf });
  const pod = await node.addPod();
  const inventory = async () => {
    const { endpoints } = await readStore(node);
    const { links } = await node.leftovers();
    const inPod = (await node.podIp(pod, "-j", "link", "show")).length - 1;
    const taken = await mode.taken(node, agent);
    return { links: links.length, inPod, endpoints: endpoints.length, records: recordsOf(agent).length, ...taken };
  };
  const complete = { links: 1, inPod: 1, endpoints: 1, records: 1, ...mode.whole };
  const stage = { agent, pod, conf, inventory, complete };
  // The agent has its own addresses, and everything that is made once for a node.
  for (const verb of ["add", "del"]) expect(await call(stage, verb)).toBe("");
  return await work(stage);
}

describe.each<KillMode<Node>>([BLOCKS, HOST_SCOPE])("an agent with $name, killed and started again", (mode) => {
  it.each([
    ["A-A07: ADD leaves one complete attachment or nothing", pointOfAdd],
    ["A-A08: DEL leaves one complete attachment or nothing", pointOfDel],
    ["G17: a repeated ADD leaves the attachment that runs", pointOfRepeatedAdd],
  ] as const)("%s", async (title, point) => {
    const tallies = await Promise.all(
      CALLS.map(([calls, stride]) => withStage(mode, (stage) => sweep(stage, point, calls, stride * mode.sparseness))),
    );
    expectNoLeaks(`${title} with ${mode.name}`, tallies);
  });
});
