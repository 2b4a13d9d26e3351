/** Reads routing rules by rtnetlink (include/uapi/linux/fib_rules.h). */
import type { Family } from "../../lib/addresses/address.ts";
import { numberOf, parseStructure, readU32, structure } from "../netlink/message.ts";
import type { Netlink } from "../netlink/socket.ts";

const RTM_GETRULE = 34;
const FRA_PRIORITY = 6;
const RULE_BYTES = 12;
/** Those of tables local, main and default, which the kernel makes itself. */
const USUAL: ReadonlySet<number> = new Set([0, 32_766, 32_767]);

/** Tells whether there are rules besides the kernel's own. @throws NetlinkError */
export function hasRules(socket: Netlink, family: Family): boolean {
  const payload = structure(RULE_BYTES, (view) => view.setUint8(0, numberOf(family)), []);
  return socket
    .dump({ type: RTM_GETRULE, payload })
    .some((message) => !USUAL.has(readU32(parseStructure(message, RULE_BYTES).attributes.get(FRA_PRIORITY)) ?? 0));
}
