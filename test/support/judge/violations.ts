/** The verdict: pure, from what was seen and what should be there. Each rule names what it found in one line. */
import ipaddr from "ipaddr.js";
import { type Allowed, DEFAULT_ROUTES, type Expected, type Seen, type SeenNamespace, type Wanted } from "./world.ts";

type Prefix = ReturnType<typeof ipaddr.parseCIDR>;

/** "unseen": it could not be looked at. */
export type Rule = "doubled" | "not-granted" | "unasked" | "lost" | "not-released" | "miscounted" | "cut-off" | "unseen";

export interface Violation {
  readonly rule: Rule;
  readonly what: string;
}

/** @returns everything that is wrong, in the order of the rules; empty when all is well */
export function violations(seen: Seen, expected: Expected): readonly Violation[] {
  return [
    ...doubled(seen, expected.allowed),
    ...notGranted(seen, expected),
    ...unasked(seen, expected),
    ...lost(seen, expected),
    ...notReleased(seen, expected),
    ...miscounted(seen),
    ...(seen.unanswered ?? []).map((way) => `no answer from ${way}`).map(violation("cut-off")),
  ];
}

/** Handle of an attachment's addresses (I§1.1). */
export function handleOf({ network, containerId }: Pick<Wanted, "network" | "containerId">): string {
  return `${network}.${containerId}`;
}

/** Every address is in the kernel once, granted to one, and in one block. */
export function doubled({ host, sandboxes, store }: Seen, allowed: Allowed): Violation[] {
  const bearers = new Map<string, string[]>();
  for (const [place, { links }] of [["host", host] as const, ...sandboxes]) {
    for (const { name, addresses } of links) {
      for (const address of addresses) bearers.set(address, [...(bearers.get(address) ?? []), `${place} ${name}`]);
    }
  }
  const owners = new Map<string, string[]>();
  for (const { address, handle } of store.grants) owners.set(address, [...(owners.get(address) ?? []), handle]);
  return [
    ...twice(bearers, (address) => !allowed.addresses.has(address)).map(([address, all]) => `${address} is on ${all.join(" and ")}`),
    ...twice(owners, () => true).map(([address, all]) => `${address} is granted to ${all.join(" and ")}`),
    ...overlapping(store.blocks ?? []).map(([one, other]) => `block ${one} overlaps block ${other}`),
  ].map(violation("doubled"));
}

function overlapping(blocks: readonly string[]): (readonly [string, string])[] {
  const parsed = blocks.map((cidr) => ({ cidr, prefix: ipaddr.parseCIDR(cidr) }));
  return parsed.flatMap((one, place) =>
    parsed
      .slice(place + 1)
      .filter((other) => overlap(one.prefix, other.prefix))
      .map((other) => [one.cidr, other.cidr] as const),
  );
}

function overlap([one, length]: Prefix, [other, otherLength]: Prefix): boolean {
  return one.kind() === other.kind() && one.match(other, Math.min(length, otherLength));
}

function twice(found: ReadonlyMap<string, readonly string[]>, counts: (address: string) => boolean) {
  return [...found].filter(([address, all]) => all.length > 1 && counts(address));
}

/** Whoever bears an address has it from the store. */
function notGranted({ sandboxes, store }: Seen, { wanted, allowed }: Expected): Violation[] {
  const handles = new Map(store.grants.map(({ address, handle }) => [address, handle]));
  return [...sandboxes].flatMap(([sandbox, { links }]) =>
    links.flatMap(({ name, addresses }) => {
      const owners = wanted.filter((one) => one.sandbox === sandbox && one.ifname === name).map(handleOf);
      return addresses
        .filter((address) => !allowed.addresses.has(address) && !owners.includes(handles.get(address) ?? ""))
        .map((address) => `${sandbox} ${name} bears ${address}, granted to ${handles.get(address) ?? "nobody"}`)
        .map(violation("not-granted"));
    }),
  );
}

/** Nothing in a sandbox or on the host that nobody asked for. */
function unasked({ host, sandboxes }: Seen, { wanted, allowed, isForwarding }: Expected): Violation[] {
  const found: string[] = [];
  for (const [sandbox, seen] of sandboxes) {
    const ours = wanted.filter((one) => one.sandbox === sandbox);
    found.push(...linksBeside(seen, sandbox, new Set(ours.map(({ ifname }) => ifname)), allowed.links));
    const isItsOwn = (destination: string) => ours.length > 0 || allowed.routes.has(`${sandbox} ${destination}`);
    for (const { destination, device } of seen.routes) {
      if (!isItsOwn(destination)) found.push(`route ${destination} dev ${device} in ${sandbox}`);
    }
  }
  const aliases = new Set(wanted.map(aliasOf));
  for (const { name, alias, addresses } of host.links) {
    if (allowed.links.has(` ${name}`)) continue;
    if (!aliases.has(withoutWorkload(alias))) found.push(`link ${name} "${alias}" on the host`);
    for (const address of addresses) if (!allowed.addresses.has(address)) found.push(`address ${address} of ${name} on the host`);
  }
  const addresses = new Set(wanted.flatMap((one) => one.addresses));
  for (const { destination, device } of host.routes) {
    if (addresses.has(destination) || allowed.routes.has(` ${destination}`)) continue;
    found.push(`route ${destination} dev ${device} on the host`);
  }
  for (const table of host.tables) if (!allowed.tables.has(table)) found.push(`nftables ${table} on the host`);
  if (isForwarding && !host.isForwarding) found.push("net.ipv4.ip_forward 0 on the host");
  return found.map(violation("unasked"));
}

function linksBeside({ links }: SeenNamespace, place: string, ours: ReadonlySet<string>, allowed: ReadonlySet<string>): string[] {
  return links
    .filter(({ name }) => !ours.has(name) && !allowed.has(`${place} ${name}`))
    .map(({ name, addresses }) => `link ${[name, ...addresses].join(" ")} in ${place}`);
}

/** `tortie:network/container/ifname`; a Kubernetes pod's name follows after another "/". */
function aliasOf({ network, containerId, ifname }: Wanted): string {
  return `tortie:${network}/${containerId}/${ifname}`;
}

export function withoutWorkload(alias: string): string {
  return alias.split("/").slice(0, 3).join("/");
}

/** Whoever was given a link and addresses has them still, with their routes, unless somebody has changed that on purpose. */
function lost(seen: Seen, { wanted, allowed }: Expected): Violation[] {
  const { sandboxes, store } = seen;
  const granted = new Set(store.grants.map(({ address, handle }) => `${address} ${handle}`));
  const ofOthers = [...allowed.links].filter((place) => isGone(seen, place)).map((place) => `link of others, ${place.trim()}, is gone`);
  const ours = wanted.flatMap((one) => {
    const { sandbox, ifname, addresses, containerId } = one;
    const found: string[] = [];
    const inside = sandboxes.get(sandbox);
    const link = inside?.links.find(({ name }) => name === ifname);
    if (!one.mayLackLink && inside !== undefined) {
      if (link === undefined) found.push(`link ${ifname}`);
      if (!one.isElsewhere) found.push(...lostOnHost(seen, one));
    }
    if (link !== undefined && one.isChangedInside !== true) {
      found.push(...addresses.filter((address) => !link.addresses.includes(address)).map((address) => `address ${address}`));
      const families = new Set(addresses.map((address) => (address.includes(":") ? DEFAULT_ROUTES[6] : DEFAULT_ROUTES[4])));
      const there = new Set(inside?.routes.map(({ destination }) => destination));
      found.push(...[...families].filter((destination) => !there.has(destination)).map((destination) => `route ${destination}`));
    }
    found.push(...addresses.filter((address) => !granted.has(`${address} ${handleOf(one)}`)).map((address) => `grant of ${address}`));
    if (!store.endpoints.includes(`${containerId} ${ifname}`)) found.push("the endpoint in the store");
    return found.map((what) => `${containerId} in ${sandbox} lacks ${what}`);
  });
  return [...ofOthers, ...ours].map(violation("lost"));
}

function lostOnHost({ host }: Seen, one: Wanted): string[] {
  const routes = new Set(host.routes.map(({ destination }) => destination));
  const hasEnd = host.links.some(({ alias }) => withoutWorkload(alias) === aliasOf(one));
  return [
    ...(hasEnd ? [] : ["the link's host end"]),
    ...one.addresses.filter((address) => !routes.has(address)).map((address) => `route to ${address}`),
  ];
}

/** A link is missing from a place that is there. */
function isGone({ host, sandboxes }: Seen, place: string): boolean {
  const [sandbox = "", link] = place.split(" ");
  const links = (sandbox === "" ? host : sandboxes.get(sandbox))?.links;
  return links !== undefined && !links.some(({ name }) => name === link);
}

/** Nobody holds an address, or an endpoint, after its container is gone. */
function notReleased({ store }: Seen, { wanted }: Expected): Violation[] {
  const owners = new Map<string, Set<string>>();
  for (const one of wanted) owners.set(handleOf(one), new Set([...(owners.get(handleOf(one)) ?? []), ...one.addresses]));
  const endpoints = new Set(wanted.map(({ containerId, ifname }) => `${containerId} ${ifname}`));
  return [
    ...store.grants
      .filter(({ address, handle }) => owners.get(handle)?.has(address) !== true)
      .map(({ address, handle }) => `${address} of ${handle}`),
    ...[...store.handles.keys()].filter((handle) => !owners.has(handle)).map((handle) => `handle ${handle}`),
    ...store.endpoints.filter((endpoint) => !endpoints.has(endpoint)).map((endpoint) => `endpoint of ${endpoint}`),
  ].map(violation("not-released"));
}

/** A handle counts what its blocks hold. */
export function miscounted({ store }: Seen): Violation[] {
  const counts = new Map<string, number>();
  for (const { handle } of store.grants) counts.set(handle, (counts.get(handle) ?? 0) + 1);
  return [...new Set([...counts.keys(), ...store.handles.keys()])]
    .filter((handle) => (counts.get(handle) ?? 0) !== (store.handles.get(handle) ?? 0))
    .map((handle) => `${handle} counts ${store.handles.get(handle) ?? 0} addresses, its blocks hold ${counts.get(handle) ?? 0}`)
    .map(violation("miscounted"));
}

export function violation(rule: Rule): (what: string) => Violation {
  return (what) => ({ rule, what });
}
