/**
 * Keeps the kernel's routes to other nodes as the cluster says, as one background task: it runs when something changes, and every minute
 * for what others have changed in the kernel. It touches nothing while Felix makes the routes, and nothing while the cluster is not being
 * heard of.
 */

import type { NetworkReport, NodeNetwork, NodeState } from "../../dataplane/dataplane.ts";
import type { NetworkFacts } from "../../dataplane/linux/host-facts.ts";
import type { Family } from "../../lib/addresses/address.ts";
import { Observations } from "../../lib/resident/observations.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import {
  byFamily,
  type ClusterClaims,
  type ClusterView,
  FAMILIES,
  type OwnNode,
  type ProvenNode,
  type RouteSources,
  VXLAN,
} from "./model.ts";
import { annotationsFor, underlayOf } from "./own-node.ts";
import type { TunnelView } from "./own-tunnels.ts";
import { type NetworkPlan, planNodeRoutes } from "./plan.ts";

/** Changes come in bursts, one for each object. */
const GATHER_MS = 50;
const LOOK_MS = 100;
/** How long an address of the node may be missing: an interface is down while it is reconfigured. */
const LEAST_LOST_MS = 60_000;
const NO_TUNNELS: TunnelView = { pools: [], blocks: [] };

export interface NodeRoutesParts {
  readonly node: string;
  readonly mayTunnel: boolean;
  readonly sources: RouteSources;
  readonly facts: () => NetworkFacts;
  /** Keeps those claims of the cluster that this host's own facts confirm. */
  readonly prove: (claims: ClusterClaims, facts: NetworkFacts) => ClusterView;
  /** This node's ends of the tunnels that the view asks for; `failed` is called for each that cannot be made. */
  readonly tunnels: (
    node: ProvenNode,
    view: TunnelView,
    underlay: OwnNode["underlay"],
    failed: (message: string) => void,
  ) => Promise<OwnNode["tunnels"]>;
  /** Releases tunnel addresses that are not used any more, neither by the kernel nor by what the cluster says of this node. */
  readonly giveBackTunnels: (node: ProvenNode) => Promise<void>;
  /** What the node holds besides, for the addresses of this view. */
  readonly state: (view: ClusterView) => Promise<NodeState>;
  /** Guards the node against its pods. They do not wait for what the cluster says of routes. */
  readonly guard: () => Promise<void>;
  readonly applyNode: (state: NodeState) => Promise<NetworkReport | undefined>;
  /** Called with the size of the largest packet that leaves this node for another's pods, in bytes. */
  readonly onMtu: (mtu: number) => void;
  /** Called with what was mended in the kernel although nothing had changed in the cluster. */
  readonly onDrift: (changed: readonly string[]) => void;
  readonly clock: Pick<Clock, "sleep" | "now">;
  readonly log: { info(message: string): void };
}

export class NodeRoutes {
  readonly #parts: NodeRoutesParts;
  #status: RoutesStatus = WAITING;
  #applied: NodeNetwork | undefined;
  readonly #gone: Observations;
  #proven: ClusterView = { nodes: [], blocks: [], pools: [], refused: [] };

  constructor(parts: NodeRoutesParts) {
    this.#parts = parts;
    this.#gone = new Observations(parts.clock);
  }

  get status(): RoutesStatus {
    return this.#status;
  }

  /** Returns what held at the last look. */
  get proven(): ClusterView {
    return this.#proven;
  }

  /** @throws Error when a part failed; the others are done, and the caller tries again */
  async run(signal: AbortSignal): Promise<void> {
    const { sources, clock, facts, guard } = this.#parts;
    await guard();
    await clock.sleep(GATHER_MS, signal);
    await sources.start();
    await this.#untilFollowed(signal);
    if (signal.aborted) return;
    const felix = signOfFelix(facts());
    if (felix !== undefined) {
      this.#note({ kind: "stood-down", sign: felix });
      return;
    }
    const failed: string[] = [];
    await this.#apply(sources.claims, failed);
    if (failed.length > 0) throw new Error(failed.join("; "));
  }

  /** Waits until everything is followed: a look at less would remove routes (design, invariant 14). */
  async #untilFollowed(signal: AbortSignal): Promise<void> {
    const { sources, clock } = this.#parts;
    while (sources.gap !== undefined && !signal.aborted) {
      if (this.#status.kind !== "waiting" || this.#status.cause !== sources.gap) this.#note({ kind: "waiting", cause: sources.gap });
      await clock.sleep(LOOK_MS, signal);
    }
  }

  async #apply(claims: ClusterClaims, failed: string[]): Promise<void> {
    const { node: name, sources, mayTunnel, tunnels, state, applyNode, onMtu, prove } = this.#parts;
    const facts = this.#parts.facts();
    const view = prove(claims, facts);
    this.#believe(view);
    const node = view.nodes.find((one) => one.name === name);
    if (node === undefined) {
      this.#note({ kind: "waiting", cause: `there is no node ${name}` });
      return;
    }
    const underlay = underlayOf(node, facts.addresses);
    const held = this.#lost(node, underlay);
    const ends = await tunnels(node, mayTunnel ? view : NO_TUNNELS, underlay, (message) => failed.push(message));
    const own: OwnNode = { name, underlay: { ...underlayWhere(node, held), ...underlay }, tunnels: ends };
    const plan = planNodeRoutes(own, view, mayTunnel);
    const mtu = held.length > 0 ? undefined : largestPacket(own);
    if (mtu !== undefined) onMtu(mtu);
    const report = await applyNode({ ...(await state(view)), network: { ...plan.network, held } });
    failed.push(...(report?.failed ?? []));
    this.#tell(plan, held, report?.changed ?? []);
    const lost = held.map(
      (family) => `no interface that is up has this node's IPv${family} address; its IPv${family} routes stay as they are`,
    );
    this.#note(statusOf(plan, report?.routes, [...lost, ...(report?.foreign ?? []), ...failed, ...view.refused]));
    // The others hear of this node when it can receive from them.
    const annotations = annotationsFor(node, own);
    if (annotations !== undefined) await sources.annotate(annotations);
    else if (failed.length === 0 && held.length === 0) await this.#parts.giveBackTunnels(node);
  }

  /** Takes over what is proven. Logs a refused claim once, as long as it is made. */
  #believe(view: ClusterView): void {
    for (const refused of view.refused) if (!this.#proven.refused.includes(refused)) this.#parts.log.info(`not believed: ${refused}`);
    this.#proven = view;
  }

  /** Families whose address this node had a moment ago, or had when its object was written. */
  #lost({ recorded }: ProvenNode, underlay: OwnNode["underlay"]): readonly Family[] {
    const lost = FAMILIES.filter(
      (family) => recorded[family] !== undefined && underlay[family] === undefined && !this.#gone.see(`IPv${family}`, LEAST_LOST_MS),
    );
    this.#gone.endLook();
    return lost;
  }

  #tell({ network }: NetworkPlan, held: readonly Family[], changed: readonly string[]): void {
    if (changed.length > 0) {
      const [first = ""] = changed;
      this.#parts.log.info(`routes between nodes: ${first}${changed.length > 1 ? ` and ${changed.length - 1} more` : ""}`);
      if (Bun.deepEquals(network, this.#applied)) this.#parts.onDrift(changed);
    }
    if (held.length === 0) this.#applied = network;
  }

  #note(status: RoutesStatus): void {
    if (status.kind !== this.#status.kind && status.kind === "stood-down") {
      this.#parts.log.info(`routes between nodes are left to Felix: there are ${status.sign}`);
    }
    this.#status = status;
  }
}

/** The recorded addresses of these families, for guards; nothing is made with them. */
function underlayWhere({ recorded }: ProvenNode, held: readonly Family[]): OwnNode["underlay"] {
  return byFamily((family) => {
    const address = held.includes(family) ? recorded[family] : undefined;
    return address && { address, mtu: 0 };
  });
}

/** Computes the smallest of the families, each with the headers of its tunnel; `undefined` while the node's addresses are not known. */
function largestPacket({ underlay, tunnels }: OwnNode): number | undefined {
  const sizes = FAMILIES.flatMap((family) => {
    const mtu = underlay[family]?.mtu;
    return mtu === undefined ? [] : [tunnels[family] === undefined ? mtu : mtu - VXLAN[family].overhead];
  });
  return sizes.length === 0 ? undefined : Math.min(...sizes);
}

/** How the routes between nodes are, in words for health. Pure. */
export type RoutesStatus =
  | { readonly kind: "waiting"; readonly cause: string }
  /** Felix makes the routes: `sign` is what it is known by. */
  | { readonly kind: "stood-down"; readonly sign: string }
  | { readonly kind: "working"; readonly message: string; readonly problems: readonly string[] };

const WAITING: RoutesStatus = { kind: "waiting", cause: "nothing has been looked at yet" };

/** One node can name any number of wrong addresses; the log has them all. */
const MOST_PROBLEMS = 10;

/**
 * @param held number of routes in the kernel, if it is known
 * @param problems what failed, is in the way, or was not believed, one sentence each
 */
function statusOf({ network, unserved }: NetworkPlan, held: number | undefined, problems: readonly string[]): RoutesStatus {
  const { routes, tunnels } = network;
  const count = held === undefined || held === routes.length ? `${routes.length} routes` : `${held} of ${routes.length} routes`;
  const names = tunnels.map(({ name, peers }) => `${name} with ${peers.length} peers`);
  const without = [...unserved].map(([reason, count]) => `${count} without a route: ${reason}`);
  const all = [...problems, ...without];
  const shown = all.length > MOST_PROBLEMS ? [...all.slice(0, MOST_PROBLEMS), `and ${all.length - MOST_PROBLEMS} more`] : all;
  return { kind: "working", message: [count, ...names].join(", "), problems: shown };
}

/** Protocol number of Felix' routes to other nodes' pods and of its blackhole routes. */
export const FELIX_ROUTE_PROTOCOL = 80;
export const FELIX_DEVICES: readonly string[] = [VXLAN[4].device, VXLAN[6].device];

/**
 * Finds out whether Felix makes this node's routes, by what it leaves in the kernel: an agent without a view of other processes sees that.
 * @returns the sign of it in words; `undefined` without a sign
 */
function signOfFelix({ foreignRoutes, foreignDevices }: NetworkFacts): string | undefined {
  const signs = [
    ...(foreignRoutes > 0 ? [`${foreignRoutes} routes of protocol ${FELIX_ROUTE_PROTOCOL}`] : []),
    ...foreignDevices.map((name) => `interface ${name}`),
  ];
  return signs.length === 0 ? undefined : signs.join(" and ");
}
