/** What the executable asks of a real API server, by the server's own audit log: the budget of I§6's rows, with nothing beside it. */
import { shared } from "../../support/fixtures.ts";
import { ipamConfigurationOf } from "../../support/kubernetes/resources.ts";
import { LEGACY, V3 } from "../../support/kubernetes/test-cluster.ts";
import { SOURCE, TARGET, VirtualMachine } from "./virtual-machine.ts";
import { World } from "./world.ts";

const WARM = ["list ippools", "list blockaffinities", "list ipreservations", "get ipamblocks", "create ipamhandles", "update ipamblocks"];
const DUAL = { assign_ipv6: "true" };

const world = shared(World.create);

describe.each([LEGACY, V3] as const)("calico-ipam on group %s", (group) => {
  const configuration = ipamConfigurationOf(group).plural;
  beforeEach(async () => {
    await world.reset(group);
    expect(await world.add({ container: "earlier", ipam: DUAL })).toMatchObject({ exit: 0 });
  });

  it("asks 6 times for an address of a block that the node has (Calico: 11)", async () => {
    expect(await world.requestsOf(() => world.add())).toEqual(WARM);
  });

  it("asks 10 times for an address of each family, from pools that are named (Calico: 23)", async () => {
    const ipam = { ...DUAL, ipv4_pools: ["p4"], ipv6_pools: ["p6"] };
    expect(await world.requestsOf(() => world.add({ ipam }))).toEqual([
      ...WARM,
      "list blockaffinities",
      "get ipamblocks",
      "update ipamhandles",
      "update ipamblocks",
    ]);
  });

  it("asks 17 times for the first address of a node: pools and reservations again, the Node, and blocks of another size (F1, R2; Calico: 16)", async () => {
    await world.reset(group);
    expect(await world.requestsOf(() => world.add())).toEqual([
      "list ippools",
      "list blockaffinities",
      "list ipreservations",
      "list blockaffinities",
      `get ${configuration}`,
      "get ipamblocks",
      "list ippools",
      "list blockaffinities",
      "get nodes",
      "create blockaffinities",
      "list blockaffinities",
      "list ipamblocks",
      "create ipamblocks",
      "update blockaffinities",
      "list ipreservations",
      ...WARM.slice(4),
    ]);
  });

  it("asks 4 times for the address that is asked for (Calico: 6), and once more for labels on the first one", async () => {
    const withIp = ["list ippools", "get ipamblocks", "create ipamhandles", "update ipamblocks"];
    const [earlier] = await world.heldBy("net1.earlier");
    const near = String(earlier?.address).replace(/\d+$/, (digits) => String(Number(digits) + 1));
    const next = near.replace(/\d+$/, (digits) => String(Number(digits) + 1));
    expect(await world.requestsOf(() => world.add({ args: `IP=${near}` }))).toEqual(["list blockaffinities", ...withIp]);
    expect(await world.requestsOf(() => world.add({ args: `IP=${next}`, container: "cid2" }))).toEqual(withIp);
  });

  it("asks 6 times on DEL (Calico: 11), and twice when nothing is left", async () => {
    await world.add();
    expect(await world.requestsOf(() => world.del())).toEqual([
      "get ipamhandles",
      "get ipamblocks",
      `get ${configuration}`,
      "update ipamblocks",
      "delete ipamhandles",
      "get ipamhandles",
    ]);
    expect(await world.requestsOf(() => world.del())).toEqual(["get ipamhandles", "get ipamhandles"]);
  });

  it("asks 9 times when a pod takes a machine's two addresses over (Calico: 16), and 11 times when it leaves (Calico: 25)", async () => {
    const machine = await VirtualMachine.create(world);
    await machine.putPod(SOURCE);
    await machine.add(SOURCE);
    await machine.putTarget();
    const who = ["get pods", "get virtualmachineinstances", "get virtualmachines"];
    const mode = `get ${configuration}`;
    const blocks = ["get ipamhandles", "get ipamblocks", "get ipamblocks", "update ipamblocks", "update ipamblocks"];
    expect(await world.requestsOf(() => machine.add(TARGET))).toEqual([...who, mode, ...blocks]);
    expect(await world.requestsOf(() => machine.del(SOURCE))).toEqual(["get ipamhandles", "get ipamhandles", ...who, ...blocks, mode]);
  });
});
