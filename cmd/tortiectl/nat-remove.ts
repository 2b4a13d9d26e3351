/** `tortiectl nat remove`: takes away the one nftables table that masquerades what leaves the pools. */
import { removeMasquerade } from "../../dataplane/linux/nat.ts";
import type { Terminal } from "./terminal.ts";

/** @returns exit status */
export async function natRemove(terminal: Terminal): Promise<number> {
  await removeMasquerade();
  terminal.out("tortie's nftables table is removed; the next ADD to a pool with natOutgoing makes it again");
  return 0;
}
