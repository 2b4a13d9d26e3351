/** Lists the host ends of attachments, whoever made them, with the addresses that the host sends to each and the sandbox behind it. */
import { readdirSync } from "node:fs";
import { type Address, bitsOf } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { ifReadable } from "../../lib/system/files.ts";
import { Sandbox, type SeenSandbox, seenOf } from "../../lib/system/sandbox.ts";
import { isAttachmentAlias } from "../alias.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import { type Link, listLinks, namespaceIdOf, setLinkAlias } from "../rtnetlink/link.ts";
import { listRoutes } from "../rtnetlink/route.ts";
import { isDeviceKind, isUnfinished } from "./ends.ts";

export interface HostEndLink extends Pick<Link, "index" | "name" | "alias" | "kind" | "peer"> {
  /** Destinations of its host routes. The kernel takes such a route from root alone, so each was given to the container behind it. */
  readonly addresses: readonly Address[];
}

/**
 * Lists the pairs that carry Tortie's alias or a name with one of these prefixes, by one dump of links and one of routes a family.
 * @throws NetlinkError
 */
export function listHostEnds({ route }: HostSockets, prefixes: readonly string[]): readonly HostEndLink[] {
  const ends = listLinks(route).filter((link) => {
    const isNamed = prefixes.some((prefix) => link.name.startsWith(prefix));
    return isDeviceKind(link.kind) && !isUnfinished(link) && (isNamed || isAttachmentAlias(link.alias));
  });
  if (ends.length === 0) return [];
  const addresses = new Map<number, Address[]>(ends.map(({ index }) => [index, []]));
  for (const { destination, index, gateway } of [...listRoutes(route, 4), ...listRoutes(route, 6)]) {
    const { address, length } = destination;
    if (gateway === undefined && length === bitsOf(address.family)) addresses.get(index)?.push(address);
  }
  return ends.map((link) => ({ ...link, addresses: addresses.get(link.index) ?? [] }));
}

/** Writes the alias of an attachment on a host end without one. @throws NetlinkError */
export function labelHostEnd({ route }: HostSockets, { index }: Pick<Link, "index">, alias: string): void {
  setLinkAlias(route, index, alias);
}

/** Directories in which runtimes name sandboxes; one leads to the other on most hosts. */
const NAMED = ["/run/netns", "/var/run/netns"];

/**
 * Finds the named sandboxes of the host, by the number that the host's namespace has for each: the `peer` of a host end has the same one.
 * A sandbox without a name there is not found, and the same number proves that a path leads to the pod end.
 */
export function namedSandboxes({ route }: HostSockets, directories: readonly string[] = NAMED): ReadonlyMap<number, SeenSandbox> {
  const found = new Map<number, SeenSandbox>();
  // The directories often are one, and looking into a sandbox costs a visit.
  const paths = new Map(directories.flatMap((directory) => namesIn(directory).map((name) => [name, `${directory}/${name}`] as const)));
  for (const path of paths.values()) {
    try {
      using sandbox = Sandbox.named(path);
      const id = namespaceIdOf(route, sandbox.fd);
      if (id !== undefined && !found.has(id)) found.set(id, seenOf(sandbox));
    } catch (error) {
      // A name whose namespace is gone, or that is no namespace.
      if (!(error instanceof TortieError)) throw error;
    }
  }
  return found;
}

function namesIn(directory: string): readonly string[] {
  return ifReadable(() => readdirSync(directory)) ?? [];
}
