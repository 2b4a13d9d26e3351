/** Whether Felix' own rules are in the kernel: they check where pods send from, as ours do. */
import type { HostSockets } from "../netlink/host-sockets.ts";
import { chainName, getChain } from "../nftables/message.ts";

/** Felix' chains in nftables, its own and those of iptables-nft, begin so, and after it has gone they check sources still. */
const FELIX_CHAIN = /^(filter-|raw-)?cali-/;

/** @throws NetlinkError */
export function hasFelixChains({ netfilter }: HostSockets): boolean {
  return (["inet", "ip", "ip6"] as const).some((family) =>
    netfilter.dump(getChain(family)).some((found) => FELIX_CHAIN.test(chainName(found) ?? "")),
  );
}
