/** VXLAN devices by rtnetlink (include/uapi/linux/if_link.h, drivers/net/vxlan). */
import { type Address, bytesOf } from "../../lib/addresses/address.ts";
import {
  addressOf,
  attributeMap,
  bytes,
  NLM_F_CREATE,
  NLM_F_EXCL,
  nest,
  parseStructure,
  readU32,
  text,
  u8,
  u32,
} from "../netlink/message.ts";
import type { Netlink, Request } from "../netlink/socket.ts";
import {
  askForLink,
  IFINFOMSG_BYTES,
  IFLA_ADDRESS,
  IFLA_GROUP,
  IFLA_IFNAME,
  IFLA_INFO_DATA,
  IFLA_INFO_KIND,
  IFLA_LINKINFO,
  IFLA_MTU,
  type Link,
  linkPayload,
  macBytes,
  parseLink,
  RTM_NEWLINK,
  UNFINISHED_GROUP,
} from "./link.ts";

const IFLA_VXLAN_ID = 1;
const IFLA_VXLAN_LINK = 3;
const IFLA_VXLAN_LOCAL = 4;
const IFLA_VXLAN_LEARNING = 7;
const IFLA_VXLAN_PORT = 15;
const IFLA_VXLAN_LOCAL6 = 17;

/** What can only be chosen when the device is made. */
export interface VxlanSettings {
  readonly vni: number;
  readonly port: number;
  /** Index of the link that encapsulated packets leave by. */
  readonly parent: number;
  readonly local: Address;
}

export interface VxlanLink extends Link {
  /** `undefined`: it is no VXLAN device. */
  readonly settings: (Omit<VxlanSettings, "local"> & { readonly local: Address | undefined; readonly learns: boolean }) | undefined;
}

/** The device is made down, and bears the mark of an unfinished link until its alias is written. */
export function vxlanRequest(name: string, mac: string, mtu: number, { vni, port, parent, local }: VxlanSettings): Request {
  const data = [
    u32(IFLA_VXLAN_ID, vni),
    u32(IFLA_VXLAN_LINK, parent),
    bytes(local.family === 4 ? IFLA_VXLAN_LOCAL : IFLA_VXLAN_LOCAL6, bytesOf(local)),
    u8(IFLA_VXLAN_LEARNING, 0),
    // Network byte order.
    bytes(IFLA_VXLAN_PORT, Uint8Array.of(port >> 8, port & 0xff)),
  ];
  const attributes = [
    text(IFLA_IFNAME, name),
    bytes(IFLA_ADDRESS, macBytes(mac)),
    u32(IFLA_MTU, mtu),
    u32(IFLA_GROUP, UNFINISHED_GROUP),
    nest(IFLA_LINKINFO, [text(IFLA_INFO_KIND, "vxlan"), nest(IFLA_INFO_DATA, data)]),
  ];
  return { type: RTM_NEWLINK, flags: NLM_F_CREATE | NLM_F_EXCL, payload: linkPayload(0, 0, attributes) };
}

/** Reads a link of any kind with its VXLAN settings; `undefined` when there is none of this name. @throws NetlinkError */
export function getVxlan(socket: Netlink, name: string): VxlanLink | undefined {
  const message = askForLink(socket, { name });
  if (message === undefined) return undefined;
  const link = parseLink(message);
  const info = parseStructure(message, IFINFOMSG_BYTES).attributes.get(IFLA_LINKINFO);
  const data = info === undefined || link.kind !== "vxlan" ? undefined : attributeMap(info).get(IFLA_INFO_DATA);
  return { ...link, settings: data === undefined ? undefined : settingsOf(attributeMap(data)) };
}

function settingsOf(data: ReadonlyMap<number, Uint8Array>): VxlanLink["settings"] {
  const port = data.get(IFLA_VXLAN_PORT);
  const [local4, local6] = [data.get(IFLA_VXLAN_LOCAL), data.get(IFLA_VXLAN_LOCAL6)];
  const local = local4 !== undefined ? addressOf(4, local4) : local6 !== undefined ? addressOf(6, local6) : undefined;
  return {
    vni: readU32(data.get(IFLA_VXLAN_ID)) ?? 0,
    parent: readU32(data.get(IFLA_VXLAN_LINK)) ?? 0,
    port: port === undefined ? 0 : ((port[0] ?? 0) << 8) | (port[1] ?? 0),
    local,
    learns: (data.get(IFLA_VXLAN_LEARNING)?.[0] ?? 0) !== 0,
  };
}
