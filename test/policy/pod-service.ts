/**
 * Attaches pods for a program that tests policy (test/policy/cyclonus): it asks over a socket, and the pods come into being by Tortie's own
 * ADD on a node of the test's world. Waiting for policy is here too, because it is a matter of the nodes.
 */
import { join } from "node:path";
import { BIN_DIR } from "../support/node.ts";
import type { Machine, ThreeNodes, WorldPod } from "../support/three-nodes.ts";

const LOG_END = 3000;

interface Question {
  readonly node?: string;
  readonly namespace: string;
  readonly name: string;
}

export class PodService implements AsyncDisposable {
  readonly socket: string;
  readonly #world: ThreeNodes;
  readonly #machines: readonly Machine[];
  readonly #isEnforced: boolean;
  readonly #pods = new Map<string, WorldPod>();
  readonly #server: ReturnType<typeof Bun.serve>;

  /**
   * @param machines those with an agent
   * @param isEnforced whether agents of the world enforce policy, so that one can wait for it
   */
  constructor(world: ThreeNodes, machines: readonly Machine[], isEnforced: boolean) {
    this.#world = world;
    this.#machines = machines;
    this.#isEnforced = isEnforced;
    this.socket = join(world.cluster.dir, "pods.sock");
    this.#server = Bun.serve({ unix: this.socket, fetch: (request) => this.#answer(request) });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop(true);
    for (const pod of this.#pods.values()) await this.#remove(pod);
  }

  async #answer(request: Request): Promise<Response> {
    try {
      return Response.json(await this.#do(new URL(request.url).pathname, JSON.parse(await request.text())));
    } catch (error) {
      return new Response(error instanceof Error ? error.message : String(error), { status: 500 });
    }
  }

  async #do(path: string, question: Question): Promise<unknown> {
    switch (path) {
      case "/attach":
        return this.#attach(question);
      case "/detach":
        return this.#detach(question);
      case "/settle":
        await Promise.all(this.#machines.map((machine) => this.#settle(machine)));
        return {};
      case "/drops":
        return { text: (await Promise.all(this.#machines.map((machine) => this.#dropsOf(machine)))).join("\n") };
      default:
        throw new Error(`nobody answers ${path}`);
    }
  }

  async #attach({ node, namespace, name }: Question): Promise<unknown> {
    const machine = this.#machines.find((one) => one.name === node);
    if (machine === undefined) throw new Error(`no node ${node}`);
    const pod = await this.#world.attachPod(machine, namespace, name);
    this.#pods.set(`${namespace}/${name}`, pod);
    return { netns: pod.sandbox.netnsPath, ipv4: pod.ipv4, ipv6: pod.ipv6 };
  }

  async #detach({ namespace, name }: Question): Promise<unknown> {
    const pod = this.#pods.get(`${namespace}/${name}`);
    if (pod === undefined) throw new Error(`no pod ${namespace}/${name}`);
    await this.#remove(pod);
    return {};
  }

  async #remove(pod: WorldPod): Promise<void> {
    this.#pods.delete(`${pod.namespace}/${pod.name}`);
    await this.#world.detachPod(pod);
    await pod.machine.host.removePod(pod.sandbox);
  }

  /** What the agent of a node says of packets that it has dropped, and of itself. */
  async #dropsOf({ name, host, agent }: Machine): Promise<string> {
    const { stdout, stderr } = await host.run([join(BIN_DIR, "tortiectl"), "policy", "drops"], { env: { TORTIE_SOCK: agent.socket } });
    return `${name}: ${stdout}${stderr}\n${agent.log.slice(-LOG_END)}`;
  }

  /** Waits until everything that the API server has now is in force on a node. */
  async #settle({ name, host, agent }: Machine): Promise<void> {
    if (!this.#isEnforced) return;
    const { exit, stdout, stderr } = await host.run([join(BIN_DIR, "tortiectl"), "policy", "wait"], { env: { TORTIE_SOCK: agent.socket } });
    if (exit !== 0) throw new Error(`policy wait on ${name}: exit ${exit}: ${stdout}${stderr}\n${agent.log}`);
  }
}
