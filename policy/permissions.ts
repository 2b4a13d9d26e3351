/** Collapses ordered rules of tiers into what is allowed in the end: disjoint intervals of ports, without order. */
import type { AllowedPorts, Permission } from "../dataplane/packet-policy.ts";
import { type Action, LAST_PORT, type PortRange, type Tier } from "./rules.ts";

/** What a rule says of one class of peers: its named ports are resolved. */
export interface ResolvedRule {
  readonly action: Action;
  readonly ports: "all" | readonly PortRange[];
}

/** The rules of one tier that apply, in order. */
export interface ResolvedTier {
  readonly otherwise: Tier["otherwise"];
  readonly rules: readonly ResolvedRule[];
}

const LAST_PROTOCOL = 255;

/**
 * @param otherwise what holds where every tier passes
 * @returns `undefined` when nothing is allowed
 */
export function collapse(tiers: readonly ResolvedTier[], otherwise: "allow" | "deny"): Permission | undefined {
  const isUnion = tiers.length === 1 && tiers[0]?.otherwise === "deny" && tiers[0].rules.every(({ action }) => action === "allow");
  if (isUnion) return unionOf(tiers[0]?.rules ?? []);
  const elsewhere = decide(tiers, undefined, otherwise);
  const exact = new Map<number, readonly AllowedPorts[]>();
  for (const protocol of protocolsOf(tiers)) exact.set(protocol, decide(tiers, protocol, otherwise));
  const isEverything = elsewhere.length > 0 && [...exact.values()].every((allowed) => isWhole(allowed));
  if (isEverything) return "all";
  const ports: AllowedPorts[] = [];
  for (let protocol = 0; protocol <= LAST_PROTOCOL; protocol++) {
    for (const allowed of exact.get(protocol) ?? elsewhere) ports.push({ ...allowed, protocol });
  }
  return ports.length === 0 ? undefined : ports;
}

/** Tells whether two permissions allow the same. */
export function permissionKey(permission: Permission): string {
  return permission === "all" ? "all" : permission.map(({ protocol, first, last }) => `${protocol}:${first}-${last}`).join(",");
}

/** Merges rules that all allow. */
function unionOf(rules: readonly ResolvedRule[]): Permission | undefined {
  const ranges: PortRange[] = [];
  for (const { ports } of rules) {
    if (ports === "all") return "all";
    for (const range of ports) ranges.push(range);
  }
  if (ranges.length === 0) return undefined;
  ranges.sort((one, other) => one.protocol - other.protocol || one.first - other.first);
  return mergeSorted(ranges);
}

/** @param sorted by protocol and first port */
function mergeSorted(sorted: Iterable<AllowedPorts>): readonly AllowedPorts[] {
  const merged: AllowedPorts[] = [];
  for (const { protocol, first, last } of sorted) {
    const before = merged.at(-1);
    if (before === undefined || before.protocol !== protocol || first > before.last + 1) merged.push({ protocol, first, last });
    else if (last > before.last) merged[merged.length - 1] = { ...before, last };
  }
  return merged;
}

function protocolsOf(tiers: readonly ResolvedTier[]): ReadonlySet<number> {
  return new Set(
    tiers.flatMap(({ rules }) => rules.flatMap(({ ports }) => (ports === "all" ? [] : ports.map(({ protocol }) => protocol)))),
  );
}

function isWhole(allowed: readonly AllowedPorts[]): boolean {
  return allowed.length === 1 && allowed[0]?.first === 0 && allowed[0].last === LAST_PORT;
}

/**
 * Lists the ports that one protocol is allowed in the end.
 * @param protocol `undefined`: a protocol that no rule names
 */
function decide(tiers: readonly ResolvedTier[], protocol: number | undefined, otherwise: "allow" | "deny"): readonly AllowedPorts[] {
  const segments = new Segments(tiers, protocol);
  for (const tier of tiers) {
    segments.beginTier();
    for (const { action, ports } of tier.rules) {
      for (const { first, last } of rangesOf(ports, protocol)) segments.decide(first, last, action);
    }
    segments.endTier(tier.otherwise);
  }
  segments.beginTier();
  segments.endTier(otherwise);
  return mergeSorted(segments.allowed().map(([first, last]) => ({ protocol: protocol ?? 0, first, last })));
}

const EVERY_PORT: readonly Pick<PortRange, "first" | "last">[] = [{ first: 0, last: LAST_PORT }];

function rangesOf(ports: ResolvedRule["ports"], protocol: number | undefined): readonly Pick<PortRange, "first" | "last">[] {
  return ports === "all" ? EVERY_PORT : ports.filter((one) => one.protocol === protocol);
}

/** The ports of one protocol, cut wherever a rule begins or ends, and what was decided of each piece. */
class Segments {
  readonly #starts: readonly number[];
  readonly #decisions: (Action | undefined)[];
  /** For each piece the next one that the present tier has not decided; leads over decided ones. */
  #next: number[] = [];

  constructor(tiers: readonly ResolvedTier[], protocol: number | undefined) {
    const cuts = new Set([0]);
    for (const { first, last } of tiers.flatMap(({ rules }) => rules.flatMap(({ ports }) => rangesOf(ports, protocol)))) {
      cuts.add(first);
      if (last < LAST_PORT) cuts.add(last + 1);
    }
    this.#starts = [...cuts].sort((one, other) => one - other);
    this.#decisions = this.#starts.map(() => undefined);
  }

  /** Opens what the tier before passed. */
  beginTier(): void {
    this.#decisions.forEach((decision, index) => {
      if (decision === "pass") this.#decisions[index] = undefined;
    });
    this.#next = this.#decisions.map((decision, index) => (decision === undefined ? index : index + 1));
    this.#next.push(this.#decisions.length);
  }

  /** The first rule that names a port decides in its tier. */
  decide(first: number, last: number, action: Action): void {
    for (let index = this.#undecided(this.#indexOf(first)); (this.#starts[index] ?? Infinity) <= last; index = this.#undecided(index + 1)) {
      this.#decisions[index] = action;
      this.#next[index] = index + 1;
    }
  }

  endTier(otherwise: Action): void {
    this.decide(0, LAST_PORT, otherwise);
  }

  allowed(): readonly (readonly [first: number, last: number])[] {
    return this.#starts.flatMap((first, index) =>
      this.#decisions[index] === "allow" ? [[first, (this.#starts[index + 1] ?? LAST_PORT + 1) - 1] as const] : [],
    );
  }

  #indexOf(start: number): number {
    let low = 0;
    let high = this.#starts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#starts[middle] ?? 0) < start) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #undecided(from: number): number {
    let at = from;
    while (this.#next[at] !== undefined && this.#next[at] !== at) at = this.#next[at] ?? at;
    // Shortens the way for the next search.
    let passed = from;
    while (passed < at) {
      const after = this.#next[passed] ?? at;
      this.#next[passed] = at;
      passed = after;
    }
    return at;
  }
}
