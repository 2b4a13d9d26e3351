/** The kernel's side of a network namespace in the recordings' form, read with iproute2 and from /proc/sys (never by our own netlink). */

import { words } from "../../support/words.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import { type Json, type JsonRecord, jsonOrUndefined, listOf, recordOf, textOf } from "./json.ts";

/** Settings of every link, below /proc/sys/net. */
const LINK_SYSCTLS = words`
  ipv4/conf/*/route_localnet ipv4/conf/*/proxy_arp ipv4/conf/*/forwarding ipv4/conf/*/rp_filter
  ipv4/neigh/*/proxy_delay ipv6/conf/*/accept_dad ipv6/conf/*/disable_ipv6 ipv6/conf/*/proxy_ndp
  ipv6/conf/*/forwarding ipv6/conf/*/accept_ra
`;
const HOST_SYSCTLS = ["ipv4/ip_forward"];
const POD_SYSCTLS = [
  "ipv4/ip_forward",
  "ipv6/conf/all/forwarding",
  "ipv6/conf/all/disable_ipv6",
  "ipv6/conf/default/disable_ipv6",
  "ipv6/conf/lo/disable_ipv6",
];

/**
 * How long carrier and link-local address of a new link may take (net/core/link_watch.c lets up to a second pass), how much longer when
 * the kernel is seen to be at it still, as on a loaded machine, and the pause between looks.
 */
const SETTLE = { limitMs: 1_500, workingLimitMs: 20_000, pauseMs: 20 };

/** @returns null when the namespace is gone */
export async function readKernel(sandbox: Sandbox, where: string): Promise<Json> {
  const workingDeadline = Date.now() + SETTLE.workingLimitMs;
  let deadline = Date.now() + SETTLE.limitMs;
  for (;;) {
    const state = await readOnce(sandbox, where);
    if (state === null || isSettled(state)) return state;
    if (isSettling(state)) deadline = Math.min(Date.now() + SETTLE.limitMs, workingDeadline);
    if (Date.now() > deadline) return state;
    await new Promise((done) => setTimeout(done, SETTLE.pauseMs));
  }
}

async function readOnce(sandbox: Sandbox, where: string): Promise<JsonRecord | null> {
  const ofNoLink = where === "host" ? HOST_SYSCTLS : POD_SYSCTLS;
  const sysctls = [...ofNoLink, ...LINK_SYSCTLS].map((path) => `/proc/sys/net/${path}`).join(" ");
  const ip = ["link", "address", "-4 route", "-6 route", "neighbour show nud permanent"].map((command) => {
    const [family = "", ...rest] = command.startsWith("-") ? command.split(" ") : ["", command];
    return `ip -j -d ${family} ${rest.join(" ")} | tr -d '\\n'; echo`;
  });
  const { exit, stdout } = await sandbox.shell(where, `${ip.join("; ")}; grep -s -H '' ${sysctls}`);
  if (exit !== 0 && stdout === "") return null;
  const [links, addresses, routes4, routes6, neighbours, ...settings] = stdout.split("\n");
  const names = listOf(parsed(links))
    .map((link) => textOf(recordOf(link).ifname))
    .filter((name) => name !== "lo");
  return {
    links: listOf(parsed(links)).map(recordOf).filter(isNotLoopback).map(linkOf),
    addresses: listOf(parsed(addresses)).map(recordOf).filter(isNotLoopback).flatMap(addressesOf),
    routes4: listOf(parsed(routes4)).map(recordOf).filter(isNotLoopback).map(routeOf),
    routes6: listOf(parsed(routes6)).map(recordOf).filter(isNotLoopback).map(routeOf),
    sysctls: sysctlsOf(settings, ofNoLink, names),
    neighbours: listOf(parsed(neighbours)),
  };
}

function parsed(line: string | undefined): Json | undefined {
  return jsonOrUndefined(line ?? "");
}

function isNotLoopback(entry: JsonRecord): boolean {
  return entry.ifname !== "lo" && entry.dev !== "lo";
}

function linkOf(link: JsonRecord): JsonRecord {
  // Newer iproute2 leaves out a queue length of 0.
  const { txqlen = 0, ifname, address, mtu, num_tx_queues, num_rx_queues, operstate, flags, group } = link;
  const kind = recordOf(link.linkinfo).info_kind ?? "";
  return defined({ txqlen, ifname, address, mtu, num_tx_queues, num_rx_queues, operstate, flags, group, kind });
}

/** Flags of an address are members that are true in iproute2's JSON, "nodad" and "tentative" for instance. */
function addressesOf(link: JsonRecord): JsonRecord[] {
  return listOf(link.addr_info)
    .map(recordOf)
    .filter((address) => address.local !== undefined)
    .map((address) => {
      const flags = Object.keys(address).filter((key) => address[key] === true && key !== "permanent");
      const text = `${textOf(address.local)}/${address.prefixlen}`;
      return defined({ dev: link.ifname, address: text, flags, scope: address.scope, label: address.label });
    });
}

function routeOf(route: JsonRecord): JsonRecord {
  const { type, dst, gateway, dev, protocol, scope, prefsrc, metric, flags, pref, metrics } = route;
  return defined({ type, dst, gateway, dev, protocol, scope, prefsrc, metric, flags, pref, metrics });
}

/** "ipv4/conf/eth0/rp_filter" → value, for the links that are there and the settings that belong to none. */
function sysctlsOf(lines: readonly string[], ofNoLink: readonly string[], links: readonly string[]): JsonRecord {
  return Object.fromEntries(
    lines.flatMap((line) => {
      const [, path = "", value = ""] = /^\/proc\/sys\/net\/([^:]+):(.*)$/.exec(line) ?? [];
      const [, , link = ""] = path.split("/");
      return ofNoLink.includes(path) || links.includes(link) ? [[path, value]] : [];
    }),
  );
}

/** Whether every link that is up has had the time to get its carrier and its link-local address. */
function isSettled(state: JsonRecord): boolean {
  const addresses = listOf(state.addresses).map(recordOf);
  const sysctls = recordOf(state.sysctls);
  return listOf(state.links)
    .map(recordOf)
    .every((link) => {
      const flags = listOf(link.flags);
      if (!flags.includes("UP")) return true;
      if (!flags.includes("LOWER_UP")) return flags.includes("NO-CARRIER") || flags.includes("M-DOWN");
      const name = textOf(link.ifname);
      const wantsIpv6 = sysctls[`ipv6/conf/${name}/disable_ipv6`] === "0" && Number(link.mtu) >= 1280;
      const own = addresses.filter((address) => address.dev === name);
      const hasLinkLocal = own.some(
        (address) => textOf(address.address).startsWith("fe80:") && !listOf(address.flags).includes("tentative"),
      );
      return link.operstate === "UP" && (!wantsIpv6 || hasLinkLocal);
    });
}

/** Whether the kernel has something to finish: a carrier that is there and not told yet, an address that is still looked for elsewhere. */
function isSettling(state: JsonRecord): boolean {
  const isWithoutState = (link: JsonRecord) => listOf(link.flags).includes("LOWER_UP") && link.operstate === "DOWN";
  const isTentative = (address: JsonRecord) => listOf(address.flags).includes("tentative");
  return listOf(state.links).map(recordOf).some(isWithoutState) || listOf(state.addresses).map(recordOf).some(isTentative);
}

function defined(members: Readonly<Record<string, Json | undefined>>): JsonRecord {
  return Object.fromEntries(Object.entries(members).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])));
}
