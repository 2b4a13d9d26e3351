/**
 * 200 and more real IPAM processes of two nodes on one local store, 100 of them killed at random moments by SIGKILL (issue 4, Proof).
 * The kills are drawn from a seed, which is printed; TORTIE_SEED gives it again. When a process dies is up to the machine all the same.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openLocalDatastore } from "../../lib/datastore/local/local-datastore.ts";
import { BIN_DIR } from "../support/node.ts";
import { workloadEndpointOf } from "../support/workload-endpoint.ts";

const PROCESSES = 200;
/** A kill that comes after the end is none, and another process is started for it; more than so many never are. */
const MOST_PROCESSES = 3 * PROCESSES;
/** How many run at once: enough to collide at every step, and small machines have memory for it. */
const AT_ONCE = 32;
/** Every fourth process is a DEL of a container that lives. */
const DELETE_EVERY = 4;
const NODES = ["node-a", "node-b"] as const;

type NodeName = (typeof NODES)[number];

interface Container {
  readonly id: string;
  readonly node: NodeName;
  /** As ADD printed it. */
  readonly result: CniResult;
  readonly addresses: readonly string[];
}

interface CniResult {
  readonly ips: readonly { readonly address: string }[];
}

interface Ended {
  readonly wasKilled: boolean;
  readonly exit: number | null;
  readonly stdout: string;
}

/** mulberry32: 32 bits of state are plenty for drawing moments. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The two nodes, the processes that ran on them, and who lives. */
class Storm {
  readonly dir = mkdtempSync(join(tmpdir(), "tortie-storm-"));
  readonly path = join(this.dir, "tortie.db");
  readonly living = new Map<string, Container>();
  /** Addresses that were printed while a living container had them, and other failures. */
  readonly faults: string[] = [];
  started = 0;
  killed = 0;
  readonly #random: () => number;
  readonly #hasOwnLocks: boolean;
  /**
   * Kills are drawn over so many milliseconds. What this process sees of the life of another is late when the machine is busy, so the
   * window follows the hits instead: too many make it longer, too few shorter, and about half of the shots hit, at any moment of a life.
   */
  #killWindowMs = 50;

  constructor(seed: number, hasOwnLocks: boolean) {
    this.#random = randomFrom(seed);
    this.#hasOwnLocks = hasOwnLocks;
    mkdirSync(join(this.dir, "locks"));
  }

  conf(node: NodeName, lock: string, change: Readonly<Record<string, unknown>> = {}): string {
    return JSON.stringify({
      cniVersion: "1.1.0",
      name: "net1",
      type: "tortie",
      nodename: node,
      datastore_type: "local",
      datastore_path: this.path,
      ipam_lock_file: join(this.dir, "locks", this.#hasOwnLocks ? lock : node),
      // Small blocks: claims are where most can go wrong.
      ipam: {
        type: "tortie-ipam",
        pools: [
          { cidr: "10.244.0.0/20", blockSize: 29 },
          { cidr: "fd44::/112", blockSize: 125 },
        ],
        assign_ipv6: "true",
      },
      ...change,
    });
  }

  async run(command: string, container: string, conf: string, killAfterMs?: number): Promise<Ended> {
    const child = Bun.spawn([join(BIN_DIR, "tortie-ipam")], {
      stdin: new TextEncoder().encode(conf),
      stdout: "pipe",
      stderr: "ignore",
      env: {
        CNI_COMMAND: command,
        CNI_PATH: BIN_DIR,
        ...(command === "GC" ? {} : { CNI_CONTAINERID: container, CNI_IFNAME: "eth0", CNI_NETNS: `/run/netns/${container}` }),
      },
    });
    const timer = killAfterMs === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), killAfterMs);
    const stdout = await new Response(child.stdout).text();
    await child.exited;
    clearTimeout(timer);
    return { wasKilled: child.signalCode === "SIGKILL", exit: child.exitCode, stdout };
  }

  /** All of them, so many at once. */
  async blow(): Promise<void> {
    await Promise.all(Array.from({ length: AT_ONCE }, () => this.#work()));
  }

  async #work(): Promise<void> {
    while (this.started < PROCESSES || (this.killed < PROCESSES / 2 && this.started < MOST_PROCESSES)) {
      const number = ++this.started;
      const victims = [...this.living.values()];
      const victim = number % DELETE_EVERY === 0 ? victims[Math.floor(this.#random() * victims.length)] : undefined;
      if (victim === undefined) await this.#add(`c${number}`, NODES[number % 2] ?? "node-a");
      else await this.#del(victim, `c${number}`);
    }
  }

  async #add(id: string, node: NodeName): Promise<void> {
    const { wasKilled, exit, stdout } = await this.#runPerhapsKilled("ADD", id, this.conf(node, id));
    // A runtime takes a plugin that was killed for failed, whatever it has printed.
    if (wasKilled) return;
    if (exit !== 0) {
      this.faults.push(`ADD of ${id}: ${stdout}`);
      return;
    }
    const result: CniResult = JSON.parse(stdout);
    const addresses = result.ips.map(({ address }) => address.slice(0, address.indexOf("/")));
    for (const other of this.living.values()) {
      const twice = addresses.filter((address) => other.addresses.includes(address));
      if (twice.length > 0) this.faults.push(`${twice.join(" and ")} given to ${id}, while ${other.id} lives with it`);
    }
    this.living.set(id, { id, node, result, addresses });
  }

  async #del({ id, node }: Container, lock: string): Promise<void> {
    this.living.delete(id);
    const { wasKilled, exit, stdout } = await this.#runPerhapsKilled("DEL", id, this.conf(node, lock));
    if (!wasKilled && exit !== 0) this.faults.push(`DEL of ${id}: ${stdout}`);
  }

  /** Aims at a process whenever fewer than half of those before it have died. */
  async #runPerhapsKilled(command: string, container: string, conf: string): Promise<Ended> {
    const moment = this.#random() * this.#killWindowMs;
    const isAimedAt = this.killed * 2 < this.started;
    const ended = await this.run(command, container, conf, isAimedAt ? moment : undefined);
    if (ended.wasKilled) this.killed++;
    if (isAimedAt) this.#killWindowMs *= ended.wasKilled ? 1.05 : 0.9;
    return ended;
  }

  [Symbol.dispose](): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

function tortiectl(...args: string[]): { readonly exit: number; readonly report: unknown } {
  const { exitCode, stdout } = Bun.spawnSync([join(BIN_DIR, "tortiectl"), "ipam", ...args, "--json"], { stderr: "inherit" });
  return { exit: exitCode, report: JSON.parse(stdout.toString()) };
}

describe.each([
  ["taking turns by the lock of their node", false],
  ["without a lock to take turns by", true],
] as const)("200 processes and more, 100 of them killed, %s", (_how, hasOwnLocks) => {
  it("never give an address twice, and nothing is left of the dead after GC", async () => {
    const seed = Number(process.env.TORTIE_SEED ?? Math.floor(Math.random() * 2 ** 32));
    using storm = new Storm(seed, hasOwnLocks);
    await storm.blow();
    const { living, killed } = storm;
    await using datastore = openLocalDatastore(storm.path);
    const dead = (await datastore.handles.list()).filter(({ value }) => !living.has(value.id.replace("net1.", ""))).length;
    const story = `${killed} of ${storm.started} processes were killed, ${living.size} containers live, ${dead} handles are of the dead`;
    console.info(`TORTIE_SEED=${seed}: ${story}`);

    expect({ seed, faults: storm.faults }).toEqual({ seed, faults: [] });
    expect(killed).toBeGreaterThanOrEqual(PROCESSES / 2);
    expect(living.size).toBeGreaterThan(0);

    for (const { id, node, result } of living.values()) {
      const checked = await storm.run("CHECK", id, storm.conf(node, "check", { prevResult: result }));
      expect({ seed, id, exit: checked.exit, stdout: checked.stdout }).toEqual({ seed, id, exit: 0, stdout: "" });
    }
    for (const node of NODES) {
      const valid = [...living.values()].filter((one) => one.node === node).map(({ id }) => ({ containerID: id, ifname: "eth0" }));
      const collected = await storm.run("GC", "", storm.conf(node, "gc", { "cni.dev/valid-attachments": valid }));
      expect({ seed, node, exit: collected.exit, stdout: collected.stdout }).toEqual({ seed, node, exit: 0, stdout: "" });
    }

    // What the main plugin would have written for the living; --grace 0 lets the check ask for it at once.
    for (const { id, node, addresses } of living.values()) {
      const endpoint = workloadEndpointOf({ node, containerId: id, network: "net1", addresses });
      await datastore.endpoints.create(endpoint, endpoint);
    }
    const held = (await datastore.handles.list()).map(({ value }) => value.id);
    expect(held.sort()).toEqual([...living.keys()].map((id) => `net1.${id}`).sort());

    const found = tortiectl("check", "--datastore", storm.path, "--grace", "0", "--strict");
    expect({ seed, ...found }).toMatchObject({ seed, exit: 0, report: { problems: [] } });
    // A claim that its owner's next assignment finishes is no problem; the repair finishes it as well.
    const repaired = tortiectl("check", "--datastore", storm.path, "--grace", "0", "--strict", "--repair", "--settle", "0");
    expect({ seed, ...repaired }).toMatchObject({ seed, exit: 0, report: { problems: [], notes: [] } });
  });
});
