/**
 * The verdict on a pretend machine when its test is over, without being told what should be there: the kernel, the store and what calls
 * have answered must agree. Pure.
 */
import type { Attachment } from "./ledger.ts";
import { doubled, handleOf, miscounted, type Violation, violation, withoutWorkload } from "./violations.ts";
import { NOTHING_ALLOWED, type Seen, type SeenLink, type SeenStore } from "./world.ts";

/** @param ended attachments whose DEL succeeded, or whose only ADD failed */
export function violationsAtRest(seen: Seen, ended: readonly Attachment[]): readonly Violation[] {
  return [...doubled(seen, NOTHING_ALLOWED), ...notGranted(seen), ...unasked(seen), ...notReleased(seen, ended), ...miscounted(seen)];
}

/** `tortie:network/container/ifname`, and a pod behind it; nothing for a digest or another's alias. */
function attachmentOf(alias: string): Attachment | undefined {
  const [network = "", containerId = "", ifname = ""] = alias.startsWith("tortie:") ? alias.slice("tortie:".length).split("/") : [];
  return ifname === "" ? undefined : { network, containerId, ifname };
}

/** The host end of a pod's link: each of the two names the other's number. */
function hostEndOf({ index, peer }: SeenLink, host: readonly SeenLink[]): SeenLink | undefined {
  return host.find((link) => link.index === peer && link.peer === index);
}

/** Each address of a link of ours is granted to the attachment that its host end names. */
function notGranted({ host, sandboxes, store }: Seen): Violation[] {
  const granted = new Map(store.grants.map(({ address, handle }) => [address, handle]));
  return [...sandboxes].flatMap(([sandbox, { links }]) =>
    links.flatMap((link) => {
      const owner = attachmentOf(hostEndOf(link, host.links)?.alias ?? "");
      if (owner === undefined) return [];
      return link.addresses
        .filter((address) => granted.get(address) !== handleOf(owner))
        .map((address) => `${sandbox} ${link.name} of ${handleOf(owner)} bears ${address}, granted to ${granted.get(address) ?? "nobody"}`)
        .map(violation("not-granted"));
    }),
  );
}

/** No link of ours without a record, no route through one to an address that its pod neither bears nor has, no link left in a group. */
function unasked({ host, sandboxes, store }: Seen): Violation[] {
  const found: string[] = [];
  for (const { name, alias, group } of host.links) {
    const owner = attachmentOf(alias);
    const isRecorded = owner === undefined || store.lacksEndpoints === true || hasEndpoint(store, owner);
    if (!isRecorded) found.push(`link ${name} "${withoutWorkload(alias)}" on the host, without record`);
    if (group !== "default") found.push(`link ${name} of group ${group} on the host`);
  }
  const ends = new Map(host.links.map((link) => [link.name, link]));
  const inside = [...sandboxes.values()].flatMap(({ links }) => links);
  for (const { destination, device } of host.routes) {
    const end = ends.get(device);
    const owner = attachmentOf(end?.alias ?? "");
    if (end === undefined || owner === undefined) continue;
    const isGranted = store.grants.some(({ address, handle }) => address === destination && handle === handleOf(owner));
    const isBorne = inside.some((link) => hostEndOf(link, [end]) !== undefined && link.addresses.includes(destination));
    if (!isGranted && !isBorne) found.push(`route ${destination} dev ${device} on the host`);
  }
  return found.map(violation("unasked"));
}

function notReleased({ host, store }: Seen, ended: readonly Attachment[]): Violation[] {
  const aliases = new Set(host.links.map(({ alias }) => withoutWorkload(alias)));
  return ended
    .flatMap((one) => [
      ...store.grants.filter(({ handle }) => handle === handleOf(one)).map(({ address, handle }) => `${address} of ${handle}`),
      ...(hasEndpoint(store, one) ? [`endpoint of ${one.containerId} ${one.ifname}`] : []),
      ...(aliases.has(`tortie:${one.network}/${one.containerId}/${one.ifname}`) ? [`link of ${handleOf(one)} ${one.ifname}`] : []),
    ])
    .map(violation("not-released"));
}

function hasEndpoint({ endpoints }: SeenStore, { containerId, ifname }: Attachment): boolean {
  return endpoints.includes(`${containerId} ${ifname}`);
}
