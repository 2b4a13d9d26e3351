/**
 * The first pools of a new cluster, by `--ipv4-pool` and `--ipv6-pool` (judge/first-pools.ts). A pool is made or left alone, never changed
 * or deleted: once made it is the administrator's. Items are `pool <name>`.
 */
import type { Family } from "../../lib/addresses/address.ts";
import type { ApiGroup } from "../../lib/datastore/calico/group.ts";
import { ApiError } from "../../lib/kubernetes/api-client.ts";
import { type PlannedPool, type PoolPlan, planPools } from "../judge/first-pools.ts";
import type { ControllerOptions } from "../options.ts";
import type { Duty, DutyContext } from "./duty.ts";

/** Label of what the controller has made, and who that is. */
export const MADE_BY = "tortie.dev/made-by";
export const US = "tortie-controller";
/** Annotation of a pool: where its range comes from. */
const SOURCE = "tortie.dev/range-from";

export class FirstPools implements Duty {
  readonly name = "first-pools";
  /** Nodes of a new cluster get their ranges when they come. */
  readonly mostMs = 10_000;
  readonly #context: DutyContext;
  readonly #group: ApiGroup;
  readonly #options: readonly (readonly [Family, string])[];
  #refusals: readonly string[] = [];

  constructor(context: DutyContext, group: ApiGroup, options: Pick<ControllerOptions, "ipv4-pool" | "ipv6-pool">) {
    this.#context = context;
    this.#group = group;
    this.#options = [
      [4, options["ipv4-pool"]],
      [6, options["ipv6-pool"]],
    ];
  }

  /** Why pools that are asked for were not made at the last look, and what to set. */
  get refusals(): readonly string[] {
    return this.#refusals;
  }

  async look(): Promise<readonly string[]> {
    return (await this.#plan()).map(({ name }) => `pool ${name}`);
  }

  async work(item: string): Promise<void> {
    const planned = (await this.#plan()).find(({ name }) => item === `pool ${name}`);
    if (planned === undefined) return;
    const { client, log } = this.#context;
    try {
      await client.request({
        method: "POST",
        path: `/apis/${this.#group}/ippools`,
        body: JSON.stringify(poolObject(planned, this.#group)),
      });
      log.info(`pool ${planned.name} is made: ${planned.cidr}, from ${planned.source}`);
    } catch (error) {
      // Somebody else was faster; the watch will show whose it is.
      if (!(error instanceof ApiError && error.status === 409)) throw error;
    }
  }

  async #plan(): Promise<readonly PlannedPool[]> {
    const asked = this.#options.filter(([, option]) => option !== "none");
    if (asked.length === 0) return [];
    const { view, live, log } = this.#context;
    view.mustBeComplete();
    const podSubnet = asked.some(([, option]) => option === "auto") ? await live.kubeadmPodSubnet() : "";
    // After the question, so that the pools are those of the latest moment.
    const pools = view.pools.map(({ pool, labels }) => ({ name: pool.name, cidr: pool.cidr, isOurs: labels[MADE_BY] === US }));
    const plans: readonly PoolPlan[] = asked.map(([family, option]) =>
      planPools({ family, option, podSubnet, nodes: view.nodeViews, pools }),
    );
    const refusals = plans.flatMap(({ refusal }) => refusal ?? []);
    for (const refusal of refusals) if (!this.#refusals.includes(refusal)) log.error(refusal);
    this.#refusals = refusals;
    return plans.flatMap(({ pools: planned }) => planned);
  }
}

/** Nodes of one subnet reach each other directly, others through VXLAN, where the agents make routes. */
function poolObject({ name, cidr, blockSize, source }: PlannedPool, group: ApiGroup): object {
  return {
    apiVersion: group,
    kind: "IPPool",
    metadata: { name, labels: { [MADE_BY]: US }, annotations: { [SOURCE]: source } },
    spec: {
      cidr,
      blockSize,
      vxlanMode: "CrossSubnet",
      ipipMode: "Never",
      natOutgoing: true,
      nodeSelector: "all()",
      allowedUses: ["Workload", "Tunnel"],
    },
  };
}
