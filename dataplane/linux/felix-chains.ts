/** Whether Felix' own rules are in the kernel: they check where pods send from, as ours do. */
import { NETLINK_NETFILTER, NetlinkSocket } from "../netlink/socket.ts";
import { chainName, getChain } from "../nftables/message.ts";

/** Felix' chains in nftables, its own and those of iptables-nft, begin so, and after it has gone they check sources still. */
const FELIX_CHAIN = /^(filter-|raw-)?cali-/;

/** @throws NetlinkError */
export function hasFelixChains(): boolean {
  using socket = NetlinkSocket.open(NETLINK_NETFILTER);
  return (["inet", "ip", "ip6"] as const).some((family) =>
    socket.dump(getChain(family)).some((found) => FELIX_CHAIN.test(chainName(found) ?? "")),
  );
}
