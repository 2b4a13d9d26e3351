/** The controller's figures: what a reading says of pools, blocks and addresses. */
import { firstPoolsCheck, leaseCheck, queueCheck } from "../../../controller/health.ts";
import type { ControllerMetrics } from "../../../controller/metrics.ts";
import { address } from "../../support/addresses.ts";
import { giveUpBlocks } from "../../support/blocks.ts";
import { ControllerWorld, controllerMetrics } from "../../support/controller-world.ts";
import { fresh } from "../../support/fixtures.ts";

/** Name and labels → value, of those figures that are not about the process. */
async function figuresOf(metrics: ControllerMetrics): Promise<Readonly<Record<string, number>>> {
  const lines = (await metrics.text()).split("\n").filter((line) => line !== "" && !line.startsWith("#") && !line.includes("memory"));
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ")))]));
}

function metricsOf(world: ControllerWorld | undefined, facts: { leads?: boolean } = {}): ControllerMetrics {
  const { leads = true } = facts;
  return controllerMetrics({ view: () => world?.context.view, candidates: () => 3, queueLength: () => 2, leads: () => leads });
}

describe("The figures of a cluster", () => {
  const world = fresh(() => ControllerWorld.withPool());

  it("count a block for its owner, an address for its node, and leave out what cools down", async () => {
    world.addPool("six", "fd60::/120");
    world.api.put("/apis/crd.projectcalico.org/v1/ipamconfigs/default", { spec: { autoAllocateBlocks: true, ipCooldownSeconds: 600 } });
    const first = await world.take("node1", "a");
    for (const pod of ["b", "cold"]) await world.take("node1", pod);
    await world.allocator.releaseByHandle("net1.cold-c");
    const borrowed = first.replace(/\d+$/, (last) => String(Number(last) + 5));
    const attributes = { node: "node2", namespace: "shop", pod: "guest" };
    const owner = { type: "host", name: "node2" } as const;
    await world.allocator.assignIp({ address: address(borrowed), handle: "net1.guest-c", attributes, owner });
    const figures = await figuresOf(metricsOf(world));
    expect(figures).toEqual({
      'ipam_allocations_per_node{node="node1"}': 2,
      'ipam_allocations_per_node{node="node2"}': 1,
      'ipam_blocks_per_node{node="node1"}': 1,
      'ipam_allocations_borrowed_per_node{node="node2"}': 1,
      'ipam_allocations_in_use{ippool="pool",node="node1"}': 2,
      'ipam_allocations_in_use{ippool="pool",node="node2"}': 1,
      'ipam_allocations_borrowed{ippool="pool",node="node2"}': 1,
      'ipam_blocks{ippool="pool",node="node1"}': 1,
      'ipam_ippool_size{ippool="pool"}': 256,
      'ipam_ippool_size{ippool="six"}': 256,
      ipam_allocations_gc_candidates: 3,
      tortie_controller_leads: 1,
      tortie_controller_calico_kube_controllers: 0,
      tortie_controller_queue_length: 2,
    });
  });

  it("name what is in no pool and of nobody", async () => {
    await world.take("node1", "a");
    await giveUpBlocks(world.allocator, { type: "host", name: "node1" }, { mustBeEmpty: false });
    world.api.remove("/apis/crd.projectcalico.org/v1/ippools/pool");
    expect(await figuresOf(metricsOf(world))).toMatchObject({ 'ipam_blocks{ippool="no_ippool",node="no_affinity"}': 1 });
  });

  it("are none of a controller that does not lead, nor while its lists are not complete", async () => {
    await world.take("node1", "a");
    world.api.followedSince = undefined;
    for (const metrics of [metricsOf(world, { leads: false }), metricsOf(undefined, { leads: false })]) {
      const figures = await figuresOf(metrics);
      expect(Object.keys(figures).filter((name) => name.includes("{"))).toEqual([]);
      expect(figures.tortie_controller_leads).toBe(0);
    }
  });

  it("count releases, requests and looks since the beginning", async () => {
    const metrics = metricsOf(undefined);
    metrics.released("leak", 2);
    metrics.released("leak", 3);
    metrics.asked("GET", 200);
    metrics.ran({ name: "pools", outcome: "success", seconds: 0.2, quiet: true, failures: 0 });
    expect(await figuresOf(metrics)).toMatchObject({
      'ipam_allocations_gc_reclamations{reason="leak"}': 5,
      'tortie_controller_requests_total{method="GET",status="200"}': 1,
      'tortie_controller_runs_total{name="pools",status="success"}': 1,
      'tortie_controller_run_seconds_bucket{le="0.1",name="pools"}': 0,
      'tortie_controller_run_seconds_bucket{le="0.5",name="pools"}': 1,
    });
  });
});

describe("The health of the controller", () => {
  it("fails while the lease cannot be read or written", () => {
    const description = "other leads";
    expect(leaseCheck({ problem: undefined, description }).look()).toEqual({ state: "ok", message: description });
    expect(leaseCheck({ problem: "403", description }).look()).toMatchObject({ state: "failure", message: "403" });
  });

  it("warns of items that fail, with what they say", () => {
    const failing = [{ key: "pools pool a", failures: 2, message: "forbidden" }];
    expect(queueCheck(() => ({ working: undefined, length: 4, failing })).look()).toMatchObject({
      state: "warning",
      message: "pools pool a (2 times): forbidden",
    });
    expect(queueCheck(() => ({ working: undefined, length: 4, failing: [] })).look()).toEqual({ state: "ok", message: "4 items wait" });
    expect(queueCheck(() => undefined).look()).toEqual({ state: "ok", message: "0 items wait" });
  });

  it("warns of pools that are asked for and not made", () => {
    expect(firstPoolsCheck(() => []).look()).toMatchObject({ state: "ok" });
    expect(firstPoolsCheck(() => ["a", "b"]).look()).toMatchObject({ state: "warning", message: "a; b" });
  });
});
