/** Judges the programs of a host that may take links and packets of pods for their own: networkd, NetworkManager, firewalld, any filter. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { type FoundChain, mentions } from "../../dataplane/nftables/others.ts";
import { isThere, readText } from "../../lib/system/files.ts";
import { guardedPrefixes } from "../../lib/workload/names.ts";
import { abridged } from "../checks.ts";
import { type Finding, failed, skipped, warned, well } from "../report.ts";
import type { HostView } from "./view.ts";

/** networkd's own state (sd-network, /run/systemd/netif). */
const NETWORKD = "run/systemd/netif";
const UNMANAGED = `write /etc/systemd/network/05-tortie.network with "[Match]", "Name=cali* vxlan.calico vxlan-v6.calico", "[Link]" and "Unmanaged=yes", then: networkctl reload`;

/** Reads KEY=VALUE lines. */
export function settingsIn(text: string): ReadonlyMap<string, string> {
  const lines = text.split("\n").flatMap((line) => {
    const at = line.indexOf("=");
    return at > 0 ? [[line.slice(0, at), line.slice(at + 1)] as const] : [];
  });
  return new Map(lines);
}

/** @param state of the link, as networkd writes it */
export function judgeNetworkd(name: string, state: ReadonlyMap<string, string>): readonly Finding[] {
  const { ADMIN_STATE: admin = "", NETWORK_FILE: file = "" } = Object.fromEntries(state);
  if (["", "unmanaged", "pending", "initialized", "linger"].includes(admin)) return [];
  const by = file === "" ? "" : ` by ${file}`;
  return [
    failed(`interface ${name}`, `systemd-networkd manages it${by} (${admin}): it may take addresses and routes away`, { next: UNMANAGED }),
  ];
}

export function networkd(view: HostView): readonly Finding[] {
  const directory = join(view.options.root, NETWORKD, "links");
  if (!isThere(directory)) return [skipped("systemd-networkd", "it does not run here")];
  const found = view.hostEnds().flatMap(({ index, name }) => {
    const state = join(directory, String(index));
    return isThere(state) ? judgeNetworkd(name, settingsIn(readText(state))) : [];
  });
  return found.length > 0 ? abridged(found, "systemd-networkd") : [well("systemd-networkd", "it leaves the interfaces of pods alone")];
}

/** Later directories win for files of one name; for what is looked for here any of them will do (NetworkManager.conf(5)). */
const NETWORK_MANAGER = ["usr/lib/NetworkManager/conf.d", "run/NetworkManager/conf.d", "etc/NetworkManager/conf.d"];

/** @param configuration the text of all files @returns whether a line keeps it from interfaces of this prefix */
export function leavesAlone(configuration: string, prefix: string): boolean {
  return configuration.split("\n").some((line) => {
    const [, value] = /^\s*unmanaged-devices\s*\+?=\s*(.*)$/.exec(line) ?? [];
    return value?.split(/[;,]/).some((one) => one.trim() === `interface-name:${prefix}*`) === true;
  });
}

/** What it does with each link, by index (NetworkManager's nm-config.c): "managed" is true, false when somebody said so, or absent. */
const NETWORK_MANAGER_STATE = "run/NetworkManager/devices";

export function networkManager(view: HostView): readonly Finding[] {
  const { root } = view.options;
  if (!isThere(join(root, "run/NetworkManager"))) return [skipped("NetworkManager", "it does not run here")];
  const prefix = prefixOf(view);
  const next = `write /etc/NetworkManager/conf.d/tortie.conf with "[keyfile]" and "unmanaged-devices=interface-name:${prefix}*;interface-name:vxlan.calico;interface-name:vxlan-v6.calico", then: nmcli general reload`;
  const known = view.hostEnds().flatMap(({ index, name }) => {
    const state = join(root, NETWORK_MANAGER_STATE, String(index));
    return isThere(state) ? [{ name, isManaged: settingsIn(readText(state)).get("managed") === "true" }] : [];
  });
  const managed = known.filter(({ isManaged }) => isManaged);
  if (managed.length > 0) {
    const message = "NetworkManager manages it: it may take addresses and routes away";
    return abridged(
      managed.map(({ name }) => failed(`interface ${name}`, message, { next })),
      "NetworkManager",
    );
  }
  const text = [
    ...NETWORK_MANAGER.flatMap((directory) => textsIn(join(root, directory))),
    textAt(join(root, "etc/NetworkManager/NetworkManager.conf")),
  ];
  // Distributions have udev rules that keep it from interfaces of pods too, so what it does counts where it can be seen.
  if (known.length > 0 || leavesAlone(text.join("\n"), prefix)) return [well("NetworkManager", "it leaves the interfaces of pods alone")];
  return [
    warned("NetworkManager", `no file of its own keeps it from interfaces ${prefix}*: it may take their addresses and routes away`, {
      next,
    }),
  ];
}

function textsIn(directory: string): readonly string[] {
  if (!isThere(directory)) return [];
  return readdirSync(directory)
    .filter((name) => name.endsWith(".conf"))
    .map((name) => textAt(join(directory, name)));
}

function textAt(path: string): string {
  return isThere(path) ? readText(path) : "";
}

/** How firewalld calls its tables in nftables (firewall/core/nftables.py). */
const FIREWALLD = "firewalld";

export function firewalld(view: HostView): readonly Finding[] {
  const tables = view.chains().filter(({ table }) => table === FIREWALLD);
  const [table] = tables;
  if (table === undefined) return [skipped("firewalld", "it has no table in the kernel")];
  if (isMentioned(view, table)) return [well("firewalld", "one of its zones names the interfaces of pods")];
  const next = `firewall-cmd --permanent --zone=trusted --add-interface=${prefixOf(view)}+ && firewall-cmd --reload; or turn it off`;
  return [failed("firewalld", "none of its zones names the interfaces of pods: what it does not allow, it rejects", { next })];
}

/** Judges chains that drop what none of their rules lets through, as Docker's do. */
export function forwardChains(view: HostView): readonly Finding[] {
  const hasIpv6 = view.podFamilies().has(6);
  const closed = view.chains().filter(({ isForward, drops, family }) => isForward && drops && (family !== "ip6" || hasIpv6));
  const found = closed.filter((chain) => !isMentioned(view, chain)).map((chain) => judgeForwardChain(chain, prefixOf(view)));
  return found.length > 0 ? found : [well("packet filter", "no chain drops what is forwarded to and from pods by its policy")];
}

function judgeForwardChain({ family, table, name }: FoundChain, prefix: string): Finding {
  const object = `chain ${name} of table ${family} ${table}`;
  const program = { ip: "iptables", ip6: "ip6tables", inet: "nft" }[family];
  const next =
    family === "inet" || table !== "filter"
      ? `nft insert rule ${family} ${table} ${name} iifname "${prefix}*" accept; nft insert rule ${family} ${table} ${name} oifname "${prefix}*" accept`
      : `${program} -I ${name} -i ${prefix}+ -j ACCEPT; ${program} -I ${name} -o ${prefix}+ -j ACCEPT`;
  return failed(object, `it drops what is forwarded, by its policy, and no rule of its table names ${prefix}*`, { next });
}

/** An exact comparison has the whole name, and one of a prefix its letters alone. */
function isMentioned(view: HostView, chain: FoundChain): boolean {
  return mentions(view.sockets.netfilter, chain, prefixOf(view));
}

function prefixOf(view: HostView): string {
  return guardedPrefixes(view.options.env.FELIX_INTERFACEPREFIX)[0] ?? "cali";
}
