/** Makes the pair of links: what may be there already, which kinds this kernel has, which values it takes (C§4.2 steps 1 to 4, C§4.5). */
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { errnoText } from "../../lib/system/errno.ts";
import { attachmentAlias } from "../alias.ts";
import type { DesiredState } from "../desired-state.ts";
import { type Netlink, NetlinkError } from "../netlink/socket.ts";
import { getLink, type Link, type LinkKind, type Pair, pairRequest, setLinkMac } from "../rtnetlink/link.ts";
import { deleteHostLink } from "./delete-link.ts";
import { mayReplace } from "./ownership.ts";
import type { Site } from "./site.ts";

const EEXIST = 17;
const EINVAL = 22;
const EOPNOTSUPP = 95;
const EADDRNOTAVAIL = 99;
/** ETH_MIN_MTU and ETH_MAX_MTU (include/uapi/linux/if_ether.h), which veth and netkit take over. */
const MTU = { min: 68, max: 65535 };
/** IPV6_MIN_MTU (include/uapi/linux/ipv6.h): an interface below it has no IPv6 at all. */
const MTU_MIN_IPV6 = 1280;
/** net/core/rtnetlink.c, rtnl_create_link. */
const QUEUES_MAX = 4096;
const MAC_SETTLE = { tries: 50, delayMs: 100 };

export interface Ends {
  readonly host: Link;
  readonly pod: Link;
}

export interface CreatedPair extends Ends {
  readonly kind: LinkKind;
}

/**
 * Creates both ends, down, with names, MACs, MTU and queues. A host link in the way is replaced if it is this workload's.
 * @throws TortieError `interface-exists`, `mtu-invalid`, `queues-invalid`, `mac-invalid`, `link-failed`; nothing of the pair is there then
 */
export async function createPair(site: Site, desired: DesiredState): Promise<CreatedPair> {
  const { hostSocket, podSocket } = site;
  checkDevice(desired);
  const kind = await createFresh(site, desired);
  const host = presentLink(hostSocket, desired.host.name);
  try {
    return {
      kind,
      host: await withMac(hostSocket, host, desired.host.mac),
      pod: presentLink(podSocket, desired.pod.name),
    };
  } catch (error) {
    await deleteHostLink(host);
    throw error;
  }
}

/**
 * Refuses what the kernel would refuse with no more than "invalid argument" (recordings `mtu-67`, `mtu-70000`, `num-queues-5000`,
 * `mtu-1279`).
 */
function checkDevice({ device, pod }: DesiredState): void {
  const { mtu, queues } = device;
  if (mtu !== 0 && (!Number.isInteger(mtu) || mtu < MTU.min || mtu > MTU.max)) {
    throw new TortieError("mtu-invalid", `invalid argument: mtu ${mtu} is out of range, ${MTU.min} to ${MTU.max}`);
  }
  if (mtu !== 0 && mtu < MTU_MIN_IPV6 && pod.addresses.some(({ address }) => address.family === 6)) {
    throw new TortieError("mtu-invalid", `mtu ${mtu} is too small for IPv6 on ${pod.name}, which needs at least ${MTU_MIN_IPV6}`);
  }
  if (!Number.isInteger(queues) || queues < 1 || queues > QUEUES_MAX) {
    throw new TortieError("queues-invalid", `invalid argument: ${queues} queues are out of range, 1 to ${QUEUES_MAX}`);
  }
}

async function createFresh({ hostSocket, podSocket, sandbox }: Site, desired: DesiredState): Promise<LinkKind> {
  const pair = pairOf(sandbox.fd, desired);
  try {
    return createOfKind(hostSocket, desired.device.kind, pair);
  } catch (error) {
    if (!(error instanceof NetlinkError) || error.errno !== EEXIST) throw refusal(error, desired);
  }
  await replaceHostLink(hostSocket, desired);
  try {
    return createOfKind(hostSocket, desired.device.kind, pair);
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === EEXIST && getLink(podSocket, { name: desired.pod.name }) !== undefined) {
      const { pod } = desired;
      throw new TortieError("interface-exists", `file exists: sandbox ${sandbox.path} already has an interface ${pod.name}`, {
        cause: error,
      });
    }
    throw refusal(error, desired);
  }
}

function pairOf(namespaceFd: number, { device, host, pod }: DesiredState): Omit<Pair, "kind"> {
  return { mtu: device.mtu, queues: device.queues, host, pod: { name: pod.name, mac: pod.mac, namespaceFd } };
}

/** Removes a host link of the same name unless another attachment owns it: two pods can hash to one interface name. */
async function replaceHostLink(socket: Netlink, { host }: DesiredState): Promise<void> {
  const link = getLink(socket, { name: host.name });
  if (link === undefined) return;
  if (!mayReplace(link.alias, host)) {
    const wanted = attachmentAlias(host.owner);
    throw new TortieError(
      "interface-exists",
      `file exists: host interface ${host.name} belongs to another attachment, "${link.alias}", and is wanted for "${wanted}"`,
    );
  }
  await deleteHostLink(link);
}

/** A kernel without netkit answers EOPNOTSUPP, and then a veth does; any other refusal is one (C§4.5). */
function createOfKind(host: Netlink, kind: LinkKind, pair: Omit<Pair, "kind">): LinkKind {
  try {
    host.request(pairRequest({ ...pair, kind }));
    return kind;
  } catch (error) {
    if (kind !== "netkit" || !(error instanceof NetlinkError) || error.errno !== EOPNOTSUPP) throw error;
    return createOfKind(host, "veth", pair);
  }
}

function refusal(error: unknown, { device, host, pod }: DesiredState): unknown {
  if (!(error instanceof NetlinkError)) return error;
  const what = `${device.kind} ${host.name} with peer ${pod.name}`;
  if (error.errno === EADDRNOTAVAIL && pod.mac !== undefined) {
    return new TortieError("mac-invalid", `failed to set MAC address ${pod.mac} on ${pod.name}: ${messageOf(error)}`, { cause: error });
  }
  const values = error.errno === EINVAL ? ` (mtu ${device.mtu}, ${device.queues} queues)` : "";
  // The bare words of the kernel first, as Calico gives them.
  return new TortieError("link-failed", `${errnoText(error.errno)}: failed to create ${what}${values}: ${messageOf(error)}`, {
    cause: error,
  });
}

function presentLink(socket: Netlink, name: string): Link {
  const link = getLink(socket, { name });
  if (link === undefined) throw new TortieError("link-failed", `interface ${name} was removed by somebody else while it was set up`);
  return link;
}

/** Another program, such as udev, may change the MAC of a new link, so it is set again until it stays (C§12.1). */
async function withMac(socket: Netlink, link: Link, mac: string): Promise<Link> {
  let current = link;
  for (let tries = 0; current.mac !== mac; tries++) {
    if (tries === MAC_SETTLE.tries) {
      throw new TortieError("link-failed", `interface ${link.name} does not keep its MAC address ${mac}: it has ${current.mac}`);
    }
    if (tries > 0) await new Promise((resolve) => setTimeout(resolve, MAC_SETTLE.delayMs));
    setLinkMac(socket, link.index, mac);
    current = presentLink(socket, link.name);
  }
  return current;
}
