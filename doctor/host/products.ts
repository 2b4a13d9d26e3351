/** Knows other networks for pods by what they leave on a host: plugins in lists, links, and chains and tables of the packet filter. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { TUNNEL_ALIAS } from "../../dataplane/dataplane.ts";
import type { Link } from "../../dataplane/rtnetlink/link.ts";
import { readText } from "../../lib/system/files.ts";
import { enumerate } from "../problem.ts";
import { type Finding, warned, well } from "../report.ts";
import type { HostView } from "./view.ts";

interface Product {
  readonly name: string;
  readonly plugins: readonly string[];
  readonly links: RegExp;
  /** Chains of any table, and tables of nftables, as "chain NAME" and "table NAME". */
  readonly rules: RegExp;
  /** Names of its processes, cut to 15 bytes as the kernel does. */
  readonly processes: readonly string[];
  readonly remove: string;
}

/** Matches no name. */
const NONE = /^(?!)/;

/**
 * Calico's kube-controllers and Felix may run beside Tortie; what Felix leaves once it has gone still drops packets.
 * Sources: the products' own names, which they keep so that they find them again.
 */
const PRODUCTS: readonly Product[] = [
  {
    name: "flannel",
    plugins: ["flannel"],
    links: /^(flannel\.\d+|flannel-v6\.\d+|flannel-wg(-v6)?)$/,
    rules: /^(chain FLANNEL-|table flannel-)/,
    processes: ["flanneld"],
    remove: "ip link delete flannel.1; iptables -F FLANNEL-FWD, and its jump in FORWARD; nft delete table ip flannel-ipv4",
  },
  {
    name: "Weave Net",
    plugins: ["weave-net"],
    links: /^(weave|vxlan-6784|datapath|vethwe-(bridge|datapath))$/,
    rules: /^chain WEAVE/,
    processes: ["weaver"],
    remove: "ip link delete weave; iptables -F and -X for each chain WEAVE*, and their jumps in INPUT and FORWARD",
  },
  {
    name: "Cilium",
    plugins: ["cilium-cni"],
    links: /^(cilium_(host|net|vxlan|geneve|wg0)|lxc_health)$/,
    rules: /^(chain (OLD_)?CILIUM_|table cilium)/,
    processes: ["cilium-agent"],
    remove: "cilium uninstall, or ip link delete cilium_host, and iptables -F and -X for each chain CILIUM_*",
  },
  {
    name: "Felix",
    plugins: [],
    links: NONE,
    rules: /^(chain (filter-|raw-|mangle-|nat-)?cali-|table calico)/,
    processes: ["calico-node", "calico-felix", "felix"],
    remove: "iptables-save | grep -v cali- | iptables-restore, and the same with ip6tables; nft delete table inet calico",
  },
  {
    name: "kube-router",
    plugins: [],
    links: /^(kube-bridge|kube-dummy-if)$/,
    rules: /^chain KUBE-(ROUTER|NWPLCY|POD-FW)/,
    processes: ["kube-router"],
    remove:
      "kube-router --cleanup-config, or ip link delete kube-bridge, and iptables -F and -X for each chain KUBE-ROUTER-* and KUBE-POD-FW-*",
  },
  {
    name: "Antrea",
    plugins: ["antrea"],
    links: /^antrea-(gw0|tun0|egress0)$/,
    rules: /^chain ANTREA-/,
    processes: ["antrea-agent"],
    remove: "ip link delete antrea-gw0, and iptables -F and -X for each chain ANTREA-*",
  },
  {
    name: "OVN-Kubernetes",
    plugins: ["ovn-k8s-cni-overlay"],
    links: /^ovn-k8s-mp\d$/,
    rules: /^chain OVN-KUBE-/,
    processes: ["ovnkube"],
    remove: "ip link delete ovn-k8s-mp0, and iptables -F and -X for each chain OVN-KUBE-*",
  },
];

/** @returns the product whose plugin it is; `undefined` for ours, and for plugins that belong to nobody */
export function productOfPlugin(type: string): string | undefined {
  return PRODUCTS.find(({ plugins }) => plugins.includes(type))?.name;
}

interface Signs {
  readonly links: readonly Pick<Link, "name" | "alias">[];
  /** "chain NAME", "table NAME". */
  readonly rules: readonly string[];
  readonly processes: ReadonlySet<string>;
}

/** Judges each product of which there is a sign in the kernel. */
export function judgeProducts({ links, rules, processes }: Signs): readonly Finding[] {
  return PRODUCTS.flatMap((product): readonly Finding[] => {
    const found = [
      ...links.filter(({ name, alias }) => product.links.test(name) && alias !== TUNNEL_ALIAS).map(({ name }) => `link ${name}`),
      ...new Set(rules.filter((rule) => product.rules.test(rule))),
    ];
    if (found.length === 0) return [];
    const isRunning = product.processes.some((name) => processes.has(name));
    if (isRunning && product.name === "Felix") return [well(product.name, "Felix runs on this host: it makes policy and routes here")];
    if (isRunning) {
      return [
        warned(product.name, `it runs on this host beside Tortie: ${enumerate(found)}`, {
          next: `let one network serve this host: take ${product.name} or Tortie off it`,
        }),
      ];
    }
    return [
      warned(product.name, `nothing of it runs here, and it has left ${enumerate(found)}`, { next: `take it away: ${product.remove}` }),
    ];
  });
}

export function leftOvers(view: HostView): readonly Finding[] {
  const found = judgeProducts({ links: view.links(), rules: rulesOf(view), processes: processesBelow(join(view.options.root, "proc")) });
  return found.length > 0 ? found : [well("packet filter", "no link, chain or table of another network is left")];
}

/** @throws NetlinkError, for want of privilege too */
function rulesOf({ chains }: HostView): readonly string[] {
  return chains().flatMap(({ table, name }) => [`chain ${name}`, `table ${table}`]);
}

function processesBelow(directory: string): ReadonlySet<string> {
  const names = new Set<string>();
  for (const entry of readdirSync(directory)) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      names.add(readText(join(directory, entry, "comm")).trim());
    } catch {
      // It has ended meanwhile.
    }
  }
  return names;
}
