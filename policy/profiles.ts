/** Keeps one profile for all endpoints that fall under the same rules, with what it allows each class in use. */
import type { ClassName, Direction, Permission, Permissions } from "../dataplane/packet-policy.ts";
import { sha256 } from "../lib/system/hash.ts";
import type { Active } from "./active.ts";
import type { ClassTable } from "./classes.ts";
import type { Enforcement, NamedPort } from "./model.ts";
import { permissionKey } from "./permissions.ts";
import { Profile, portNumbers } from "./profile.ts";
import { describePorts, type Policy, type PortName, type Rule, rulesOf } from "./rules.ts";

/** A profile in use. */
export interface SharedProfile {
  readonly key: string;
  readonly direction: Direction;
  readonly rules: readonly Rule[];
  readonly profile: Profile;
  /** Sorted by class; replaced, never changed, as others hold it. */
  permissions: Permissions;
  isNew: boolean;
  users: number;
}

/** Permissions that are kept although nobody may use them any more. */
const SPARE_PERMISSIONS = 1_000;

export class Profiles {
  readonly #active: Active;
  readonly #table: ClassTable;
  readonly #enforcement: Enforcement;
  readonly #profiles = new Map<string, SharedProfile>();
  readonly #digests = new WeakMap<Policy, Map<Direction, string>>();
  /** Equal permissions are one object, so that they can be compared at no cost. */
  #permissions = new Map<string, Permission>();
  #kept = 0;

  constructor(active: Active, table: ClassTable, enforcement: Enforcement) {
    this.#active = active;
    this.#table = table;
    this.#enforcement = enforcement;
  }

  /**
   * @param policies those that select an endpoint in this direction, in the order in which they are asked
   * @returns `undefined` when the direction is open
   */
  acquire(policies: readonly Policy[], direction: Direction, ports: readonly NamedPort[]): SharedProfile | undefined {
    const isOpen = this.#enforcement === "never" || (this.#enforcement === "default" && policies.length === 0);
    if (isOpen) return undefined;
    const rules = policies.flatMap((policy) => rulesOf(policy, direction) ?? []);
    const own = direction === "ingress" ? namesIn(rules).flatMap((one) => portNumbers(ports, one.name, one.protocol).join()) : [];
    const key = [direction, ...policies.map((policy) => this.#digest(policy, direction)), ...own].join(" ");
    const known = this.#profiles.get(key);
    if (known !== undefined) {
      known.users++;
      return known;
    }
    const otherwise = this.#enforcement === "always" ? "deny" : "allow";
    const profile = new Profile(policies, direction, ports, otherwise, (permission) => this.#intern(permission));
    const shared: SharedProfile = { key, direction, rules, profile, permissions: new Map(), isNew: true, users: 1 };
    this.#profiles.set(key, shared);
    this.#active.retain(rules, direction === "egress");
    return shared;
  }

  release(shared: SharedProfile | undefined): void {
    if (shared === undefined || --shared.users > 0) return;
    this.#profiles.delete(shared.key);
    this.#active.release(shared.rules, shared.direction === "egress");
  }

  /** Brings all profiles up to date with the classes in use. @returns those that allow something else than before */
  update(changed: readonly ClassName[]): ReadonlySet<SharedProfile> {
    const different = new Set<SharedProfile>();
    for (const shared of this.#profiles.values()) {
      const names = shared.isNew ? this.#table.names() : changed;
      const permissions = this.#changed(shared, names);
      if (permissions !== undefined || shared.isNew) different.add(shared);
      shared.permissions = permissions ?? shared.permissions;
      shared.isNew = false;
    }
    this.#forgetUnused();
    return different;
  }

  /** @returns `undefined` when nothing changes */
  #changed({ profile, permissions }: SharedProfile, names: readonly ClassName[]): Permissions | undefined {
    const changes = new Map<ClassName, Permission | undefined>();
    for (const name of names) {
      const peers = this.#table.get(name);
      const permission = peers && profile.permissionOf(peers);
      if (permission !== permissions.get(name)) changes.set(name, permission);
    }
    if (changes.size === 0) return undefined;
    const all = new Set([...permissions.keys(), ...changes.keys()]);
    const after = new Map<ClassName, Permission>();
    for (const name of [...all].sort()) {
      const permission = changes.has(name) ? changes.get(name) : permissions.get(name);
      if (permission !== undefined) after.set(name, permission);
    }
    return after;
  }

  #intern(permission: Permission): Permission {
    return this.#permissions.getOrInsert(permissionKey(permission), permission);
  }

  #forgetUnused(): void {
    if (this.#permissions.size <= 2 * this.#kept + SPARE_PERMISSIONS) return;
    this.#permissions = new Map();
    for (const { profile, permissions } of this.#profiles.values()) {
      profile.forget();
      for (const permission of new Set(permissions.values())) this.#intern(permission);
    }
    this.#kept = this.#permissions.size;
  }

  #digest(policy: Policy, direction: Direction): string {
    const known = this.#digests.getOrInsertComputed(policy, () => new Map());
    return known.getOrInsertComputed(direction, () => digestOf(policy, direction));
  }
}

/** Equal for policies that say the same in a direction. */
function digestOf(policy: Policy, direction: Direction): string {
  const rules = (rulesOf(policy, direction) ?? []).map(({ action, peers, ports }) => [
    action,
    peers === "any" ? peers : peers.map(({ key }) => key),
    ports === "all" ? ports : ports.map(describePorts),
  ]);
  return sha256(JSON.stringify([policy.tier.order, policy.tier.otherwise, rules]));
}

function namesIn(rules: readonly Rule[]): readonly PortName[] {
  return rules.flatMap(({ ports }) => (ports === "all" ? [] : ports.filter((one) => one.kind === "name")));
}
