/** The races of Calico's block reader-writer suite (I§8.4): many hosts or processes at once, at many interleavings. */

import { Allocator } from "../../../../ipam-plugin/allocator/allocator.ts";
import { formatPrefix } from "../../../../lib/addresses/address.ts";
import { TortieError } from "../../../../lib/errors/errors.ts";
import { claim } from "../../../support/blocks.ts";
import { host } from "../../../support/cluster.ts";
import { type MemoryDatastore, MemoryStore } from "../../../support/memory-datastore.ts";
import { samplePool, sampleRequest } from "../../../support/samples.ts";
import { type Ending, Scheduler } from "../../../support/scheduler.ts";

const SEEDS = Array.from({ length: 40 }, (_, seed) => seed);

class Race {
  readonly store = new MemoryStore();
  readonly view: MemoryDatastore = this.store.connect();
  readonly scheduler: Scheduler;

  constructor(seed: number) {
    this.scheduler = new Scheduler({ seed });
  }

  static async create(seed: number, cidr: string, blockSize: number): Promise<Race> {
    const race = new Race(seed);
    await race.view.pools.create("p", samplePool("p", cidr, { blockSize }));
    return race;
  }

  allocator(client: string): Allocator {
    const { gate, clock, random, sleep } = this.scheduler;
    return new Allocator({ datastore: this.store.connect(client, gate), clock, random, sleep });
  }

  /** One address, with prefix length. */
  assign(client: string, node: string): () => Promise<string> {
    const allocator = this.allocator(client);
    return async () => {
      const { ipv4 } = await allocator.autoAssign(sampleRequest(node, client));
      if (ipv4?.error !== undefined) throw ipv4.error;
      const [address] = ipv4?.addresses ?? [];
      if (address === undefined) throw new Error(`${client} got none: ${ipv4?.messages.join("; ")}`);
      return formatPrefix(address.prefix);
    };
  }

  /** CIDR → owner, as the blocks say; every affinity must be confirmed and say the same. */
  async owners(): Promise<Record<string, string>> {
    const blocks = (await this.view.blocks.list()).map(({ value }) => [value.cidr, value.affinity?.name ?? "nobody"] as const);
    const affinities = (await this.view.affinities.listAll()).map(({ value }) => value);
    expect(affinities.map(({ state }) => state)).toEqual(affinities.map(() => "confirmed"));
    const owners = Object.fromEntries(blocks);
    expect(Object.fromEntries(affinities.map(({ cidr, owner }) => [cidr, owner.name]))).toEqual(owners);
    return owners;
  }
}

function valuesOf<T>(endings: readonly Ending<T>[], seed: number): readonly T[] {
  return endings.map((ending) => {
    if (ending.state !== "done") throw new Error(`seed ${seed}: ${ending.state === "failed" ? String(ending.error) : "crashed"}`);
    return ending.value;
  });
}

describe("hosts at once", () => {
  it("32 for 16 blocks all get an address, and each block has one owner, confirmed", async () => {
    for (const seed of SEEDS) {
      const race = await Race.create(seed, "10.0.0.0/22", 26);
      const nodes = Array.from({ length: 32 }, (_, index) => `node-${index}`);
      const addresses = valuesOf(await race.scheduler.run(nodes.map((node) => race.assign(`net.${node}`, node))), seed);
      expect(new Set(addresses).size).toBe(32);
      const owners = await race.owners();
      expect({ seed, blocks: Object.keys(owners).length }).toEqual({ seed, blocks: 16 });
    }
  });

  it("in four processes of one host get four addresses, and leave no claim unfinished", async () => {
    for (const seed of SEEDS) {
      const race = await Race.create(seed, "10.0.0.0/22", 26);
      const clients = Array.from({ length: 4 }, (_, index) => `net.c${index}`);
      const addresses = valuesOf(await race.scheduler.run(clients.map((client) => race.assign(client, "node-a"))), seed);
      expect(new Set(addresses).size).toBe(4);
      expect(new Set(Object.values(await race.owners()))).toEqual(new Set(["node-a"]));
    }
  });

  it("that claim and release one CIDR leave it claimed as a whole, or not at all", async () => {
    for (const seed of SEEDS) {
      const race = await Race.create(seed, "10.0.0.0/24", 26);
      const claimed = (node: string) => () => claim(race.allocator(node), "10.0.0.0/26", host(node));
      const release = (node: string) => async () => {
        try {
          await race.allocator(node).releaseAffinity("10.0.0.0/26", host(node), { mustBeEmpty: true });
        } catch (error) {
          // Another's since.
          if (!(error instanceof TortieError && error.word === "block-claimed")) throw error;
        }
        return undefined;
      };
      const endings = await race.scheduler.run<unknown>([
        claimed("node-a"),
        claimed("node-b"),
        release("node-a"),
        claimed("node-a"),
        release("node-b"),
      ]);
      valuesOf(endings, seed);
      const { affinities, blocks } = race.view;
      const [block] = await blocks.list();
      const states = (await affinities.listAll()).map(({ value }) => `${value.owner.name} ${value.state}`);
      expect({ seed, states }).toEqual({ seed, states: block === undefined ? [] : [`${block.value.affinity?.name} confirmed`] });
    }
  });
});
