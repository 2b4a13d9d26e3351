/** How the routes between nodes are, in words for health. Pure. */
import type { NetworkPlan } from "./plan.ts";

export type RoutesStatus =
  | { readonly kind: "waiting"; readonly cause: string }
  /** Felix makes the routes: `sign` is what it is known by. */
  | { readonly kind: "stood-down"; readonly sign: string }
  | { readonly kind: "working"; readonly message: string; readonly problems: readonly string[] };

export const WAITING: RoutesStatus = { kind: "waiting", cause: "nothing has been looked at yet" };

/** One node can name any number of wrong addresses; the log has them all. */
const MOST_PROBLEMS = 10;

/** @param problems what could not be had or believed, one sentence each */
export function statusOf({ network, unserved }: NetworkPlan, problems: readonly string[]): RoutesStatus {
  const { routes, tunnels } = network;
  const names = tunnels.map(({ name, peers }) => `${name} with ${peers.length} peers`);
  const without = [...unserved].map(([reason, count]) => `${count} without a route: ${reason}`);
  const all = [...problems, ...without];
  const shown = all.length > MOST_PROBLEMS ? [...all.slice(0, MOST_PROBLEMS), `and ${all.length - MOST_PROBLEMS} more`] : all;
  return { kind: "working", message: [`${routes.length} routes`, ...names].join(", "), problems: shown };
}
