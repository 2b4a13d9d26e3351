/**
 * Says which rules and devices of this host concern an attachment: Tortie's own table, the policy's, and what portmap and bandwidth, chained
 * behind Tortie, have made for it. They are found by the names that those plugins give them (containernetworking/plugins, pkg/utils/utils.go).
 */
import type { HostSockets } from "../../../dataplane/netlink/host-sockets.ts";
import { unlessMissing } from "../../../dataplane/netlink/message.ts";
import { ask, chainName } from "../../../dataplane/nftables/message.ts";
import { POLICY_TABLE } from "../../../dataplane/nftables/policy/layout.ts";
import { TABLE } from "../../../dataplane/nftables/table.ts";
import { listLinks } from "../../../dataplane/rtnetlink/link.ts";
import type { ExplainedRule } from "../../../doctor/explain/explanation.ts";
import type { PolicyStanding } from "../../../doctor/explain/facts.ts";
import { type NodeFacts, readNodeFacts } from "../../../doctor/policy-facts.ts";
import type { AttachmentId } from "../../../lib/cni/attachment-id.ts";
import type { AskedPolicy } from "../policy/check.ts";

export interface Rules {
  /** What the kernel says of policy on this node. */
  readonly node: NodeFacts;
  /** How the policy's table stands to an attachment; `undefined`: policy is off. */
  policyOf(hostInterface: string, addresses: readonly string[]): PolicyStanding | undefined;
  /** Whether the table is there that guards sources and masquerades. */
  readonly hasTable: boolean;
  of(hostInterface: string): readonly ExplainedRule[];
  chainedOf(attachment: Pick<AttachmentId, "network" | "containerId">): readonly ExplainedRule[];
}

/** pkg/utils/iptables.go: MaxChainLength 28, less "CNI-" and "DN-". */
const CHAIN_DIGITS = 28 - "CNI-DN-".length;
/** plugins/meta/bandwidth/main.go: an interface name of 15, less "bwp". */
const DEVICE_DIGITS = 15 - "bwp".length;

/** Tells whether a difference of the policy's table names one of these host ends and addresses: "map to-endpoint lacks cali1". */
export function isNamed(difference: string, names: readonly string[]): boolean {
  const words = difference.split(/[\s,"]+/);
  return names.some((name) => name !== "" && words.includes(name));
}

/** @param asked what the agent says of policy; `undefined`: nothing */
export function rulesOf(host: HostSockets, asked?: AskedPolicy): Rules {
  const { netfilter, route } = host;
  const hasTable = (["inet", "ip"] as const).some(
    (family) => unlessMissing(() => netfilter.request(ask("table", family, TABLE))) !== undefined,
  );
  const node = readNodeFacts(host, process.env);
  const { known } = node;
  const isEnforced = asked?.isEnforced === true;
  const chains = new Set(
    (["ip", "ip6"] as const).flatMap((family) => netfilter.dump(ask("chain", family)).flatMap((one) => chainName(one) ?? [])),
  );
  const links = new Set(listLinks(route).map(({ name }) => name));
  return {
    hasTable,
    node,
    policyOf: (name, addresses) =>
      isEnforced || known !== undefined
        ? {
            isKnown: known?.has(name),
            differences: (asked?.differences ?? []).filter((one) => isNamed(one, [name, ...addresses])),
            isServed: isEnforced,
          }
        : undefined,
    of: (name) => [
      {
        by: "tortie",
        place: `table inet ${TABLE}`,
        isPresent: hasTable,
        message: hasTable
          ? "guards the sources of pods and masquerades what leaves the pools"
          : "is not there: Felix does its work, or nobody",
      },
      ...(known === undefined
        ? []
        : [
            {
              by: "policy",
              place: `table inet ${POLICY_TABLE}`,
              isPresent: known.has(name),
              message: known.has(name) ? `judges packets of ${name}` : `does not know ${name}, and drops its packets`,
            },
          ]),
    ],
    chainedOf: (attachment) => {
      const chain = portmapChain(attachment);
      const device = bandwidthDevice(attachment);
      return [
        ...(chains.has(chain)
          ? [{ by: "portmap", place: `chain ${chain}`, isPresent: true, message: "leads ports of the host to it" }]
          : []),
        ...(links.has(device) ? [{ by: "bandwidth", place: `link ${device}`, isPresent: true, message: "limits what it sends" }] : []),
      ];
    },
  };
}

function portmapChain({ network, containerId }: Pick<AttachmentId, "network" | "containerId">): string {
  return `CNI-DN-${sha512(network + containerId).slice(0, CHAIN_DIGITS)}`;
}

function bandwidthDevice({ network, containerId }: Pick<AttachmentId, "network" | "containerId">): string {
  return `bwp${sha512(network + containerId).slice(0, DEVICE_DIGITS)}`;
}

function sha512(text: string): string {
  return new Bun.CryptoHasher("sha512").update(text).digest("hex");
}
