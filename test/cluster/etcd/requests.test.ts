/** What an operation costs etcd, by its own metrics: reads (Range), and transactions, which are writes or many reads at once (Txn). */
import { startEtcd } from "../../support/etcd/etcd.ts";
import { EtcdNode } from "../../support/etcd/etcd-node.ts";
import { shared } from "../../support/fixtures.ts";
import type { CniRun } from "../../support/node.ts";

const etcd = shared(startEtcd);
const world = shared(() => EtcdNode.create(etcd));

const requestsOf = (operation: () => Promise<CniRun>) =>
  etcd.costsOf(async () => {
    const { exit, stdout } = await operation();
    if (exit !== 0) throw new Error(stdout);
  });

describe("Requests to etcd", () => {
  it("of a node's first ADD, of one with room in its block, of their DELs, CHECK and STATUS", async () => {
    const pod = await world.node.addPod();
    const first = await requestsOf(() => world.call("ADD", pod, { containerId: "c0" }));
    const other = await world.node.addPod();
    const add = await requestsOf(() => world.call("ADD", other, { containerId: "c1" }));
    const check = await requestsOf(() => world.call("CHECK", other, { containerId: "c1" }));
    const del = await requestsOf(() => world.call("DEL", other, { containerId: "c1" }));
    const again = await requestsOf(() => world.call("DEL", other, { containerId: "c1" }));
    const status = await requestsOf(() => world.call("STATUS", undefined, { keys: { cniVersion: "1.1.0" } }));
    expect({ first, add, check, del, again, status }).toEqual({
      first: { Range: 12, Txn: 7 },
      add: { Range: 7, Txn: 3 },
      check: { Range: 4, Txn: 0 },
      del: { Range: 6, Txn: 3 },
      again: { Range: 4, Txn: 0 },
      status: { Range: 5, Txn: 0 },
    });
  });
});
