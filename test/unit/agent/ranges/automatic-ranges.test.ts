/** Nodes that make up the same range, in every order in which their requests can reach the server. */
import { AutomaticRanges, type Contention } from "../../../../agent/addresses/ranges/contention.ts";
import type { NodeFacts } from "../../../../agent/addresses/ranges/node-object.ts";
import { prefix } from "../../../support/addresses.ts";
import { settled } from "../../../support/fake-clock.ts";

const RANGE = "network.tortie.dev/ipv4-pod-cidr";
const SOURCE = "network.tortie.dev/pod-cidr-source";
const CLAIM = "network.tortie.dev/pod-cidr-claim";
const WANTED = { 4: { cidr: prefix("10.7.0.0/16"), source: "automatic" } } as const;

/** An API server that answers one request at a time, the one that the test names. */
class Server {
  readonly #nodes = new Map<string, NodeFacts>();
  readonly #waiting = new Map<string, () => void>();
  patches = 0;

  put(name: string, createdAt: string, annotations: Readonly<Record<string, string>> = {}): void {
    this.#nodes.set(name, { name, createdAt, podCIDRs: [], podCIDR: "", annotations, addresses: [] });
  }

  remove(name: string): void {
    this.#nodes.delete(name);
  }

  annotationsOf(name: string): Readonly<Record<string, string>> {
    return this.#nodes.get(name)?.annotations ?? {};
  }

  /** Names of the nodes whose requests wait. */
  get callers(): readonly string[] {
    return [...this.#waiting.keys()].sort();
  }

  answer(name: string): void {
    const go = this.#waiting.get(name);
    this.#waiting.delete(name);
    go?.();
  }

  /** One caller after the other, until none asks any more. */
  async answerAll(): Promise<void> {
    for (await settled(); this.#waiting.size > 0; await settled()) this.answer(this.callers[0] ?? "");
  }

  as(name: string): ConstructorParameters<typeof AutomaticRanges>[0] {
    const turn = () => new Promise<void>((resolve) => void this.#waiting.set(name, resolve));
    return {
      list: async () => {
        await turn();
        return [...this.#nodes.values()];
      },
      annotate: async (annotations) => {
        await turn();
        const known = this.#nodes.get(name);
        if (known === undefined) throw new Error("not found");
        this.patches++;
        const merged = Object.entries({ ...known.annotations, ...annotations });
        const kept = merged.flatMap(([key, value]) => (value === null ? [] : [[key, value] as const]));
        this.#nodes.set(name, { ...known, annotations: Object.fromEntries(kept) });
      },
    };
  }
}

/** One agent: it looks until it has the range, or the range is another node's. */
class Agent {
  outcome: Contention["outcome"] | undefined;
  readonly #ranges: AutomaticRanges;

  constructor(server: Server, name: string) {
    this.#ranges = new AutomaticRanges(server.as(name), name);
    void this.look();
  }

  get has(): boolean {
    return this.outcome === "free" || this.outcome === "yielded";
  }

  async look(): Promise<void> {
    do this.outcome = (await this.#ranges.prove(WANTED, this.has)).outcome;
    while (this.outcome === "contested");
  }
}

/** Plays one order of answers. `choices[n]` is the place of the n-th answered caller among those that wait. @returns how many there were at each step */
async function play(createdAt: readonly string[], choices: readonly number[]) {
  const server = new Server();
  const names = createdAt.map((_, place) => `node${place}`);
  for (const [place, name] of names.entries()) server.put(name, createdAt[place] ?? "");
  const agents = names.map((name) => new Agent(server, name));
  const open: number[] = [];
  let most = 0;
  for (let step = 0; step < 60; step++) {
    await settled();
    const { callers } = server;
    most = Math.max(most, agents.filter(({ has }) => has).length);
    const [caller] = callers.slice(choices[step] ?? step % Math.max(callers.length, 1));
    if (caller === undefined) break;
    open.push(callers.length);
    server.answer(caller);
  }
  return { open, most, outcomes: agents.map(({ outcome }) => outcome), server, agents };
}

describe("nodes that make up the same range", () => {
  it.each([
    ["of two ages", ["2026-11-20T10:00:01Z", "2026-11-20T10:00:00Z"], 12],
    ["of one age", ["2026-11-20T10:00:00Z", "2026-11-20T10:00:00Z"], 12],
    ["three at once", ["2026-11-20T10:00:01Z", "2026-11-20T10:00:02Z", "2026-11-20T10:00:00Z"], 7],
  ])("G10: %s, have it one at a time and one has it in the end, in every order of their requests", async (_what, createdAt, depth) => {
    const failures: unknown[] = [];
    let played = 0;
    const explore = async (choices: readonly number[]): Promise<void> => {
      const { open, most, outcomes } = await play(createdAt, choices);
      played++;
      const winners = outcomes.filter((outcome) => outcome === "free");
      const isRight = most === 1 && winners.length === 1 && outcomes.every((outcome) => outcome === "free" || outcome === "taken");
      if (!isRight) failures.push({ choices, most, outcomes });
      for (let step = choices.length; step < Math.min(open.length, depth); step++) {
        const chosen = [...choices];
        for (let before = choices.length; before < step; before++) chosen.push(before % (open[before] ?? 1));
        for (let other = 0; other < (open[step] ?? 0); other++) if (other !== step % (open[step] ?? 1)) await explore([...chosen, other]);
      }
    };
    await explore([]);
    expect(failures).toEqual([]);
    expect(played).toBeGreaterThan(20);
  });

  it("G10: find each other at a later look where an older version gave both the range, and the younger one gives it up", async () => {
    const server = new Server();
    const held = { [RANGE]: "10.7.0.0/16", [SOURCE]: "ipv4=automatic,ipv6=spec", "network.tortie.dev/ipv4-router-ip": "10.7.0.1" };
    server.put("node0", "2026-11-20T10:00:01Z", held);
    server.put("node1", "2026-11-20T10:00:00Z", held);
    const [younger, older] = [new Agent(server, "node0"), new Agent(server, "node1")];
    await settled();
    server.answer("node1");
    await settled();
    expect(older.outcome).toBe("yielded");
    for (let answers = 0; answers < 2; answers++) {
      server.answer("node0");
      await settled();
    }
    expect(younger.outcome).toBe("taken");
    expect(server.annotationsOf("node0")).toEqual({ [SOURCE]: "ipv6=spec" });
    expect(server.annotationsOf("node1")).toEqual(held);
  });

  it("G10: write nothing where nothing changes", async () => {
    const { server, agents } = await play(["2026-11-20T10:00:00Z", "2026-11-20T10:00:01Z"], []);
    const { patches } = server;
    for (const agent of agents) void agent.look();
    await server.answerAll();
    expect(server.patches).toBe(patches);
  });

  it("G10: say it again where the Node object was made anew, and give it up to one that took it meanwhile", async () => {
    const { server, agents } = await play(["2026-11-20T10:00:00Z", "2026-11-20T10:00:01Z"], []);
    server.put("node0", "2026-11-20T11:00:00Z");
    const [first, second] = agents;
    void second?.look();
    await server.answerAll();
    expect(second?.outcome).toBe("free");
    void first?.look();
    await server.answerAll();
    expect(first?.outcome).toBe("taken");
    expect(server.annotationsOf("node0")).toEqual({});
    expect(server.annotationsOf("node1")).toEqual({ [RANGE]: "10.7.0.0/16", [SOURCE]: "ipv4=automatic" });

    server.remove("node1");
    void first?.look();
    await server.answerAll();
    expect(first?.outcome).toBe("free");
    expect(server.annotationsOf("node0")[CLAIM]).toBeUndefined();
  });
});
