/**
 * A-I05 as a model: every order in which the system calls of several processes can come. A file is watched from its link to its removal,
 * so that an address which changes hands without a release shows at once.
 */
import { decodeGrant, type Owner, ownerKey } from "../../../../ipam-plugin/host-scope/grant-directory.ts";
import type { HostScope } from "../../../../ipam-plugin/host-scope/host-scope.ts";
import { formatAddress } from "../../../../lib/addresses/address.ts";
import { everyOrder, GrantFileSystem, hostScopeOf, someOrders, type Turn } from "../../../support/grant-directories.ts";

const owner = (name: string): Owner => ({ kind: "name", name });

/** Processes on one directory; `judge` compares what each was told with what the directory says. */
class World {
  readonly files = new GrantFileSystem();
  /** Address → owner, by the answers that were given and not taken back. */
  readonly #told = new Map<string, string>();
  readonly #turn: Turn;
  readonly #cidrs: readonly string[];

  constructor(turn: Turn, cidrs: readonly string[]) {
    this.#turn = turn;
    this.#cidrs = cidrs;
  }

  process(): HostScope {
    return hostScopeOf({ cidrs: this.#cidrs, directory: this.files.connect(this.#turn), cooldownMs: 0 });
  }

  async add(name: string): Promise<void> {
    const token = `token-of-${name}`;
    const hostScope = hostScopeOf({ cidrs: this.#cidrs, directory: this.files.connect(this.#turn), cooldownMs: 0, newToken: () => token });
    for (const { address } of await hostScope.grant({ owner: owner(name) })) {
      const text = formatAddress(address);
      const other = this.#told.get(text);
      if (other !== undefined) throw new Error(`${text} was given to ${other} and ${name}`);
      this.#told.set(text, name);
    }
  }

  async del(name: string): Promise<void> {
    for (const [address, holder] of this.#told) if (holder === name) this.#told.delete(address);
    await this.process().releaseAll((grant) => ownerKey(grant.owner) === name);
  }

  readonly judge = (): void => {
    const grants = this.files.grants();
    for (const [address, name] of this.#told) {
      const grant = decodeGrant(grants.get(address) ?? "");
      if (grant === undefined || ownerKey(grant.owner) !== name) throw new Error(`${address} is not ${name}'s: ${grants.get(address)}`);
    }
  };

  holders(): readonly string[] {
    return [...this.files.grants().values()].map((text) => ownerKey(decodeGrant(text)?.owner ?? owner("?"))).sort();
  }
}

/** A process that may fail because the range is full. */
const orNothing = (adding: Promise<void>) => adding.then(() => "granted" as const).catch((error: { word?: string }) => error.word);

describe("A-I05: every interleaving of link(2)", () => {
  it("gives three processes that want the same address three addresses", async () => {
    const orders = await everyOrder((turn) => {
      const world = new World(turn, ["10.60.0.0/29"]);
      const adds = ["a", "b", "c"].map((name) => world.add(name));
      return { tasks: [Promise.all(adds).then(() => expect(world.holders()).toEqual(["a", "b", "c"]))], judge: world.judge };
    });
    expect(orders).toBeGreaterThan(90);
  });

  it("lets one of two that want the last address have it, and the other nothing", async () => {
    const orders = await everyOrder((turn) => {
      const world = new World(turn, ["10.60.0.0/30"]);
      void world.files.connect().write(4, "10.60.0.2", "somebody");
      const adds = Promise.all(["a", "b"].map((name) => orNothing(world.add(name))));
      const judged = adds.then((outcomes) => expect([...outcomes].sort()).toEqual(["addresses-exhausted", "granted"]));
      return { tasks: [judged], judge: world.judge };
    });
    expect(orders).toBeGreaterThan(5);
  });

  it("leaves both families or none to two that have room for one", async () => {
    const orders = await everyOrder((turn) => {
      const world = new World(turn, ["10.60.0.0/30", "fd60::/126"]);
      void world.files.connect().write(4, "10.60.0.1", "somebody");
      const adds = Promise.all(["a", "b"].map((name) => orNothing(world.add(name))));
      const judged = adds.then((outcomes) => {
        const winner = outcomes[0] === "granted" ? "a" : "b";
        expect([...outcomes].sort()).toEqual(["addresses-exhausted", "granted"]);
        expect(world.holders()).toEqual(["?", winner, winner]);
      });
      return { tasks: [judged], judge: world.judge };
    });
    expect(orders).toBeGreaterThan(80);
  });

  it("never releases what another has been granted since: two DELs of one owner beside an ADD of another", async () => {
    await someOrders((turn) => {
      let isStarted = false;
      const world = new World(async (what) => (isStarted ? turn(what) : undefined), ["10.60.0.0/30"]);
      const work = world.add("a").then(async () => {
        isStarted = true;
        await Promise.all([world.del("a"), world.del("a"), world.add("b")]);
        expect(world.holders()).toEqual(["b"]);
      });
      return { tasks: [work], judge: world.judge };
    }, 1000);
  });
});
