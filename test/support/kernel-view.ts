/** One interface as iproute2 shows it, reduced to the fields that the recordings in golden/ have. */
import type { JsonRecord, Node, Pod } from "./node.ts";
import { words } from "./words.ts";

export interface KernelView {
  /** `undefined` when there is no such link. */
  readonly link: JsonRecord | undefined;
  readonly addresses: readonly JsonRecord[];
  readonly routes4: readonly JsonRecord[];
  readonly routes6: readonly JsonRecord[];
}

/** Marks that `ip -j addr` prints as members with the value true. */
const ADDRESS_FLAGS = words`tentative dadfailed deprecated temporary mngtmpaddr nodad noprefixroute stable-privacy optimistic dynamic`;
/** A new link's own link-local address comes when the kernel has noticed its carrier, and becomes usable a second later. */
const SETTLE = { tries: 40, delayMs: 100 };

/** Waits until the link-local address of the interface is there and usable, if IPv6 is on. */
export async function kernelView(node: Node, name: string, pod?: Pod): Promise<KernelView> {
  const ip = (...args: string[]) => (pod === undefined ? node.ip("-j", ...args) : node.podIp(pod, "-j", ...args));
  for (let tries = 1; ; tries++) {
    // A queue length of 0 is not printed.
    const all: JsonRecord[] = await ip("-d", "addr", "show");
    const link = all.find(({ ifname }) => ifname === name);
    if (link === undefined) return { link: undefined, addresses: [], routes4: [], routes6: [] };
    const addresses = listOf(link.addr_info).map((address) => addressView(name, address));
    const isSettled = addresses.some(({ scope, flags }) => scope === "link" && JSON.stringify(flags) === "[]");
    if (!isSettled && tries < SETTLE.tries) {
      await Bun.sleep(SETTLE.delayMs);
      continue;
    }
    return {
      link: pick({ txqlen: 0, ...link, kind: recordOf(link.linkinfo).info_kind }, [
        ...["ifname", "address", "mtu", "num_tx_queues", "num_rx_queues", "operstate", "flags", "group", "kind", "txqlen", "ifalias"],
      ]),
      addresses,
      routes4: (await ip("-d", "-4", "route", "show", "dev", name)).map((route) => routeView(route, name)),
      routes6: (await ip("-d", "-6", "route", "show", "dev", name)).map((route) => routeView(route, name)),
    };
  }
}

/** Links with their addresses, and routes, of a pod or of the host, but for link-local ones, which the kernel makes in its own time. */
export async function networkView(node: Node, pod?: Pod) {
  const ip = (...args: string[]) => (pod === undefined ? node.ip("-j", ...args) : node.podIp(pod, "-j", ...args));
  const links = await ip("address", "show");
  return {
    links: links.map(({ ifname, address, flags, addr_info }) => ({
      ifname,
      address,
      isUp: Array.isArray(flags) && flags.includes("UP"),
      addresses: listOf(addr_info)
        .map(({ local, prefixlen }) => `${local}/${prefixlen}`)
        .filter(isGlobal),
    })),
    routes: [...(await ip("route", "show")), ...(await ip("-6", "route", "show"))].filter(({ dst }) => isGlobal(String(dst))),
  };
}

function isGlobal(text: string): boolean {
  return !text.startsWith("fe80:");
}

function addressView(dev: string, address: JsonRecord): JsonRecord {
  const flags = ADDRESS_FLAGS.filter((flag) => address[flag] === true);
  return { dev, address: `${address.local}/${address.prefixlen}`, flags, ...pick(address, ["scope", "label"]) };
}

function routeView(route: JsonRecord, dev: string): JsonRecord {
  return { dev, ...pick(route, ["type", "dst", "gateway", "protocol", "scope", "metric", "flags", "pref", "metrics", "prefsrc"]) };
}

function pick(record: JsonRecord, keys: readonly string[]): JsonRecord {
  return Object.fromEntries(keys.flatMap((key) => (record[key] === undefined ? [] : [[key, record[key]]])));
}

function listOf(value: unknown): JsonRecord[] {
  return Array.isArray(value) ? value : [];
}

function recordOf(value: unknown): JsonRecord {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
