/**
 * The kills of test/fault/agent/killed-agent.test.ts with a real API server: addresses of blocks or of the node's range, pods' annotations
 * as records. Fewer points, since an agent that starts here reads its caches first.
 */
import { recordsOf } from "../../support/agent-calls.ts";
import {
  call,
  expectNoLeaks,
  HOST_SCOPE,
  type KillMode,
  type KillStage,
  pointOfAdd,
  pointOfDel,
  sweep,
  type Tally,
} from "../../support/agent-kills.ts";
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

jest.setTimeout(600_000);

const cluster = shared(startCluster);

/** Netlink messages and requests; files of the agent; records that appear and go; namespaces. */
const CALLS: readonly (readonly [calls: string, stride: number])[] = [
  ["sendto,sendmsg", 3],
  ["write", 5],
  ["rename,renameat,renameat2,mkdir,mkdirat,unlink,unlinkat,link,linkat", 2],
  ["setns", 2],
];

const BLOCKS: KillMode<ApiServerNode> = {
  name: "blocks",
  args: [],
  ipam: { type: "calico-ipam" },
  async taken({ group }) {
    const blocks = await cluster.list(group, "ipamblocks");
    const ordinals = blocks.flatMap(({ spec }) => (spec as { allocations: readonly (number | null)[] }).allocations);
    const handles = (await cluster.list(group, "ipamhandles")).filter(({ spec }) => (spec as { deleted?: boolean }).deleted !== true);
    return { allocated: ordinals.filter((index) => index !== null).length, handles: handles.length };
  },
  whole: { allocated: 1, handles: 1 },
  sparseness: 1,
};

describe.each<KillMode<ApiServerNode>>([BLOCKS, HOST_SCOPE])("an agent on Kubernetes with $name, killed and started again", (mode) => {
  it.each([
    ["A-A07: ADD", pointOfAdd],
    ["A-A08: DEL", pointOfDel],
  ] as const)("%s leaves one complete attachment or nothing", async (title, point) => {
    await using world = await ApiServerNode.create(cluster, { pools: ["10.67.0.0/24"], pods: ["pod"] });
    await using agent = await world.startAgent(mode.args);
    const pod = await world.sandbox();
    const stage: KillStage = {
      agent,
      pod,
      conf: world.conf({ cniVersion: "1.1.0", ipam: mode.ipam, ...agent.netconf }),
      args: `K8S_POD_NAME=pod;K8S_POD_NAMESPACE=${NAMESPACE}`,
      async inventory() {
        const endpoints = ((await world.annotations()).podIPs ?? "") === "" ? 0 : 1;
        const { links } = await world.node.leftovers();
        const inPod = (await world.node.podIp(pod, "-j", "link", "show")).length - 1;
        return { links: links.length, inPod, endpoints, records: recordsOf(agent).length, ...(await mode.taken(world, agent)) };
      },
      complete: { links: 1, inPod: 1, endpoints: 1, records: 1, ...mode.whole },
    };
    for (const verb of ["add", "del"]) expect(await call(stage, verb)).toBe("");

    const tallies: Tally[] = [];
    for (const [calls, stride] of CALLS) tallies.push(await sweep(stage, point, calls, stride * mode.sparseness));

    expectNoLeaks(`${title} on Kubernetes with ${mode.name}`, tallies);
  });
});
