import type { ProvenNode } from "../../../../agent/routes/model.ts";
import { NodeRoutes, type NodeRoutesParts } from "../../../../agent/routes/node-routes.ts";
import { NO_NODE_STATE, type NodeState } from "../../../../dataplane/dataplane.ts";
import type { NetworkFacts } from "../../../../dataplane/linux/host-facts.ts";
import { address } from "../../../support/addresses.ts";
import { fresh } from "../../../support/fixtures.ts";
import { routedBlock, routedNode, routeTexts } from "../../../support/routed-cluster.ts";

const SEES_NOTHING: NetworkFacts = {
  addresses: [{ address: address("172.20.1.1"), length: 24, mtu: 1500, index: 2, link: "eth0", isUp: true, scope: 0 }],
  foreignRoutes: 0,
  foreignDevices: [],
};
const NODES = [routedNode("one", ["172.20.1.1/24"]), routedNode("two", ["172.20.1.2/24"])];

class World {
  gap: string | undefined;
  nodes: readonly ProvenNode[] = NODES;
  facts = SEES_NOTHING;
  failed: readonly string[] = [];
  inKernel = 1;
  foreign: readonly string[] = [];
  refused: readonly string[] = [];
  changed: readonly string[] = [];
  startFails = false;
  sleeps = 0;
  guards = 0;
  givenBack = 0;
  now = 0;
  readonly applied: NodeState[] = [];
  readonly annotated: object[] = [];
  readonly drifted: (readonly string[])[] = [];
  readonly mtus: number[] = [];
  readonly routes: NodeRoutes;

  constructor(change: Partial<NodeRoutesParts> = {}, onSleep: (world: World) => void = () => {}) {
    this.routes = new NodeRoutes({
      node: "one",
      mayTunnel: true,
      sources: this.#sources(),
      facts: () => this.facts,
      prove: (claims) => ({ ...claims, nodes: this.nodes, refused: this.refused }),
      tunnels: async () => ({}),
      giveBackTunnels: async () => {
        this.givenBack++;
      },
      state: async () => NO_NODE_STATE,
      guard: async () => {
        this.guards++;
      },
      applyNode: async (state) => {
        this.applied.push(state);
        return { changed: this.changed, failed: this.failed, routes: this.inKernel, foreign: this.foreign };
      },
      onMtu: (mtu) => this.mtus.push(mtu),
      onDrift: (what) => this.drifted.push(what),
      clock: {
        now: () => this.now,
        sleep: async () => {
          this.sleeps++;
          onSleep(this);
        },
      },
      log: { info: () => {} },
      ...change,
    });
  }

  run(): Promise<void> {
    return this.routes.run(AbortSignal.timeout(60_000));
  }

  #sources(): NodeRoutesParts["sources"] {
    const world = this;
    return {
      async start() {
        if (world.startFails) throw new Error("the server is away");
      },
      get gap() {
        return world.gap;
      },
      get claims() {
        return { nodes: world.nodes, blocks: [routedBlock("10.9.2.0/26", "two")], pools: [] };
      },
      onChange() {},
      async annotate(annotations) {
        world.annotated.push(annotations);
      },
    };
  }
}

const world = fresh(() => new World());

describe("The routes of a node", () => {
  it("touch nothing before every list is complete and followed, and go on when it is (invariant 14)", async () => {
    const seen: string[] = [];
    const world = new World({}, (one) => {
      if (one.routes.status.kind === "waiting") seen.push(`${one.routes.status.cause}, ${one.applied.length} applied`);
      if (one.sleeps === 4) one.gap = undefined;
    });
    world.gap = "nodes have not been read yet";

    await world.run();

    expect(seen).toContain("nodes have not been read yet, 0 applied");
    expect(world.applied.map(({ network }) => network && routeTexts(network))).toEqual([["10.9.2.0/26 via 172.20.1.2"]]);
    expect(world.routes.status.kind).toBe("working");
  });

  it("touch nothing while the server cannot be asked, and nothing for a node that has no object", async () => {
    world.startFails = true;
    await expect(world.run()).rejects.toThrow("the server is away");
    world.startFails = false;
    world.nodes = NODES.slice(1);
    await world.run();
    expect(world.applied).toEqual([]);
    expect(world.routes.status).toEqual({ kind: "waiting", cause: "there is no node one" });
  });

  it.each([
    ["routes of its protocol", { foreignRoutes: 3 }, "3 routes of protocol 80"],
    ["a device that is not ours", { foreignDevices: ["vxlan.calico"] }, "interface vxlan.calico"],
  ])("are left to Felix where there are %s, and are made again when that is gone", async (_, sign, words) => {
    world.facts = { ...SEES_NOTHING, ...sign };
    await world.run();
    expect(world.applied).toEqual([]);
    expect(world.annotated).toEqual([]);
    expect(world.routes.status).toEqual({ kind: "stood-down", sign: words });

    world.facts = SEES_NOTHING;
    await world.run();
    expect(world.applied).toHaveLength(1);
  });

  it("S15: guard the node while they wait, stand down, or cannot ask the server", async () => {
    world.startFails = true;
    await expect(world.run()).rejects.toThrow("the server is away");
    world.startFails = false;
    world.nodes = NODES.slice(1);
    await world.run();
    world.facts = { ...SEES_NOTHING, foreignRoutes: 1 };
    await world.run();
    expect(world.guards).toBe(3);
    expect(world.applied).toEqual([]);
  });

  it("stay while the interface with the node's address is down for less than a minute, also for an agent that starts then (X8)", async () => {
    const up = world.facts;
    for (const isStarting of [false, true]) {
      const world = new World();
      if (!isStarting) await world.run();
      world.facts = { ...up, addresses: up.addresses.map((one) => ({ ...one, isUp: false })) };
      for (const now of [1_000, 59_000]) {
        world.now = now;
        await world.run();
      }
      expect(world.applied.slice(-2).map(({ network }) => network?.held)).toEqual([[4], [4]]);
      expect(world.routes.status).toMatchObject({
        problems: [expect.stringContaining("no interface that is up has this node's IPv4 address")],
      });
      expect(world.annotated).toEqual([]);
      world.facts = up;
      await world.run();
      expect(world.applied.at(-1)?.network).toMatchObject({ held: [], routes: [expect.anything()] });

      world.facts = { ...up, addresses: [] };
      for (const now of [100_000, 161_000]) {
        world.now = now;
        await world.run();
      }
      expect(world.applied.at(-1)?.network).toMatchObject({ held: [], routes: [] });
    }
  });

  it("X2: of one family go on while the other's address is missing", async () => {
    const both = [routedNode("one", ["172.20.1.1/24", "fd20:1::1/64"]), ...NODES.slice(1)];
    world.nodes = both;
    await world.run();
    expect(world.applied[0]?.network).toMatchObject({ held: [6], routes: [{ kind: "direct" }] });
  });

  it("ask for no tunnel with --node-routes direct, so that an address of before is given back", async () => {
    const asked: unknown[] = [];
    const world = new World({
      mayTunnel: false,
      tunnels: async (_, { pools, blocks }) => {
        asked.push([...pools, ...blocks]);
        return {};
      },
    });
    await world.run();
    expect(asked).toEqual([[]]);
  });

  it("G15: give tunnel addresses back when device and annotation are gone, and not before", async () => {
    world.nodes = [routedNode("one", ["172.20.1.1/24"], ["10.9.1.0"]), ...NODES.slice(1)];
    await world.run();
    expect(world.annotated).toEqual([{ "projectcalico.org/IPv4VXLANTunnelAddr": null }]);
    expect(world.givenBack).toBe(0);

    world.nodes = NODES;
    world.failed = ["device vxlan.calico removed: device is busy"];
    await expect(world.run()).rejects.toThrow("busy");
    expect(world.givenBack).toBe(0);

    world.failed = [];
    await world.run();
    expect(world.givenBack).toBe(1);
  });

  it("X4: are counted as the kernel has them, and what takes their packets is named", async () => {
    world.inKernel = 0;
    world.foreign = ["10.9.2.0/26 goes to flannel.1 by a route of protocol boot, not to 172.20.1.2: remove that route"];
    await world.run();
    expect(world.routes.status).toEqual({ kind: "working", message: "0 of 1 routes", problems: world.foreign });
  });

  it("say what could not be had, and are tried again", async () => {
    world.failed = ["route 10.9.2.0/26 via 172.20.1.2 added: network is unreachable"];
    await expect(world.run()).rejects.toThrow("network is unreachable");
    expect(world.routes.status).toMatchObject({ kind: "working", problems: world.failed });
  });

  it("S1: say which claims of other nodes they do not believe: in the log once, in their state as long as it is so", async () => {
    const lines: string[] = [];
    const world = new World({ log: { info: (line) => lines.push(line) } });
    world.refused = ["node two says that 0.0.0.0/1 is its range, which has addresses of 0.0.0.0/8"];
    await world.run();
    await world.run();
    expect(lines).toEqual([`not believed: ${world.refused[0]}`]);
    expect(world.routes.status).toMatchObject({ kind: "working", problems: world.refused });

    world.refused = Array.from({ length: 12 }, (_, index) => `claim ${index}`);
    await world.run();
    expect(world.routes.status).toMatchObject({ problems: [...world.refused.slice(0, 10), "and 2 more"] });
    expect(lines).toHaveLength(13);
  });

  it("tell of what was mended although nothing had changed, and of nothing else", async () => {
    world.changed = ["route 10.9.2.0/26 via 172.20.1.2 added"];
    await world.run();
    expect(world.drifted).toEqual([]);
    await world.run();
    expect(world.drifted).toEqual([world.changed]);
    world.changed = [];
    await world.run();
    expect(world.drifted).toHaveLength(1);
  });

  it("record where this node is reached only where nobody has, and say how large a packet may be", async () => {
    const tunnels = async () => ({ 4: { address: address("10.9.1.0") } });
    const world = new World({ tunnels });
    world.nodes = [{ ...routedNode("one", []), internal: { 4: address("172.20.1.1") } }, ...NODES.slice(1)];
    await world.run();
    expect(world.annotated).toEqual([
      { "projectcalico.org/IPv4Address": "172.20.1.1/24", "projectcalico.org/IPv4VXLANTunnelAddr": "10.9.1.0" },
    ]);
    expect(world.mtus).toEqual([1450]);

    const known = new World({ tunnels });
    known.nodes = [routedNode("one", ["172.20.1.1/20"], ["10.9.1.0"]), ...NODES.slice(1)];
    await known.run();
    expect(known.annotated).toEqual([]);
  });

  it("take back the tunnel of a node that has none any more, and record an address that the host has instead of one that it lost", async () => {
    world.nodes = [{ ...routedNode("one", ["172.20.9.9/24"], ["10.9.1.0"]), internal: { 4: address("172.20.1.1") } }, ...NODES.slice(1)];
    await world.run();
    expect(world.annotated).toEqual([{ "projectcalico.org/IPv4Address": "172.20.1.1/24", "projectcalico.org/IPv4VXLANTunnelAddr": null }]);
  });
});
