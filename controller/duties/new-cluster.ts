/**
 * Makes what a new cluster needs before its first pod. Both duties make an object or leave it alone, and never change or delete it: once
 * made it is the administrator's.
 */
import type { Family } from "../../lib/addresses/address.ts";
import { type PlannedPool, planPools } from "../judge/first-pools.ts";
import type { ControllerOptions } from "../options.ts";
import { answerUnless, type Duty, type DutyContext } from "./duty.ts";

/** Label of what the controller has made, and who that is. */
const MADE_BY = "tortie.dev/made-by";
const US = "tortie-controller";
/** Annotation of a pool: where its range comes from. */
const SOURCE = "tortie.dev/range-from";

/** @returns whether it was made here: somebody else may have been faster */
async function create({ client, group }: DutyContext, resource: string, object: object): Promise<boolean> {
  const body = JSON.stringify({ apiVersion: group, ...object });
  return (await answerUnless([409], client, { method: "POST", path: `/apis/${group}/${resource}`, body })) !== undefined;
}

/**
 * Makes ClusterInformation `default`, which says that plugins may work. An existing one stays as it is: an upgrade or a migration may have
 * paused the cluster with it. The only item is `default`.
 */
export class ClusterInformationMark implements Duty {
  readonly name = "cluster-information";
  readonly #context: DutyContext;
  /** Seen in this term: whoever deletes it later means it. */
  #wasSeen = false;

  constructor(context: DutyContext) {
    this.#context = context;
  }

  async look(): Promise<readonly string[]> {
    return (await this.#isThere()) ? [] : ["default"];
  }

  async work(): Promise<void> {
    if (await this.#isThere()) return;
    const metadata = { name: "default", labels: { [MADE_BY]: US } };
    const isMade = await create(this.#context, "clusterinformations", {
      kind: "ClusterInformation",
      metadata,
      spec: { datastoreReady: true },
    });
    if (isMade) this.#context.log.info("ClusterInformation default is made: plugins may work");
  }

  async #isThere(): Promise<boolean> {
    this.#wasSeen ||= (await this.#context.datastore.clusterInformation.get("default")) !== undefined;
    return this.#wasSeen;
  }
}

/** Makes the first pools, by `--ipv4-pool` and `--ipv6-pool` (judge/first-pools.ts). Items are `pool <name>`. */
export class FirstPools implements Duty {
  readonly name = "first-pools";
  /** Nodes of a new cluster get their ranges when they come. */
  readonly mostMs = 10_000;
  readonly #context: DutyContext;
  readonly #asked: readonly (readonly [Family, string])[];
  #refusals: readonly string[] = [];

  constructor(context: DutyContext, options: Pick<ControllerOptions, "ipv4-pool" | "ipv6-pool">) {
    this.#context = context;
    const all = [[4, options["ipv4-pool"]] as const, [6, options["ipv6-pool"]] as const];
    this.#asked = all.filter(([, option]) => option !== "none");
  }

  /** Says why pools that are asked for were not made at the last look, and what to set. */
  get refusals(): readonly string[] {
    return this.#refusals;
  }

  async look(): Promise<readonly string[]> {
    return (await this.#plan()).map(({ name }) => `pool ${name}`);
  }

  async work(item: string): Promise<void> {
    const planned = (await this.#plan()).find(({ name }) => item === `pool ${name}`);
    if (planned === undefined || !(await create(this.#context, "ippools", poolObject(planned)))) return;
    this.#context.log.info(`pool ${planned.name} is made: ${planned.cidr}, from ${planned.source}`);
  }

  async #plan(): Promise<readonly PlannedPool[]> {
    if (this.#asked.length === 0) return [];
    const { view, live, log } = this.#context;
    view.mustBeComplete();
    const podSubnet = this.#asked.some(([, option]) => option === "auto") ? await live.kubeadmPodSubnet() : "";
    // After the question, so that the pools are those of the latest moment.
    const pools = view.pools.map(({ pool, labels }) => ({ name: pool.name, cidr: pool.cidr, isOurs: labels[MADE_BY] === US }));
    const plans = this.#asked.map(([family, option]) => planPools({ family, option, podSubnet, nodes: view.nodeViews, pools }));
    const refusals = plans.flatMap(({ refusal }) => refusal ?? []);
    for (const refusal of refusals) if (!this.#refusals.includes(refusal)) log.error(refusal);
    this.#refusals = refusals;
    return plans.flatMap(({ pools: planned }) => planned);
  }
}

/** Nodes of one subnet reach each other directly, others through VXLAN, where the agents make routes. */
function poolObject({ name, cidr, blockSize, source }: PlannedPool): object {
  return {
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
