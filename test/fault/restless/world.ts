/** A restless node whose store is a file of its own. */
import { spawnSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { callAgent, lookAt } from "../../support/agent-calls.ts";
import { addressesOf } from "../../support/cni-result.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { lookAtStore } from "../../support/judge/look.ts";
import type { SeenStore } from "../../support/judge/world.ts";
import { Node } from "../../support/node.ts";
import { policy } from "../../support/policy-agent.ts";
import { Boot } from "../../support/restless/boot.ts";
import { shifted } from "../../support/restless/clocks.ts";
import { type Container, type Mode, NETWORK } from "../../support/restless/runtime.ts";
import { CALL_SECONDS, RestlessWorld } from "../../support/restless/world.ts";

export class World extends RestlessWorld {
  /** Seconds. */
  #slept = 0;

  protected override readonly canHavePolicy = true;

  static async create(random: () => number): Promise<World> {
    await using made = new AsyncDisposableStack();
    const boot = new Boot();
    const node = made.use(await Node.create({ binds: boot.binds }));
    made.use(boot);
    boot.mountRun(join(node.dir, "run"));
    mkdirSync(policiesOf(node));
    const agent = made.use(await startAgent(node, false));
    const world = new World({ node, boot, agent, random });
    await world.start();
    made.move();
    world.own.use(boot);
    return world;
  }

  protected startAgent(hasPolicy: boolean): Promise<Agent> {
    // A policy of other pods: it must not concern these.
    const other = policy("others", { podSelector: { matchLabels: { app: "other" } }, policyTypes: ["Ingress", "Egress"] }, "default");
    const file = join(policiesOf(this.node), "others.yaml");
    if (hasPolicy && this.random() < 0.5) writeFileSync(file, JSON.stringify(other));
    else rmSync(file, { force: true });
    return startAgent(this.node, hasPolicy);
  }

  conf(mode: Mode): Record<string, unknown> {
    return {
      ...localConf(this.node, { cniVersion: "1.1.0", name: NETWORK, ipam: dualIpam("46") }),
      ...this.agent.netconf,
      agent: mode,
      agent_wait_seconds: this.waitSeconds,
      agent_timeout_seconds: CALL_SECONDS,
    };
  }

  protected async lookAtStore(): Promise<SeenStore> {
    return lookAtStore(this.node.datastorePath);
  }

  /** A container whose sandbox the agent sees at no path: its caller's descriptor leads there. */
  async startByDescriptor(): Promise<Container | undefined> {
    this.operations++;
    const pod = await this.newSandbox();
    const id = this.newId();
    const fd = openSync(pod.netnsPath, "r");
    try {
      const netns = { ...lookAt(pod), path: `/run/netns/of-another-mount-namespace-${id}`, fd };
      const answer = await callAgent(this.agent, "add", this.conf("require"), { containerId: id, netns });
      if (answer.status === 200) {
        return this.believe({ id, pod, mode: "require", node: this.node, addresses: addressesOf(answer.json) });
      }
      this.complaints.push(`refused: ADD of ${id} by descriptor: ${answer.status} ${answer.text}`);
      return undefined;
    } finally {
      closeSync(fd);
    }
  }

  /**
   * The clock is set by so many seconds: each file of the agent is older or younger by them. From its next start the agent has the new time
   * of day, or the plugins have it, or both: who has asked for the time before and who asks after it differ.
   */
  setClock(seconds: number, whose: "agent" | "plugins" | "both"): void {
    this.operations++;
    const changed = new Date(Date.now() + seconds * 1_000);
    spawnSync("find", [this.agent.runDir, "-type", "f", "-exec", "touch", "-d", changed.toISOString(), "{}", "+"]);
    this.#shift({ agent: whose === "plugins" ? 0 : seconds, plugins: whose === "agent" ? 0 : seconds });
  }

  /** The clock goes right again, for the agent from its next start. */
  resetClock(): void {
    this.#shift({ agent: 0, plugins: 0 });
  }

  /** From now on, and from the next start of the agent, the machine has slept for so many seconds more. */
  sleepMachine(seconds: number): void {
    this.operations++;
    this.#slept += seconds;
    this.resetClock();
  }

  #shift({ agent, plugins }: { readonly agent: number; readonly plugins: number }): void {
    const sinceBoot = this.#slept;
    this.agent.before = shifted(this.node.dir, { ofDay: sinceBoot + agent, sinceBoot });
    this.node.before = shifted(this.node.dir, { ofDay: sinceBoot + plugins, sinceBoot });
  }
}

function policiesOf(node: Node): string {
  return join(node.dir, "policies");
}

function startAgent(node: Node, hasPolicy: boolean): Promise<Agent> {
  const policies = hasPolicy ? ["--policy", "auto", "--policy-directory", policiesOf(node)] : ["--policy", "off"];
  // What takes a minute on a node of people is looked at each second here.
  return Agent.start(node, { args: ["--max-controller-interval", "1", ...policies] });
}
