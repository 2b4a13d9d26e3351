/** The floor program under measurement: it repeats the requests of one ADD and one DEL of tortie, on objects that only it writes to. */
import { readFileSync } from "node:fs";
import type { SeenRequest } from "../../support/kubernetes/fault-proxy.ts";
import { measure, runProcess, type Sample } from "../contender.ts";
import { callFor, type Stage } from "../kubernetes/stage.ts";
import type { FloorPlan } from "./floor-program.ts";
import { freshRequests } from "./floor-requests.ts";

export interface FloorSetup {
  readonly stage: Stage;
  /** The compiled program. */
  readonly executable: string;
  /** The folder of the plugin's executables, whose requests it repeats. */
  readonly bin: string;
  /** A node and a pod of it that nothing else is measured with. */
  readonly node: string;
  readonly pod: string;
}

type Operations = Readonly<Record<"ADD" | "DEL", readonly SeenRequest[]>>;

export class Floor {
  readonly #setup: FloorSetup;
  readonly #access: Pick<FloorPlan, "server" | "ca" | "token">;
  readonly #recorded: Operations;

  private constructor(setup: FloorSetup, access: Pick<FloorPlan, "server" | "ca" | "token">, recorded: Operations) {
    this.#setup = setup;
    this.#access = access;
    this.#recorded = recorded;
  }

  static async create(setup: FloorSetup): Promise<Floor> {
    const { cluster } = setup.stage;
    const access = { server: cluster.server, ca: readFileSync(cluster.caPath, "utf8"), token: await cluster.tokenFor("cni") };
    return new Floor(setup, access, await record(setup));
  }

  /** ADD and DEL alternate: each finds what the other left. @returns runs it; what it needs has been read by then */
  async prepare(command: "ADD" | "DEL"): Promise<() => Promise<Sample>> {
    const requests = await freshRequests(this.#recorded[command], this.#setup.stage.cluster);
    const plan: FloorPlan = { ...this.#access, requests };
    return () => runProcess(`floor ${command}`, [this.#setup.executable], JSON.stringify(plan), {});
  }
}

/** The second ADD and DEL of the node: its block is there by then. */
async function record({ stage, node, pod, bin }: FloorSetup): Promise<Operations> {
  await using proxy = await stage.cluster.proxy();
  const plugin = stage.plugin(node, await proxy.kubeconfigFor("cni"), bin);
  const operate = async (command: "ADD" | "DEL") => {
    await measure(plugin, callFor(command, pod, "floor", stage.sandboxes[0] ?? ""));
    return proxy.requests.splice(0);
  };
  await operate("ADD");
  await operate("DEL");
  return { ADD: await operate("ADD"), DEL: await operate("DEL") };
}
