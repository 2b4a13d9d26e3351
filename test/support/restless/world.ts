/**
 * A node that is never left in peace: a runtime's containers and their sandboxes, an agent, a store, and what is believed of all of it.
 * Beliefs come from what calls have answered; whether they are true is the judge's to say (test/support/judge). Where the store is, and
 * what else belongs to a container, is for each world to say.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { Agent } from "../agent.ts";
import { judge } from "../judge/judge.ts";
import type { SeenStore, Wanted } from "../judge/world.ts";
import type { Node } from "../node.ts";
import type { Boot } from "./boot.ts";
import { NETWORK, Runtime } from "./runtime.ts";

/** Nothing takes so long on a node whose faults are over; a call that does stands still. */
export const CALL_SECONDS = 20;
export const SHORT_WAIT_SECONDS = 1;
const SETTLE_MS = 15_000;
const LOOK_MS = 250;
/** So many looks for drift are had before the judge is asked. */
const LOOKS = 2;

/** What a world is made of. */
export interface Parts {
  readonly node: Node;
  readonly boot: Boot;
  readonly agent: Agent;
  readonly random: () => number;
}

export abstract class RestlessWorld extends Runtime implements AsyncDisposable {
  readonly boot: Boot;
  agent: Agent;
  /** How long an ADD may wait for the agent. */
  waitSeconds = SHORT_WAIT_SECONDS;
  /** `sandbox link`, and addresses, that the test has made itself: nobody may take them. */
  readonly ownLinks = new Set<string>();
  readonly ownAddresses = new Set<string>();
  /** Logs of agents that were replaced. */
  readonly #logs: string[] = [];
  #hasPolicy = false;
  protected constructor({ node, boot, agent, random }: Parts) {
    super(node, random);
    this.boot = boot;
    this.agent = agent;
  }

  /** Starts an agent on the node, with policy on or off. */
  protected abstract startAgent(hasPolicy: boolean): Promise<Agent>;

  /** Whether `startAgent` can have policy on. */
  protected readonly canHavePolicy: boolean = false;

  /** An ADD makes the host forward. */
  protected readonly isForwarding: boolean = true;

  /** What the judge reads. */
  protected abstract lookAtStore(): Promise<SeenStore>;

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent[Symbol.asyncDispose]();
    await this.own[Symbol.asyncDispose]();
    await this.node[Symbol.asyncDispose]();
  }

  /** The calls, and everything that the agents have written, for whoever looks into a violation. */
  get trace(): string {
    return [...this.calls, ...this.#logs, this.agent.log].join("\n");
  }

  /** The lock of the node's addresses is held by somebody else: whoever wants one waits. */
  pauseAddresses(seconds: number): Promise<void> {
    this.operations++;
    const child = spawn("/usr/bin/flock", [join(this.node.dir, "ipam.lock"), "/bin/sleep", String(seconds)], { stdio: "ignore" });
    return new Promise((done) => child.once("close", () => done()));
  }

  async killAgent(): Promise<void> {
    this.operations++;
    await this.agent.kill();
  }

  async restartAgent(until?: "local"): Promise<void> {
    this.operations++;
    await this.agent.restart(until);
  }

  /** Starts another agent in the place of this one, with policy on or off. */
  async replaceAgent(hasPolicy = this.canHavePolicy && this.random() < 0.5): Promise<void> {
    if (hasPolicy === this.#hasPolicy) return this.restartAgent();
    this.operations++;
    await this.agent.kill();
    this.#logs.push(this.agent.log);
    this.#hasPolicy = hasPolicy;
    this.agent = await this.startAgent(hasPolicy);
  }

  /** The machine starts anew: everything that ran is gone, and what lay in /run and in the kernel. The agent has not started yet. */
  async reboot(): Promise<void> {
    for (const container of this.containers) await this.kill(container);
    for (const pod of this.sandboxes) await this.removeSandbox(pod);
    await this.loseRecords();
    this.boot.begin();
  }

  /** The agent ends, and nothing that it has written for itself or put into the kernel stays: as if there had been none. */
  async loseRecords(): Promise<void> {
    await this.killAgent();
    this.boot.emptyRun();
    await this.node.run(["/usr/sbin/nft", "flush", "ruleset"]);
  }

  /** Everything that is under way comes to its end; then the judge looks until it finds nothing, or the time for it is over. */
  async quiet(): Promise<readonly string[]> {
    this.waitSeconds = SHORT_WAIT_SECONDS;
    if (!this.agent.isRunning) await this.restartAgent();
    await this.deleteLeft();
    await this.agent.until("its queue is empty", () => this.agent.queue.length === 0);
    await this.agent.looks("drift", LOOKS);
    for (const end = performance.now() + SETTLE_MS; ; await Bun.sleep(LOOK_MS)) {
      const wrong = await this.#verdict();
      if (wrong.length === 0 || performance.now() > end) return [...this.complaints.splice(0), ...wrong];
    }
  }

  async #verdict(): Promise<readonly string[]> {
    const wanted: readonly Wanted[] = [...this.containers].map(({ id, pod, node, addresses, isChangedInside, isDead }) => ({
      network: NETWORK,
      containerId: id,
      ifname: "eth0",
      // The path of a dead one's sandbox may be another's since.
      sandbox: isDead && !this.sandboxes.has(pod) ? `${pod.name} (gone)` : pod.name,
      addresses,
      isChangedInside,
      mayLackLink: isDead,
      isElsewhere: node !== this.node,
    }));
    const tables = new Set(["inet tortie", ...(this.#hasPolicy ? ["inet tortie-policy"] : [])]);
    const allowed = { links: this.ownLinks, addresses: this.ownAddresses, routes: new Set<string>(), tables };
    const wrong = await judge(
      this.node,
      [...this.sandboxes],
      { wanted, allowed, isForwarding: this.isForwarding },
      await this.lookAtStore(),
    );
    return wrong.map(({ rule, what }) => `${rule}: ${what}`);
  }
}
