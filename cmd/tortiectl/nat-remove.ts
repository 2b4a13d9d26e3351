/** `tortiectl nat remove`: takes away the one nftables table that masquerades what leaves the pools. */
import { removeMasquerade } from "../../dataplane/linux/nat.ts";
import type { Terminal } from "./terminal.ts";

/**
 * @returns exit status
 * @throws TortieError `nat-failed`
 */
export function natRemove(terminal: Terminal): number {
  removeMasquerade();
  terminal.out("tortie's nftables table is not there any more; the next ADD to a pool with natOutgoing makes it again");
  return 0;
}
